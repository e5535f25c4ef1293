"""Locks between processes, by name."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def lock(name: str) -> Iterator[None]:
    """Held by one process of this user and machine at a time; a process that ends lets go of it."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    path = Path(tempfile.gettempdir()) / f"ncubble-{os.getuid()}-{digest}.lock"
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)
