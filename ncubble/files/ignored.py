"""Folders that git does not see."""

from __future__ import annotations

from pathlib import Path


def make_ignored(folder: Path) -> None:
    """Make ``folder`` with a ``.gitignore`` that hides it, in whichever working tree it lies. One
    that is there is left as it is. Raises OSError."""
    if folder.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("# Made by ncubble. Without this file, git sees the folder.\n*\n")
