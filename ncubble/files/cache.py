"""Where everything lies that can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """``$NCUBBLE_CACHE``, or ``ncubble`` in the user's cache directory."""
    if chosen := os.environ.get("NCUBBLE_CACHE"):
        return Path(chosen)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ncubble"
    except RuntimeError:  # a user without a home: a place that cannot be written
        return Path(os.devnull) / "ncubble"
