"""A kernel of the catalog that is measured now, and what it is on each of two sides: found out by a process of its own,
since the kernels of two revisions cannot be loaded into one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncubble.errors import MeasurementError, UsageError

if TYPE_CHECKING:
    from ncubble.cli.commands.check.options import Measuring
    from ncubble.profiling.revisions.sides import RevisionSide

SAME = "machine code and launch are the same on both sides: any difference is noise"
OTHER_LAUNCH = "the machine code is the same on both sides, the launch is not: {} differs"
_LIMIT_S = 900.0


@dataclass(frozen=True)
class CatalogKernel:
    """A kernel of the catalog as it is asked for."""

    name: str
    parameters: tuple[str, ...] = ()
    shape: str = ""

    @property
    def label(self) -> str:
        """Name and settings, for messages and folders."""
        return " ".join([self.name, *self.parameters, *([self.shape] if self.shape else [])])


@dataclass(frozen=True)
class SideLaunch:
    """What a side would launch: ``code`` is a hash of its machine code, None where that is not known before."""

    label: str
    function: str
    launch: Mapping[str, str]
    code: str | None

    def likeness(self, other: SideLaunch) -> str | None:
        """What is to be said of the machine code of both: nothing where it differs, None where that is not known."""
        if self.code is None or other.code is None:
            return None
        if self.code != other.code:
            return ""
        differing = [name for name, value in self.launch.items() if other.launch.get(name) != value]
        return OTHER_LAUNCH.format(", ".join(differing)) if differing else SAME


def launching(measuring: Measuring, side: RevisionSide, subject: CatalogKernel) -> list[str]:
    """The argv that launches the kernel of ``side``, unverified and untimed."""
    once = ["--once", "--no-verify", "--launches", str(measuring.launches)]
    return [*_module(measuring, side), *_arguments(measuring, side, subject), *once]


def describe(measuring: Measuring, side: RevisionSide, subject: CatalogKernel) -> SideLaunch:
    """What ``side`` would launch, built where there is a GPU to build for.

    Raises UsageError where it has no such kernel or not with these settings, MeasurementError where it does not build.
    """
    argv = [*_module(measuring, side), "--describe", _arch(), *_arguments(measuring, side, subject)]
    env = {**os.environ, **side.place.env}
    try:
        done = subprocess.run(
            argv, cwd=side.folder, env=env, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise MeasurementError(f"{side.what}: no build within {_LIMIT_S:g} s", "look for a hanging compiler") from error
    if done.returncode == 0:
        description = json.loads(done.stdout.splitlines()[-1])
        return SideLaunch(description["label"], description["function"], description["launch"], description["code"])
    message, _, remedy = done.stderr.strip().removeprefix("ncubble.kernels: ").partition("\n  remedy: ")
    if done.returncode == UsageError.exit_code:
        raise UsageError(message, remedy)
    raise MeasurementError(
        f"{side.what}: {message[-2000:]}", remedy or "launch the kernel of that side by hand to see why"
    )


def _arguments(measuring: Measuring, side: RevisionSide, subject: CatalogKernel) -> list[str]:
    """What follows the module: the kernel, its settings, and the folder that it is of."""
    settings = [text for item in subject.parameters for text in ("-p", item)]
    shape = ["--shape", subject.shape] if subject.shape else []
    catalog = ["--catalog", str(side.folder)] if measuring.catalog is not None else []
    return [subject.name, *settings, *shape, *catalog]


def _module(measuring: Measuring, side: RevisionSide) -> list[str]:
    """The program that knows the kernels of ``side``: this ncubble with the side's catalog, or the side's ncubble."""
    tree = [] if measuring.catalog is not None else ["--tree", str(side.root)]
    return [sys.executable, "-P", "-m", "ncubble.kernels.run.other_tree", *tree]


def _arch() -> str:
    """nvcc's name of the GPU's architecture, or what stands for none."""
    from ncubble.kernels.build import arch_for
    from ncubble.kernels.run.other_tree import NOT_BUILT
    from ncubble.profiling.driver import DriverError, describe

    try:
        capability = describe().capability
    except DriverError:
        return NOT_BUILT
    return arch_for(capability.major, capability.minor)
