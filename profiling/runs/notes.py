"""What people write about a run: tags and a note, in a small file beside its report.

The report and its manifest stay as they are, so that nothing that was judged is judged again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from ncubble.errors import MeasurementError, ReportError, UsageError
from ncubble.profiling.runs.run import Run
from ncubble.records import typed
from ncubble.store import draft_of

FILE = "notes.json"
SCHEMA = 1
MOST_TAGS, LONGEST_NOTE, LARGEST_B = 20, 4000, 1 << 16
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/=+-]{0,39}")


@dataclass(frozen=True)
class RunNotes:
    """Tags of a run in the order in which they were added, and a note, which may have lines."""

    tags: tuple[str, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        for tag in self.tags:
            if not _TAG.fullmatch(tag):
                remedy = "use 1 to 40 letters, digits and . _ / = + -, starting with a letter or digit"
                raise UsageError(f"{tag[:80]!r} is not a valid tag", remedy)
        if len(self.tags) > MOST_TAGS:
            raise UsageError(f"{len(self.tags)} tags", f"a run has at most {MOST_TAGS}")
        if len(self.note) > LONGEST_NOTE:
            raise UsageError(f"a note of {len(self.note)} characters", f"use at most {LONGEST_NOTE}")
        if any(not char.isprintable() and char != "\n" for char in self.note):
            raise UsageError("the note contains a character that cannot be displayed", "remove control characters")

    @classmethod
    def of(cls, run: Run) -> RunNotes:
        """What was written about ``run``. Raises ReportError for a damaged file."""
        path = place_of(run)
        try:
            if not path.is_file():
                return cls()
            if path.stat().st_size > LARGEST_B:
                raise ValueError(f"it is larger than {LARGEST_B >> 10} KiB")
            members = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(members, dict) or members.pop("schema", None) != SCHEMA:
                raise ValueError(f"schema {SCHEMA} is wanted")
            return typed(members, cls)
        except (OSError, ValueError, RecursionError, UsageError) as error:
            reason = error.message if isinstance(error, UsageError) else str(error)
            raise ReportError(f"{path}: not the notes of a run ({reason})", "fix it, or remove it") from error

    def changed(self, add: Iterable[str] = (), remove: Iterable[str] = (), note: str | None = None) -> RunNotes:
        """With these tags added and removed, and another note (None: as it is). Raises UsageError
        for a tag that is to be removed and not there, and for what is no tag or note."""
        gone = set(remove)
        if lost := gone.difference(self.tags):
            there = f"tags: {', '.join(self.tags)}" if self.tags else "there is none"
            raise UsageError(f"no tag {sorted(lost)[0]!r}", there)
        tags = dict.fromkeys([*(tag for tag in self.tags if tag not in gone), *add])
        return RunNotes(tuple(tags), self.note if note is None else note.strip())

    def save(self, run: Run) -> None:
        """Write them beside the report; without any, the file is removed. Raises MeasurementError
        where that cannot be."""
        path = place_of(run)
        try:
            if self == RunNotes():
                path.unlink(missing_ok=True)
                return
            with draft_of(path) as draft:
                draft.write_text(json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise MeasurementError(f"{path}: cannot be written ({error.strerror})", "check its permissions") from error


def place_of(run: Run) -> Path:
    """Where the notes of a run are: in its directory, or beside a bare report file."""
    if run.path != run.report:
        return run.path / FILE
    return run.path.with_name(FILE if run.path.stem == "report" else f"{run.path.name}.{FILE}")
