"""Where everything lies that can be made again. It tells what was profiled, so only its user may
look."""

from __future__ import annotations

import functools
import logging
import os
from contextlib import suppress
from pathlib import Path

from ncubble.files.private import FOLDER, close, is_open

log = logging.getLogger(__name__)
FOLDERS = ("cubins", "index", "reports", "seen", "streams")
"""What ncubble keeps in the cache, beside folders of unfinished work."""
_UNFINISHED = (".uploads-", ".reading-")


def cache_root() -> Path:
    """``$NCUBBLE_CACHE``, or ``ncubble`` in the user's cache directory. What an older version left
    open to others is closed."""
    root = _place()
    _close_to_others(root)
    return root


def _place() -> Path:
    if chosen := os.environ.get("NCUBBLE_CACHE"):
        return Path(chosen)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ncubble"
    except RuntimeError:  # a user without a home: a place that cannot be written
        return Path(os.devnull) / "ncubble"


@functools.cache
def _close_to_others(root: Path) -> None:
    """Once a process. The root itself only if nothing but a cache lies there: ``NCUBBLE_CACHE`` may
    name any folder."""
    with suppress(OSError):  # no folder, or a read-only disk: nothing is kept there
        try:
            if is_open(root) and all(_is_ours(path.name) for path in root.iterdir()):
                root.chmod(FOLDER)
            for folder in filter(is_open, (root / name for name in FOLDERS)):
                close(folder)
        except PermissionError as error:
            log.warning("the cache %s is open to other users and cannot be closed (%s)", root, error.strerror)


def _is_ours(name: str) -> bool:
    return name in FOLDERS or name.startswith(_UNFINISHED)
