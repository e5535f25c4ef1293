"""Folders of unfinished work: each belongs to a living process, and what a dead one left is found,
named and removed.

``parent/PREFIXxxxxxxxx/`` holds ``owner.json`` (its host, and what is being made) and ``work/``.
The owner keeps a lock on ``owner.json``. The kernel ends it with the process, however that ends, so
that a free lock means a dead owner; where a file system has no locks, nothing is ever taken for
dead. A lock of another host may not be seen here: folders from elsewhere count as left behind after
a week only.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_OWNER, _WORK = "owner.json", "work"
_ELSEWHERE_S = 7 * 86400.0
_PAUSES_S = (0.05, 0.2, 0.0)


@dataclass(frozen=True)
class AbandonedWork:
    """What a dead process left in ``work``; ``unfinished`` says what it was making there."""

    work: Path
    unfinished: list[str]


@contextmanager
def scratch(parent: Path, prefix: str, making: Mapping[str, str]) -> Iterator[Path]:
    """An empty folder below ``parent``, gone at the end with whatever was not moved out of it;
    raises OSError.

    ``making`` says, by relative path in the folder, what will be made there: this is what is named
    if it is cut off.
    """
    folder, lock = _claim(parent, prefix, making)
    try:
        work = folder / _WORK
        work.mkdir(mode=0o700)
        yield work
    finally:
        _remove(folder)
        os.close(lock)


def intact(work: Path) -> bool:
    """Whether a folder that ``scratch`` gave is still the same: nobody deleted it, or what it lies
    in."""
    return (work.parent / _OWNER).exists()


def abandoned(parent: Path, prefix: str) -> Iterator[AbandonedWork]:
    """What dead processes left in ``parent``. Each is removed when the loop goes on, so save from
    it what is worth it.

    Links are never followed, and folders of living processes, of other users and unknown ones are
    left alone.
    """
    for folder in _folders(parent, prefix):
        with suppress(OSError):
            folder.rmdir()  # killed before it wrote its owner: empty
            continue
        with _locked(folder, os.O_RDWR, fcntl.LOCK_EX) as left:
            if left is not None:
                yield left
                _remove(folder)


def cut_off(folder: Path) -> list[str]:
    """What a dead process was making in ``folder``; nothing where its owner may live. Changes
    nothing."""
    with _locked(folder, os.O_RDONLY, fcntl.LOCK_SH) as left:
        return left.unfinished if left else []


def _folders(parent: Path, prefix: str) -> list[Path]:
    try:
        with os.scandir(parent) as entries:
            return [
                parent / entry.name
                for entry in entries
                if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []


def _claim(parent: Path, prefix: str, making: Mapping[str, str]) -> tuple[Path, int]:
    """A new folder, and the descriptor that locks it.

    Until the lock is held another process may take the folder for a leftover and remove it: then a
    new one is made.
    """
    note = json.dumps({"host": platform.node(), "making": dict(making)}).encode()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            lock = os.open(folder / _OWNER, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except FileNotFoundError:
            continue
        try:
            with open(lock, "wb", closefd=False) as file:
                file.write(note)
            with suppress(OSError):  # no locks here
                fcntl.flock(lock, fcntl.LOCK_EX)
            if _is_at(lock, folder / _OWNER):
                return folder, lock
        except BaseException:
            _remove(folder)
            os.close(lock)
            raise
        os.close(lock)


@contextmanager
def _locked(folder: Path, access: int, kind: int) -> Iterator[AbandonedWork | None]:
    """The leftover in ``folder``, locked; None where its owner lives, or may live."""
    try:
        lock = os.open(folder / _OWNER, access | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        yield None
        return
    try:
        yield _dead(folder, lock, kind)
    finally:
        os.close(lock)


def _dead(folder: Path, lock: int, kind: int) -> AbandonedWork | None:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
        if not _is_at(lock, folder / _OWNER):
            return None  # another process was faster
        host, making = _note(os.pread(lock, 1 << 24, 0))
        here = host == platform.node() or not (folder / _WORK).exists()
        if not here and time.time() - os.fstat(lock).st_mtime < _ELSEWHERE_S:
            return None
    except OSError:
        return None
    work = folder / _WORK
    return AbandonedWork(work, [what for name, what in making.items() if (work / name).exists()])


def _note(text: bytes) -> tuple[str, dict[str, str]]:
    """Host and what was being made; nothing of either where the note was not finished."""
    try:
        note = json.loads(text)
        return str(note["host"]), {str(name): str(what) for name, what in note["making"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return "", {}


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one of this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _remove(folder: Path) -> None:
    """The owner's file goes last: a folder that cannot be emptied now is found again, and tried
    again.

    A child that was interrupted with its parent may write a last file while the folder is emptied.
    """
    for pause_s in _PAUSES_S:
        shutil.rmtree(folder / _WORK, ignore_errors=True)
        if not (folder / _WORK).exists():
            break
        time.sleep(pause_s)
    if not (folder / _WORK).exists():
        shutil.rmtree(folder, ignore_errors=True)
