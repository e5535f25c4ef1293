"""Subjects: kernels of a catalog, and programs, as what can be recorded."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ncubble.api.reports import ReportPath, as_path
from ncubble.errors import UsageError
from ncubble.profiling.subject import Subject

OF_KERNELS = "-p and --catalog are for catalog kernels"


def catalog_subject(name: str, settings: Sequence[str] = (), catalog: Path | None = None, repeat: int = 1) -> Subject:
    """The program that launches a catalog kernel ``repeat`` times, unverified and untimed.

    ``settings``: parameters and sizes, as ``NAME=VALUE``. Raises UsageError for a request that the
    kernel refuses.
    """
    from ncubble.kernels.run.session import KernelRequest

    case = KernelRequest.parse(name, settings, catalog, launches=repeat).case()
    argv = [sys.executable, "-P", "-m", "ncubble.kernels", name, "--once", "--no-verify", "--launches", str(repeat)]
    for item in settings:
        argv += ["-p", item]
    argv += ["--catalog", str(catalog)] if catalog else []
    label = "-".join([name, *(item.replace("=", "") for item in settings)])
    return Subject(argv, label, case.spec.entry, note=case.unverified or "")


def chosen_subject(
    program: Sequence[str] | None,
    name: str | None,
    settings: Sequence[str] = (),
    catalog: Path | None = None,
    repeat: int = 1,
) -> Subject:
    """The kernel called ``name``, or the ``program`` of a command line, whichever is given. Raises
    UsageError for both, neither, or settings of kernels for a program."""
    if (name is None) == (program is None):
        raise UsageError("name a catalog kernel, or a program after --", "see `--help`")
    if program is None:
        return catalog_subject(name or "", settings, catalog, repeat)
    if settings or catalog or repeat != 1:
        raise UsageError(OF_KERNELS, "pass options after --")
    return Subject.of_program(program)


def given_subject(
    program: Sequence[ReportPath] | str,
    parameters: Mapping[str, Any] | None = None,
    shape: Mapping[str, int] | None = None,
    catalog: ReportPath | None = None,
    repeat: int = 1,
) -> Subject:
    """What a caller of the library wants to record: a program and its arguments in a list, or a
    catalog kernel by its name. Raises UsageError for settings of kernels with a list, and for what
    is neither."""
    if isinstance(program, str):
        if len(program.split()) != 1 or os.sep in program:
            raise UsageError(f"{program!r} is not a catalog kernel", "pass a program as a list: ['python', 'train.py']")
        return catalog_subject(program, [*as_pairs(parameters), *as_pairs(shape)], as_path(catalog), repeat)
    of_kernel = {"parameters": parameters, "shape": shape, "catalog": catalog, "repeat": repeat != 1}
    given = [name for name, value in of_kernel.items() if value]
    if given:
        raise UsageError(f"{given[0]} is for catalog kernels only", "pass it to the program in the list")
    argv = [os.fspath(word) for word in program]
    if not argv:
        raise UsageError("the list names no program", "pass it and its arguments: ['python', 'train.py']")
    return Subject.of_program(argv)


def as_pairs(settings: Mapping[str, Any] | None) -> list[str]:
    """``NAME=VALUE`` of each setting."""
    return [f"{key}={value}" for key, value in (settings or {}).items()]
