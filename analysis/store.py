"""The cache of extracted reports: one directory of Parquet files per content hash and schema version.

A directory appears whole or not at all (written beside, then renamed), so readers never see half of one and two writers
of the same report cannot harm each other. Deleting the cache costs time only.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from ncubble.errors import MeasurementError

SCHEMA = 1
TABLES = ("actions", "metrics", "texts", "timeline", "source", "rules", "files")


def root() -> Path:
    """``$NCUBBLE_CACHE``, or ``ncubble`` in the user's cache directory."""
    if found := os.environ.get("NCUBBLE_CACHE"):
        return Path(found)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ncubble"


def folder_of(sha256: str) -> Path:
    """Where the tables of the report with this content hash are, or would be."""
    return root() / "reports" / f"v{SCHEMA}" / sha256[:32]


def holds(sha256: str) -> bool:
    """Whether all tables of this report are in the cache."""
    folder = folder_of(sha256)
    return all((folder / f"{name}.parquet").is_file() for name in TABLES)


def begin(sha256: str) -> Path:
    """An empty directory on the cache's file system to write tables into; pass it to ``commit`` or ``discard``."""
    parent = folder_of(sha256).parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f".{sha256[:8]}-", dir=parent))
    except OSError as error:
        raise MeasurementError(
            f"{parent}: the cache cannot be written ({error.strerror})", "set NCUBBLE_CACHE to a writable directory"
        ) from error


def commit(folder: Path, sha256: str) -> None:
    """Make ``folder`` the stored tables of this report. Loses gracefully against a writer that was faster."""
    target = folder_of(sha256)
    if not holds(sha256):
        shutil.rmtree(target, ignore_errors=True)
    try:
        folder.rename(target)
    except OSError:
        discard(folder)
        if not holds(sha256):
            raise


def discard(folder: Path) -> None:
    """Remove a directory that ``begin`` made."""
    shutil.rmtree(folder, ignore_errors=True)
