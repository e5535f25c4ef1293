"""``python -m ncubble.api.sweep_child FOLDER``: the child process that does one job of a sweep, or
describes a worker's machine (``profiling/sweeps/worker.py``).

``FOLDER/order.json`` says what to do; ``FOLDER/result.json`` what came of it. Not meant to be
called directly.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from ncubble.errors import NcubbleError
from ncubble.profiling import driver, failures, orphans
from ncubble.profiling.sweeps.store import Machine
from ncubble.profiling.sweeps.worker import ORDER, PROBE, RESULT, RUN
from ncubble.records import JsonObject

CHILD = ("-P", "-m", "ncubble.api.sweep_child")


class OtherCodeError(failures.MachineError):
    """The worker's ncubble, or its copy of a catalog, is not the one that the sweep was planned
    with."""

    def __init__(self, kernel: str) -> None:
        remedy = "install the same ncubble on every host, and use a --catalog folder that all hosts can read"
        super().__init__(f"the sources of {kernel} differ from those of the sweep's plan", remedy)


def main(argv: list[str] | None = None, work: Callable[[Mapping[str, Any], Path], JsonObject] | None = None) -> int:
    """Carry out the order in the folder that is named; returns the exit code. ``work`` replaces
    what is done."""
    if not orphans.tie_to_parent():
        return 1
    signal.signal(signal.SIGTERM, _end)
    folder = Path((argv or sys.argv)[-1])
    order = json.loads((folder / ORDER).read_text(encoding="utf-8"))
    try:
        result = (work or (describe if order.get(PROBE) else measure))(order, folder)
    except NcubbleError as error:
        state = "unable" if isinstance(error, failures.MachineError) else "failed"
        result = {"state": state, "error": error.message, "remedy": error.remedy, "exit_code": error.exit_code}
    except _EndedError as ended:
        # A signal within Popen() leaves a process that no ``finally`` knows.
        if own := os.environ.get(orphans.MARK):
            orphans.end_marked(own)
        return 128 + int(ended.args[0])
    (folder / RESULT).write_text(json.dumps(result), encoding="utf-8")
    return 0


class _EndedError(BaseException):
    """A signal ended the job; its number."""


def _end(number: int, frame: Any) -> None:
    """Leave through every ``finally``: these end what was started."""
    signal.signal(number, signal.SIG_IGN)
    raise _EndedError(number)


def measure(order: Mapping[str, Any], folder: Path) -> JsonObject:
    """Build the kernel, outside of the profiler, so that a source that does not compile says so in
    one line; then profile it once. Raises NcubbleError."""
    from ncubble.api.profiling import record_profile
    from ncubble.api.subjects import catalog_subject
    from ncubble.kernels.build import arch_for, build, code_digest
    from ncubble.kernels.run.session import KernelRequest
    from ncubble.profiling.recorders.ncu import NcuSettings

    catalog = Path(order["catalog"]) if order["catalog"] else None
    case = KernelRequest.parse(order["kernel"], order["settings"], catalog).case()
    if code_digest(case) != order["code"]:
        raise OtherCodeError(order["kernel"])
    if case.spec.language != "numba":
        capability = driver.require_gpu().capability
        build(case, arch_for(capability.major, capability.minor))
    subject = catalog_subject(order["kernel"], order["settings"], catalog, order["repeat"])
    settings = NcuSettings(tuple(order["sets"]))
    manifest = record_profile(subject, settings, folder / RUN).manifest
    missing = manifest.report["missing"] if manifest.outcome != "ok" else []
    error = f"metrics without a value (n/a): {', '.join(missing)}" if missing else ""
    return {"state": manifest.outcome, "error": error, "remedy": "", "exit_code": 3 if missing else 0}


def describe(order: Mapping[str, Any], folder: Path) -> JsonObject:
    """This machine, as ``asdict`` of a ``Machine``; raises NcubbleError if nothing can be profiled
    here."""
    from ncubble.kernels.build import compiler_version, find_tool
    from ncubble.profiling.ncu import find_ncu

    tools = {"ncu": find_ncu().release, "nvcc": "", "numba": "", "triton": ""}
    device = driver.require_gpu()
    with suppress(NcubbleError):
        tools["nvcc"] = compiler_version(find_tool("nvcc"))
    for name, package in (("numba", "numba-cuda"), ("triton", "triton")):
        with suppress(metadata.PackageNotFoundError):
            tools[name] = metadata.version(package)
    uuid = device.uuid or os.environ.get("CUDA_VISIBLE_DEVICES", "")
    gpus = tuple(driver.visible_uuids())
    return asdict(Machine(device.name, uuid, str(device.capability), device.driver, tools=tools, gpus=gpus))


if __name__ == "__main__":
    sys.exit(main())
