"""Where the cache lies, and how it is kept clean.

``cache_root()/reports/vSCHEMA`` holds what was read. It may be deleted at any time: that costs time
only, so nothing here is synced to disk; what a power loss damages is dropped and read again. Work
in progress lies beside it, in ``scratch`` folders, so that what a killed process left is named and
removed when the next one begins. Entries of an older schema are not converted but read again; they
stay for older versions of ncubble until nothing was added for a month. Those of newer schemas are
left alone.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import re
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from ncubble.profiling.scratch import abandoned, scratch
from ncubble.store import cache_root, make_private

log = logging.getLogger(__name__)
UNFINISHED = ".reading-"
_UNUSED_S = 30 * 86400.0
_lock = threading.Lock()


def home(schema: int) -> Path:
    """The folder for entries of this schema: in ``cache_root()``, or in a temporary folder that
    lives as long as this process where that cannot be written. Says so in the log, and cleans up
    what others left, when first asked for."""
    with _lock:
        return _usable(cache_root() / "reports" / f"v{schema}", schema)


@functools.cache
def _usable(wanted: Path, schema: int) -> Path:
    try:
        make_private(wanted)
        for folder in (wanted, wanted.parent):
            if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
                raise PermissionError(0, "no permission, or a read-only file system")
    except OSError as error:
        log.warning(
            (
                "the cache %s cannot be written (%s): tables are kept in a temporary folder until this "
                "command ends; set NCUBBLE_CACHE to use another place"
            ),
            cache_root(),
            error.strerror,
        )
        return _temporary() / wanted.name
    _clean(wanted.parent, schema)
    return wanted


def _temporary() -> Path:
    """A folder that ends with this process; if that is killed, the next one that needs such a
    folder removes it."""
    parent, prefix = Path(tempfile.gettempdir()), f".ncubble-cache-{os.getuid()}-"
    for _ in abandoned(parent, prefix):
        pass
    keeper = ExitStack()
    atexit.register(keeper.close)
    return keeper.enter_context(scratch(parent, prefix, {}))


def _clean(reports: Path, schema: int) -> None:
    """Remove what killed readings left, and schemas that nothing was added to for a month."""
    for left in abandoned(reports, UNFINISHED):
        for what in left.unfinished:
            log.warning("an earlier reading of %s was interrupted: it is read again when needed", what)
    for folder in reports.iterdir():
        version = re.fullmatch(r"v(\d+)", folder.name)
        with suppress(OSError):  # another process was faster
            if version and int(version[1]) < schema and time.time() - folder.lstat().st_mtime > _UNUSED_S:
                with scratch(reports, UNFINISHED, {}) as work:
                    folder.rename(work / folder.name)
    for memo in (*reports.parent.glob("seen/*"), *reports.parent.glob("index/*")):
        with suppress(OSError):
            if time.time() - memo.lstat().st_mtime > _UNUSED_S:
                memo.unlink()
