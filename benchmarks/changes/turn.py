"""Whose turn it is on the GPU, among processes and threads."""

from __future__ import annotations

import fcntl
from pathlib import Path


class Turn:
    """Holds the GPU while it is entered: a lock on a file. One for each thread."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        self._file = self._path.open("a")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *error: object) -> None:
        self._file.close()
