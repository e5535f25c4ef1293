"""Run directories of recorded programs: a real pair of recordings joined, and made-up ones."""

from __future__ import annotations

import shutil
from pathlib import Path

from ncubble.analysis.program import record as program_record
from ncubble.analysis.program.record import ProgramRecord
from ncubble.analysis.program.span import SpanChoice
from ncubble.analysis.streams.recording import Recording
from tests.helpers.stream_frames import Script

RECORDINGS = Path(__file__).parents[2] / "recordings"
TORCH, PRODUCT = RECORDINGS / "h200-lanes/streams-torch", RECORDINGS / "h200-ranks/rank0"
BLOCK, ONE = 64 | 1 << 11 | 1 << 22, 1 | 1 << 16
"""A block of 64 threads, and a grid of one CTA in y and z, as recorders write them."""


def torch_program(folder: Path) -> Path:
    """A PyTorch loop with the report of the product that it runs most, both recorded on an H200."""
    shutil.copytree(TORCH, folder)
    for name in ("report.ncu-repz", "run.json"):
        shutil.copy(PRODUCT / name, folder / name)
    program_record.write(ProgramRecord(recorded_s=3.0, profiled_s=5.0), folder)
    return folder


def two_kernels() -> Recording:
    """Two kernels of one name and different grids on two streams, half overlapping, in ranges."""
    script = Script()
    script.row("range", "step", 0, 200, thread=5)
    script.row("range", "forward", 3, 20, thread=5)
    script.kernel(0, 10, 50, flags=BLOCK, source=4, target=ONE, bytes=1024)
    script.kernel(4, 30, 70, stream=2, flags=BLOCK, source=8, target=ONE)
    script.kernel(90, 100, 120, flags=BLOCK, source=4, target=ONE, bytes=1024)
    return script.recording()


def program_of(folder: Path, recording: Recording, record: ProgramRecord | None = None) -> Path:
    """A run directory of a recording alone, all of which is accounted for."""
    folder.mkdir(parents=True, exist_ok=True)
    recording.write(folder)
    program_record.write(record or ProgramRecord(choice=SpanChoice(whole=True)), folder)
    return folder
