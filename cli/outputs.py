"""Output files of commands, besides stdout."""

from __future__ import annotations

from pathlib import Path

from ncubble.errors import UsageError


def refuse_foreign(file: Path | None, mark: str) -> None:
    """Raise UsageError if ``file`` exists without ``mark`` in its head: only earlier output of the
    same command may be replaced."""
    if file is None or not file.exists():
        return
    try:
        head = file.read_bytes()[:400] if file.is_file() else b""
    except OSError as error:
        raise UsageError(f"{file}: exists and cannot be read ({error})", "choose another name") from error
    if not file.is_file() or (head and mark.encode() not in head):
        raise UsageError(f"{file}: exists, but was not written by ncubble", "choose another name")


def write_text(file: Path, text: str) -> None:
    """Write ``text``, creating the folder if needed; raises UsageError on failure."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file}: cannot be written ({error.strerror})", "choose another name") from error
