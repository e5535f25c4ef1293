"""Runs a program once and records some of its launches as capsules. The program is not modified."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from ncubble.errors import MeasurementError
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.ncu import Filters
from ncubble.profiling.processes import refuse_inside_profiler
from ncubble.profiling.provenance import FACTS
from ncubble.profiling.recorders.injection import injection
from ncubble.profiling.session import ProgramEnd, Session

SOURCE = Path(__file__).with_name("capture.cpp")
MOST_B = 16 << 30
"""Maximum memory of a launch that is copied to disk."""


@dataclass(frozen=True)
class Captured:
    """Result of a recording: capsules in launch order, launches that could not be recorded (kernel,
    why), and how the program ended."""

    capsules: list[Capsule]
    refused: list[tuple[str, str]]
    end: ProgramEnd


def record(session: Session, filters: Filters, folder: Path) -> Captured:
    """Run the program to its end and record its capsules in ``folder``: launches selected by
    ``filters`` (kernel, skip, count; the pattern is searched in the base name and in the demangled
    name), without those that reach more memory than ``MOST_B``. Raises UsageError, and
    MeasurementError if nothing was recorded."""
    refuse_inside_profiler(os.environ)
    env = {
        **filters.variables("NCUBBLE_CAPSULES", session.subject.function),
        "CUDA_INJECTION64_PATH": str(injection(SOURCE).absolute()),
        "NCUBBLE_CAPSULES": str(folder.absolute()),
        "NCUBBLE_CAPSULES_BYTES": str(MOST_B),
        FACTS: str(folder.absolute() / "facts.json"),
    }
    end = session.run(session.subject.argv, env)
    folders = sorted(folder.glob("capsule-*"), key=lambda path: path.stat().st_mtime_ns)
    capsules = [Capsule.load(path) for path in folders if (path / "complete").is_file()]
    refused = refused_launches(folder)
    if capsules:
        return Captured(capsules, refused, end)
    ended = end.failure or "the program ended with exit code 0"
    if refused:
        kernel, why = refused[0]
        raise MeasurementError(f"{kernel or 'the program'} cannot be recorded: {why}; {ended}", "choose another launch")
    session.require_gpu()
    raise MeasurementError(
        f"no launch was recorded: none matches {filters}, or it ran in a CUDA graph; {ended}",
        "list its kernels with `ncubble streams -- PROGRAM`",
    )


def refused_launches(folder: Path) -> list[tuple[str, str]]:
    """Kernel and reason of each launch that could not be recorded, once for each reason."""
    lines = (line for path in sorted(folder.glob("refused-*.jsonl")) for line in path.read_text().splitlines())
    return list(dict.fromkeys((str(row["kernel"]), str(row["why"])) for row in map(json.loads, lines)))
