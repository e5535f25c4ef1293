"""Folders that git ignores."""

from __future__ import annotations

from pathlib import Path


def make_ignored(folder: Path) -> None:
    """Create ``folder`` with a ``.gitignore`` that hides it in any working tree. An existing folder
    is unchanged. Raises OSError."""
    if folder.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("# Created by ncubble, so that git ignores the folder.\n*\n")
