"""The program that launches a kernel of the catalog, for whoever profiles it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ncubble.kernels.run.request import KernelRequest


@dataclass(frozen=True)
class KernelProgram:
    """``argv`` launches the kernel; ``label`` names its run directory, ``function`` is the name of
    its GPU function, and ``note`` says why its result has no reference (empty: it has one)."""

    argv: list[str]
    label: str
    function: str
    note: str


def kernel_program(
    name: str, parameters: Sequence[str], shape: str | None, catalog: Path | None, launches: int
) -> KernelProgram:
    """The program that launches a catalog kernel ``launches`` times, unverified and untimed.

    ``parameters`` as ``NAME=VALUE``, ``shape`` as ``M=…,N=…``. Raises UsageError for a request that
    the kernel refuses.
    """
    case = KernelRequest.parse(name, parameters, shape, catalog, launches=launches).case()
    argv = [sys.executable, "-P", "-m", "ncubble.kernels", name, "--once", "--no-verify", "--launches", str(launches)]
    for item in parameters:
        argv += ["-p", item]
    if shape:
        argv += ["--shape", shape]
    if catalog:
        argv += ["--catalog", str(catalog)]
    chosen = (item.replace("=", "") for item in (*parameters, *filter(None, [shape])))
    return KernelProgram(argv, "-".join([name, *chosen]), case.spec.entry, case.unverified or "")
