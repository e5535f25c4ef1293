"""The file of ``--perfetto``."""

from __future__ import annotations

from pathlib import Path

from ncubble.errors import UsageError


def require_viewer_format(path: Path | None) -> None:
    """Raise UsageError, before anything runs, if the file of --perfetto cannot be written."""
    if path is None:
        return
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"--perfetto {path}: no file in a folder that exists", "name a file in a folder that exists")
