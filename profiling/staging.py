"""A run directory appears whole or not at all: it is written beside its place, synced, and renamed into it."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import zstandard

from ncubble.errors import UsageError
from ncubble.profiling.failures import DiskError
from ncubble.profiling.run import MANIFEST, SUFFIXES

_LEVEL = 19  # reports shrink some 20-fold; 0.1 s per MB
_LEVEL_LARGE = 10
_LARGE_B = 32 << 20


@contextmanager
def staged(out: Path, force: bool = False) -> Iterator[Path]:
    """A directory beside ``out`` that becomes ``out`` when the block ends well, and vanishes when it does not.

    Its name starts with a dot: an abandoned one (SIGKILL, power loss) is never taken for a run. An existing ``out`` is
    refused, or replaced where ``force`` and it is a run and nothing else. Raises UsageError and DiskError.
    """
    check_target(out, force)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".partial", dir=out.parent))
        try:
            yield folder
            _sync_folder(folder)
            _publish(folder, out, force)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        why = "no space left on the device" if error.errno == errno.ENOSPC else error.strerror or str(error)
        raise DiskError(str(out), why) from error


def check_target(out: Path, force: bool) -> None:
    """Raise UsageError where ``out`` may not be written: it exists without ``force``, or it is no run directory."""
    if not (out.exists() or out.is_symlink()):
        return
    if not force:
        raise UsageError(f"{out} exists", "choose another --out, or replace it with --force")
    ours = {MANIFEST, *(f"report{suffix}" for suffix in SUFFIXES)}
    if out.is_symlink() or not out.is_dir() or any(item.name not in ours for item in out.iterdir()):
        raise UsageError(f"{out} is not a run directory and will not be replaced", "choose another --out")


def _publish(folder: Path, out: Path, force: bool) -> None:
    """Rename ``folder`` to ``out``. An old run is moved aside first, and back if that fails."""
    folder.chmod(0o755)  # mkdtemp made it private
    check_target(out, force)
    if not out.exists():
        folder.rename(out)
    else:
        aside = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".old", dir=out.parent))
        out.rename(aside / out.name)
        try:
            folder.rename(out)
        except OSError:
            (aside / out.name).rename(out)
            raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    _sync_folder(out.parent)


def compress(report: Path) -> Path:
    """Replace ``report.ncu-rep`` by ``report.ncu-repz`` (zstd) and return its path; raises OSError."""
    target = report.with_suffix(SUFFIXES[1])
    size = report.stat().st_size
    level = _LEVEL if size < _LARGE_B else _LEVEL_LARGE
    with report.open("rb") as source, target.open("wb") as sink:
        zstandard.ZstdCompressor(level=level).copy_stream(source, sink, size=size)
        sink.flush()
        os.fsync(sink.fileno())
    report.unlink()
    return target


def sync_file(path: Path) -> None:
    """Wait until a file that another process wrote is on disk; raises OSError."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
