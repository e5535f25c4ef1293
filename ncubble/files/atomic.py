"""Atomic, durable file writes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def draft_of(path: Path, shared: bool = False) -> Iterator[Path]:
    """An empty file next to ``path``, renamed to it if the block succeeds and deleted otherwise.
    Only this user may read it, or with ``shared`` everyone whom the umask allows.

    Raises OSError.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        if shared:
            os.umask(mask := os.umask(0))
            draft.chmod(0o666 & ~mask)
        sync(draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on disk; raises OSError."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
