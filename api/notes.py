"""Tags and notes of runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ncubble.api.launch import ReportLaunch
from ncubble.api.loading import ReportPath, as_paths
from ncubble.api.reports import as_names
from ncubble.profiling.runs import Run, RunNotes


def annotate(
    run: ReportPath | ReportLaunch,
    *,
    add: str | Iterable[str] = (),
    remove: str | Iterable[str] = (),
    note: str | None = None,
) -> tuple[tuple[str, ...], str]:
    """Tag a run or write a note on it; returns its tags and note.

    ``run``: a run directory, a report file, or a launch of it. ``add`` and ``remove``: a tag, or
    several. ``note``: a new note; an empty one removes it. They are stored in ``notes.json`` beside
    the unchanged report, and appear as ``tags`` and ``note`` of its launches and on the kernel
    page. Raises UsageError for an invalid tag or note, ReportError if ``notes.json`` is damaged.
    """
    place: Path = as_paths([run.report if isinstance(run, ReportLaunch) else run])[0]
    known = Run.load(place)
    notes = RunNotes.of(known)
    changed = notes.changed(as_names(add), as_names(remove), note)
    if changed != notes:
        changed.save(known)
    return changed.tags, changed.note
