"""The cache of extracted reports: one directory of Parquet files per content hash and schema version.

A directory appears whole or not at all (written beside, then renamed), so readers never see half of one and two writers
of the same report cannot harm each other. Deleting the cache costs time only.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ncubble.errors import MeasurementError

if TYPE_CHECKING:
    import pandas as pd

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


@contextmanager
def staging() -> Iterator[Path]:
    """An empty directory on the cache's file system, gone at the end with whatever was not committed out of it."""
    parent = folder_of("any").parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".reading-", dir=parent))
    except OSError as error:
        raise _unwritable(parent, error) from error
    try:
        yield folder
    finally:
        discard(folder)


def _unwritable(folder: Path, error: OSError) -> MeasurementError:
    return MeasurementError(
        f"{folder}: the cache cannot be written ({error.strerror})", "set NCUBBLE_CACHE to a writable directory"
    )


def load(sha256: str, name: str) -> pd.DataFrame:
    """One table of a stored report. Tables that cannot be read are dropped whole, so that the next run reads the report
    again; raises MeasurementError then."""
    import pandas as pd

    folder = folder_of(sha256)
    try:
        return pd.read_parquet(folder / f"{name}.parquet")
    except (OSError, ValueError) as error:  # Arrow's own errors are children of these
        discard(folder)
        raise MeasurementError(
            f"{folder}: the cached table {name!r} cannot be read ({error})",
            "it was removed from the cache: repeat the command",
        ) from error


def commit(folder: Path, sha256: str) -> None:
    """Make ``folder``, which is in ``staging`` or is it, the stored tables of this report.

    Loses gracefully against a writer that was faster. Raises MeasurementError where the cache cannot be written.
    """
    target = folder_of(sha256)
    try:
        folder.rename(target)
    except OSError:
        if holds(sha256):
            return
        shutil.rmtree(target, ignore_errors=True)  # what is left of an incomplete one
        try:
            folder.rename(target)
        except OSError as error:
            if not holds(sha256):
                raise _unwritable(target.parent, error) from error


def discard(folder: Path) -> None:
    """Remove a directory of the cache."""
    shutil.rmtree(folder, ignore_errors=True)
