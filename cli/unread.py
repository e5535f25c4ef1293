"""Remedies for paths without a report."""

from __future__ import annotations

from pathlib import Path

REPORTS = "reports end in .ncu-rep or .ncu-repz"


def remedy_without_report(path: Path | str) -> str:
    """The command that shows the content of the path instead: streams, or a trace of warps."""
    folder = Path(path)
    if (folder / "activity.parquet").is_file():
        return f"it holds a recording of streams: ncubble streams {path}"
    if (folder / "lanes.parquet").is_file():
        return f"it holds a trace of warps: ncubble trace {path}"
    return REPORTS
