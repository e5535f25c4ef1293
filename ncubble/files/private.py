"""Files private to the user, whatever the umask."""

from __future__ import annotations

import os
from itertools import takewhile
from pathlib import Path

FOLDER, FILE = 0o700, 0o600
OTHERS = 0o077
"""Permission bits for anybody but the owner."""


def make_private(folder: Path) -> Path:
    """``folder``, created with its parents if needed, private to this user; raises OSError."""
    missing = list(takewhile(lambda path: not path.exists(), (folder, *folder.parents)))
    for path in reversed(missing):
        path.mkdir(mode=FOLDER, exist_ok=True)
    return folder


def is_open(path: Path) -> bool:
    """Whether other users have any permission."""
    try:
        return bool(path.stat().st_mode & OTHERS)
    except OSError:
        return False


def close(folder: Path) -> None:
    """Remove all permissions of others on ``folder`` and its content; raises OSError. Links are not
    followed."""
    folder.chmod(FOLDER)
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            if not path.is_symlink():
                path.chmod(FOLDER if name in folders else FILE)


def write_private(path: Path, data: bytes) -> None:
    """Write a private file atomically, without syncing; raises OSError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    make_private(path.parent)
    with open(draft, "wb", opener=lambda name, flags: os.open(name, flags, FILE)) as file:
        file.write(data)
    draft.replace(path)
