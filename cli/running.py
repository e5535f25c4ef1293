"""The file of ``--perfetto``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncubble.errors import UsageError

if TYPE_CHECKING:
    from ncubble.analysis.traces.drawing import Drawing

EVENTS = ".json"
"""How a file of --perfetto ends that holds trace events."""


def require_viewer_format(path: Path | None) -> None:
    """Raise UsageError, before anything runs, if the file of --perfetto cannot be written."""
    if path is None:
        return
    if path.suffix != EVENTS:
        from ncubble.analysis.traces.perfetto import require_perfetto

        require_perfetto()
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"--perfetto {path}: no file in a folder that exists", "name a file in a folder that exists")


def write_drawing_to(path: Path, drawing: Drawing, facts: dict[str, Any]) -> None:
    """Write tracks to the file of --perfetto, as trace events if it ends in .json, else in
    Perfetto's format; raises UsageError if that is not possible."""
    from ncubble.analysis.traces.perfetto import write_perfetto
    from ncubble.analysis.traces.trace_events import write_trace_events
    from ncubble.store import draft_of
    from ncubble.text.values import finite

    write = write_trace_events if path.suffix == EVENTS else write_perfetto
    try:
        with draft_of(path, shared=True) as draft:
            write(draft, drawing, finite(facts))
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"--perfetto {path}: {why}", "name a file in a folder that exists") from error
