"""Runs a program once and records some of its launches as capsules. The program is not modified."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling import processes
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.driver import DriverError, describe
from ncubble.profiling.failures import NoGpuError
from ncubble.profiling.ncu import Filters
from ncubble.profiling.processes import refuse_inside_profiler
from ncubble.profiling.provenance import FACTS
from ncubble.profiling.recorders.injection import injection

SOURCE = Path(__file__).with_name("capture.cpp")
MOST_B = 16 << 30
"""Maximum memory of a launch that is copied to disk."""


@dataclass(frozen=True)
class CaptureRequest:
    """What to record: launches of ``program`` selected by ``filters`` (kernel, skip, count; the
    pattern is searched in the base name and in the demangled name). ``most_B``: refuse launches
    that reach more memory than this."""

    program: Sequence[str]
    filters: Filters
    timeout_s: float | None = None
    most_B: int = MOST_B  # noqa: N815


@dataclass(frozen=True)
class Captured:
    """Result of a recording: capsules in launch order, launches that could not be recorded (kernel,
    why), and how the program ended."""

    capsules: list[Capsule]
    refused: list[tuple[str, str]]
    status: int


def capture(request: CaptureRequest, folder: Path, on_text: Callable[[processes.Stream, str], None]) -> Captured:
    """Run the program to its end and record its capsules in ``folder``. Raises UsageError,
    MeasurementError if nothing was recorded, and ``processes.TimedOutError``.
    """
    refuse_inside_profiler(os.environ)
    if request.filters.nvtx or request.filters.window:
        raise UsageError("launches are selected by --kernel, --skip and --count here", "omit --nvtx")
    env = {
        **os.environ,
        "CUDA_INJECTION64_PATH": str(injection(SOURCE).absolute()),
        "NCUBBLE_CAPSULES": str(folder.absolute()),
        "NCUBBLE_CAPSULES_KERNEL": request.filters.kernel,
        "NCUBBLE_CAPSULES_SKIP": str(request.filters.skip),
        "NCUBBLE_CAPSULES_COUNT": str(request.filters.count or 1),
        "NCUBBLE_CAPSULES_BYTES": str(request.most_B),
        FACTS: str(folder.absolute() / "facts.json"),
    }
    status = processes.stream(list(request.program), env, on_text, request.timeout_s)
    folders = sorted(folder.glob("capsule-*"), key=lambda path: path.stat().st_mtime_ns)
    capsules = [Capsule.load(path) for path in folders if (path / "complete").is_file()]
    refused = _refused(folder)
    if not capsules:
        raise _nothing(request, refused, status)
    return Captured(capsules, refused, status)


def _refused(folder: Path) -> list[tuple[str, str]]:
    lines = (line for path in sorted(folder.glob("refused-*.jsonl")) for line in path.read_text().splitlines())
    return list(dict.fromkeys((str(row["kernel"]), str(row["why"])) for row in map(json.loads, lines)))


def _nothing(request: CaptureRequest, refused: Sequence[tuple[str, str]], status: int) -> MeasurementError:
    ended = f"the program ended with {processes.ending(status)}"
    if not refused:
        try:
            describe()
        except DriverError as error:
            return NoGpuError(str(error))
        return MeasurementError(
            f"no launch was recorded: none matches {request.filters}, or it ran in a CUDA graph; {ended}",
            "list its kernels with `ncubble streams -- PROGRAM`",
        )
    kernel, why = refused[0]
    return MeasurementError(f"{kernel or 'the program'} cannot be recorded: {why}; {ended}", "choose another launch")
