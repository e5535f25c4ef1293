"""A run directory appears whole or not at all: it is written beside its place, synced, and renamed
into it."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from ncubble.errors import UsageError
from ncubble.profiling.failures import DiskError
from ncubble.profiling.runs import CONTENT, MANIFEST, UNFINISHED
from ncubble.profiling.scratch import abandoned, scratch
from ncubble.store import sync
from ncubble.text.values import file_name

log = logging.getLogger(__name__)
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h
_NEW, _OLD = "run", "replaced"


@contextmanager
def staged(out: Path, force: bool = False) -> Iterator[Path]:
    """A directory beside ``out`` that becomes ``out`` when the block ends well, and vanishes when
    it does not.

    After SIGKILL or a power loss it stays in a folder whose name starts with a dot: it is never
    taken for a run, and the next call beside it says so and removes it. An existing ``out`` is
    refused, or replaced where ``force`` and it is a run and nothing else. Raises UsageError and
    DiskError.
    """
    check_target(out, force)
    try:
        _make_folder(out.parent)
        tidy(out.parent)
        with scratch(out.parent, UNFINISHED, {_NEW: out.name}) as work:
            folder = work / _NEW
            folder.mkdir()
            yield folder
            sync(folder)
            _publish(folder, out, force)
    except OSError as error:
        why = "no space left on the device" if error.errno == errno.ENOSPC else error.strerror or str(error)
        raise DiskError(str(out), why) from error


def tidy(parent: Path) -> None:
    """Remove what killed calls left in ``parent``, and say what they were making. A run that was
    being replaced when that happened is put back."""
    for left in abandoned(parent, UNFINISHED):
        for name in left.unfinished:
            log.warning("an earlier profiling into %s was interrupted: its files are removed", parent / name)
        for old in (left.work / _OLD).glob("*"):
            if not os.path.lexists(parent / old.name):
                old.rename(parent / old.name)
                log.warning("%s was being replaced at that time: it was restored", parent / old.name)


def default_out(label: str) -> Path:
    """``runs/LABEL-UTC_TIME``, with a dash for whatever could trouble a file system."""
    clean = file_name(label, 120) or "program"
    return Path("runs") / f"{clean}-{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}"


def check_target(out: Path, force: bool) -> None:
    """Raise UsageError where ``out`` may not be written: it exists without ``force``, or it is no
    run directory."""
    try:
        out.lstat()
    except FileNotFoundError:
        return
    except OSError as error:  # a name that is too long, a file in its path, …
        raise UsageError(f"{out}: {error.strerror}", "choose another --out") from error
    if not force:
        raise UsageError(f"{out} exists", "choose another --out, or replace it with --force")
    if out.is_symlink() or not out.is_dir() or not all(map(_is_ours, out.iterdir())):
        raise UsageError(f"{out} is not a run directory and is not replaced", "choose another --out")


def _is_ours(item: Path) -> bool:
    """Whether it belongs to a run: by its name, or as one launch of several, a run itself."""
    return item.name in CONTENT or (item.name.startswith("launch-") and (item / MANIFEST).is_file())


def _publish(folder: Path, out: Path, force: bool) -> None:
    """Rename ``folder`` to ``out``. An old run changes places with it, at once where the file
    system can do that."""
    check_target(out, force)
    if not out.exists():
        folder.rename(out)
    elif not _exchange(folder, out):
        aside = folder.parent / _OLD
        aside.mkdir()
        out.rename(aside / out.name)
        try:
            folder.rename(out)
        except OSError:
            (aside / out.name).rename(out)
            raise
    sync(out.parent)


def _exchange(first: Path, other: Path) -> bool:
    """Whether two directories could be exchanged in one step: no kill then falls between two
    renames."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "renameat2"):
        return False
    names = os.fsencode(first), os.fsencode(other)
    return bool(libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0)


def _make_folder(path: Path) -> None:
    """Make ``path`` and what it lies in, so that they outlast a power loss."""
    new = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in new:
        sync(folder.parent)
