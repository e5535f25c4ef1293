"""The cache folder, for data that can be recreated. It reveals what was profiled, so only its user
may read it."""

from __future__ import annotations

import functools
import logging
import os
from contextlib import suppress
from pathlib import Path

from ncubble.files.private import FOLDER, close, is_open

log = logging.getLogger(__name__)
FOLDERS = ("cubins", "index", "reports", "seen", "streams")
"""Content of the cache, besides folders of unfinished work."""
_UNFINISHED = (".uploads-", ".reading-")


def cache_root() -> Path:
    """``$NCUBBLE_CACHE``, or ``ncubble`` in the user's cache directory. Folders that an older
    version left accessible to others are restricted."""
    root = _place()
    _close_to_others(root)
    return root


def _place() -> Path:
    if chosen := os.environ.get("NCUBBLE_CACHE"):
        return Path(chosen)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ncubble"
    except RuntimeError:  # a user without a home: a path that cannot be written
        return Path(os.devnull) / "ncubble"


@functools.cache
def _close_to_others(root: Path) -> None:
    """Runs once per process. Restricts the root itself only if it contains nothing but a cache,
    because ``NCUBBLE_CACHE`` may name any folder."""
    with suppress(OSError):  # no folder, or a read-only disk: nothing is cached
        try:
            if is_open(root) and all(_is_ours(path.name) for path in root.iterdir()):
                root.chmod(FOLDER)
            for folder in filter(is_open, (root / name for name in FOLDERS)):
                close(folder)
        except PermissionError as error:
            log.warning(
                "the cache %s is accessible to other users, and this cannot be changed (%s)", root, error.strerror
            )


def _is_ours(name: str) -> bool:
    return name in FOLDERS or name.startswith(_UNFINISHED)
