"""Run directories with recordings of streams or warps below the paths of the store."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from ncubble.analysis.traces.lanes import folders_with
from ncubble.dashboard.data.store import ReportStore

FRESH_S = 10.0
"""Maximum age of a list: walking many folders is slow."""
_lock = threading.Lock()
_found: dict[tuple[str, ...], tuple[float, list[Path]]] = {}


def runs_with(file: str, store: ReportStore) -> list[Path]:
    """Every folder with such a file, in order of path; a page reads nothing else."""
    key = (file, *map(str, store.paths))
    with _lock:
        made, runs = _found.get(key, (-FRESH_S, []))
        if time.monotonic() - made >= FRESH_S:
            runs = list(folders_with(file, map(Path, store.paths)))
            _found[key] = time.monotonic(), runs
    return runs


def forget() -> None:
    """Look again at the next call."""
    _found.clear()
