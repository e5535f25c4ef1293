"""``python -m ncubble.cli.commands.sweep.job FOLDER``: the child process that does one job of a sweep, or describes
a worker's machine.

``FOLDER/order.json`` says what to do; ``FOLDER/result.json`` what came of it. Not meant to be
called directly.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ncubble.errors import MeasurementError, NcubbleError
from ncubble.profiling import failures, orphans
from ncubble.profiling.sweeps.job import Machine
from ncubble.profiling.sweeps.worker import ORDER, PROBE, RESULT, RUN

CHILD = ("-P", "-m", "ncubble.cli.commands.sweep.job")
OF_THE_MACHINE = (
    failures.NcuMissingError,
    failures.NcuTooOldError,
    failures.NcuUnusableError,
    failures.CounterPermissionError,
    failures.NoGpuError,
    failures.ProfilerBusyError,
    failures.LockFileError,
    failures.DiskError,
)
"""Failures that every other job would hit on this machine, too."""


class OtherCodeError(MeasurementError):
    """The worker's ncubble, or its copy of a catalog, is not the one that the sweep was planned with."""

    def __init__(self, kernel: str) -> None:
        super().__init__(
            f"the sources of {kernel} differ from those of the sweep's plan",
            "install the same ncubble on every host, and use a --catalog folder that all hosts can read",
        )


def main(argv: list[str] | None = None, work: Callable[[Mapping[str, Any], Path], dict[str, Any]] | None = None) -> int:
    """Carry out the order in the folder that is named; returns the exit code. ``work`` replaces what is done."""
    if not orphans.tie_to_parent():
        return 1
    signal.signal(signal.SIGTERM, _end)
    folder = Path((argv or sys.argv)[-1])
    order = json.loads((folder / ORDER).read_text(encoding="utf-8"))
    carry_out = work or (describe if order.get(PROBE) else measure)
    try:
        result = carry_out(order, folder)
    except NcubbleError as error:
        unable = isinstance(error, (*OF_THE_MACHINE, OtherCodeError))
        result = {"state": "unable" if unable else "failed", "error": error.message, "remedy": error.remedy}
        result["exit_code"] = error.exit_code
    (folder / RESULT).write_text(json.dumps(result), encoding="utf-8")
    return 0


def _end(number: int, frame: Any) -> None:
    """Leave through every ``finally``: these end what was started."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def measure(order: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Build the kernel, then profile it once; raises NcubbleError."""
    from ncubble.api.profiling import record_profile
    from ncubble.api.subjects import catalog_subject
    from ncubble.profiling.ncu import Control
    from ncubble.profiling.recorders.ncu import NcuSettings

    catalog = Path(order["catalog"]) if order.get("catalog") else None
    _build(order, catalog)
    subject = catalog_subject(order["kernel"], order["parameters"], order["shape"], catalog, order["repeat"])
    control = Control(order["clock_control"], order["cache_control"])
    settings = NcuSettings(tuple(order["sets"]), tuple(order["metrics"]), control=control)
    manifest = record_profile(subject, settings, folder / RUN).manifest
    missing = manifest.report["missing"] if manifest.outcome != "ok" else []
    error = f"metrics without a value (n/a): {', '.join(missing)}" if missing else ""
    return {"state": manifest.outcome, "error": error, "remedy": "", "exit_code": 3 if missing else 0}


def _build(order: Mapping[str, Any], catalog: Path | None) -> None:
    """Compile outside of the profiler, so that a source that does not compile says so in one line."""
    from ncubble.kernels.build import arch_for, build, code_digest
    from ncubble.kernels.run.session import KernelRequest
    from ncubble.profiling.driver import DriverError
    from ncubble.profiling.driver import describe as describe_gpu

    case = KernelRequest.parse(order["kernel"], order["parameters"], order["shape"], catalog).case()
    if code_digest(case) != order["code"]:
        raise OtherCodeError(order["kernel"])
    if case.spec.language == "numba":
        return
    try:
        capability = describe_gpu().capability
    except DriverError as error:
        raise failures.NoGpuError(str(error)) from error
    build(case, arch_for(capability.major, capability.minor))


def describe(order: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """This machine, as ``asdict`` of a ``Machine``; raises NcubbleError if nothing can be profiled
    here."""
    from ncubble.profiling.ncu import find_ncu

    tool = find_ncu()
    device, uuids = _device()
    return asdict(
        Machine(
            device=device.name,
            uuid=device.uuid or os.environ.get("CUDA_VISIBLE_DEVICES", ""),
            capability=str(device.capability),
            driver=device.driver,
            tools={"ncu": tool.release, "nvcc": _nvcc(), "numba": _numba()},
            gpus=tuple(uuids),
        )
    )


def _device() -> tuple[Any, list[str]]:
    from ncubble.profiling.driver import DriverError, visible_uuids
    from ncubble.profiling.driver import describe as describe_gpu

    try:
        return describe_gpu(), visible_uuids()
    except DriverError as error:
        raise failures.NoGpuError(str(error)) from error


def _nvcc() -> str:
    from ncubble.kernels.build import compiler_version, find_tool

    try:
        return compiler_version(find_tool("nvcc"))
    except NcubbleError:
        return ""


def _numba() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("numba-cuda")
    except PackageNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
