"""``program.json`` of a run directory: what ``ncubble program`` should do, chose and noticed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ncubble.analysis.program.launches import ProgramKernel
from ncubble.analysis.program.span import SpanChoice
from ncubble.errors import ReportError, UsageError
from ncubble.records import WrongFieldError, typed

FILE = "program.json"
SCHEMA = 1
LARGEST_B = 16 << 20


@dataclass(frozen=True)
class ProgramRecord:
    """``choice``: of the measured span. ``kernels``: those that were selected, with ``invocation``,
    the number of the launch that was profiled of each. ``recorded_s`` and ``profiled_s``: how long
    both runs of the program took, as a whole. ``failed``: why there is no report, or no whole
    recording."""

    schema: int = SCHEMA
    choice: SpanChoice = field(default_factory=SpanChoice)
    kernels: tuple[ProgramKernel, ...] = ()
    invocation: int = 0
    covered_pct: float = 0.0
    recorded_s: float | None = None
    profiled_s: float | None = None
    failed: str = ""
    notes: tuple[str, ...] = ()


def write(record: ProgramRecord, folder: Path) -> None:
    """Write ``program.json``; raises OSError."""
    (folder / FILE).write_text(json.dumps(asdict(record), indent=1) + "\n", encoding="utf-8")


def read(folder: Path) -> ProgramRecord:
    """The record of a run directory; an empty one where it holds none. Raises ReportError where it
    is damaged."""
    path, remedy = folder / FILE, "record the program again with `ncubble program`"
    if not path.exists():
        return ProgramRecord()
    try:
        if path.stat().st_size > LARGEST_B:
            raise ReportError(f"{path}: larger than {LARGEST_B >> 20} MiB", remedy)
        raw = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(raw, dict) and isinstance(raw.get("schema"), int) and raw["schema"] > SCHEMA:
            raise ReportError(f"{path}: schema {raw['schema']} is newer than {SCHEMA}", "upgrade ncubble")
        return typed(raw, ProgramRecord)
    except (OSError, ValueError, RecursionError, UsageError) as error:
        what = error if isinstance(error, WrongFieldError) else (str(error).splitlines() or [type(error).__name__])[0]
        raise ReportError(f"{path}: {what}", remedy) from error
