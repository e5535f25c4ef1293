"""Files that several processes share: private and atomic writes, the cache, locks.

The cache holds what can be made again. It reveals what was profiled, so only its user may read it.
A lock names its holder in its file, ends with its process, and never follows links, because others
may write to the folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import platform
import shlex
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

from ncubble.errors import MeasurementError, UsageError
from ncubble.text.markup import printable

log = logging.getLogger(__name__)
FOLDER, FILE = 0o700, 0o600
OTHERS = 0o077
"""Permission bits for anybody but the owner."""


def make_private(folder: Path) -> Path:
    """``folder``, created with its parents if needed, private to this user; raises OSError."""
    missing = list(takewhile(lambda path: not path.exists(), (folder, *folder.parents)))
    for path in reversed(missing):
        path.mkdir(mode=FOLDER, exist_ok=True)
    return folder


def is_open(path: Path) -> bool:
    """Whether other users have any permission."""
    try:
        return bool(path.stat().st_mode & OTHERS)
    except OSError:
        return False


def close(folder: Path) -> None:
    """Remove all permissions of others on ``folder`` and its content; raises OSError. Links are not
    followed."""
    folder.chmod(FOLDER)
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            if not path.is_symlink():
                path.chmod(FOLDER if name in folders else FILE)


def write_private(path: Path, data: bytes) -> None:
    """Write a private file atomically, without syncing; raises OSError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    make_private(path.parent)
    with open(draft, "wb", opener=lambda name, flags: os.open(name, flags, FILE)) as file:
        file.write(data)
    draft.replace(path)


@contextmanager
def draft_of(path: Path, shared: bool = False) -> Iterator[Path]:
    """An empty file next to ``path``, renamed to it if the block succeeds and deleted otherwise.
    Only this user may read it, or with ``shared`` everyone whom the umask allows.

    Raises OSError.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        if shared:
            os.umask(mask := os.umask(0))
            draft.chmod(0o666 & ~mask)
        sync(draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def require_target(out: Path, force: bool, option: str = "--out") -> None:
    """Raise UsageError, before anything is read, where a file cannot be written to ``out``."""
    if out.is_dir():
        raise UsageError(f"{out} is a directory", "name a file in it")
    if out.exists() and not force:
        raise UsageError(f"{out} exists", f"choose another {option}, or replace it with --force")
    if not out.parent.is_dir():
        raise UsageError(f"{out.parent}: no such directory", "create it first")


def sync(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on disk; raises OSError."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def make_ignored(folder: Path) -> None:
    """Create ``folder`` with a ``.gitignore`` that hides it in any working tree. An existing folder
    is unchanged. Raises OSError."""
    if folder.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("# Created by ncubble, so that git ignores the folder.\n*\n")


def cache_root() -> Path:
    """``$NCUBBLE_CACHE``, or ``ncubble`` in the user's cache directory."""
    if chosen := os.environ.get("NCUBBLE_CACHE"):
        return Path(chosen)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ncubble"
    except RuntimeError:  # a user without a home: a path that cannot be written
        return Path(os.devnull) / "ncubble"


def recall(path: Path) -> Any:
    """The record that ``remember`` wrote to ``path``; None if missing or damaged."""
    with suppress(OSError, ValueError):
        digest, _, body = path.read_bytes().partition(b"\n")
        if digest.decode() == _digest(body):
            return _loaded(body)
    return None


def remember(path: Path, content: Any) -> None:
    """Write ``content`` (JSON) to ``path``; does nothing if the cache is not writable."""
    body = json.dumps(content).encode()
    with suppress(OSError):
        write_private(path, f"{_digest(body)}\n".encode() + body)


def _loaded(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except ValueError:
        return json.loads(body)  # NaN, and names of files that are no UTF-8


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


LIMIT_S = 600.0
SIGN_S = 2.0
"""Seconds of waiting after which the lock's holder is reported."""
_LOOK_S = 0.05
_LONGEST = 200
_NOTE = b'{"pid": '


@contextmanager
def lock(
    name: str, what: str = "", limit_s: float = LIMIT_S, say: Callable[[str], None] = log.warning
) -> Iterator[None]:
    """Hold a lock that one process of this user and machine has at a time. ``what`` it protects is
    for messages. ``say`` is called with the holder if waiting exceeds ``SIGN_S``. Raises
    MeasurementError if waiting exceeds ``limit_s``, or if there can be no lock file.
    """
    with LockFile(lock_path(name)) as file:
        _wait(file, what or name, limit_s, say)
        yield


def lock_path(name: str) -> Path:
    """The file of the lock ``name``."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"ncubble-{os.getuid()}-{digest}.lock"


def _wait(file: LockFile, what: str, limit_s: float, say: Callable[[str], None]) -> None:
    begun, silent = time.monotonic(), True
    while not file.acquire():
        waited = time.monotonic() - begun
        if waited >= limit_s:
            raise MeasurementError(
                f"{what}: locked for more than {limit_s:g} s by {file.holder()} ({file.path})",
                "wait until it has finished, or stop it, and try again",
            )
        if silent and waited >= SIGN_S:
            say(f"waiting for {what}, locked by {file.holder()}; gives up after {limit_s:g} s")
            silent = False
        time.sleep(_LOOK_S)


class LockFile:
    """A lock file that one process holds at a time, with a note on the holder. Raises
    MeasurementError if it cannot exist at ``path``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._held = False
        try:
            self._number = open_lock_file(path)
        except OSError as error:
            raise _unusable(path, error) from error

    def __enter__(self) -> LockFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._held and self._is_note():
            os.ftruncate(self._number, 0)
        os.close(self._number)

    def acquire(self) -> bool:
        """Lock it; False if another process has it. Raises MeasurementError if the file system has
        no locks."""
        try:
            fcntl.flock(self._number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise _unusable(self.path, error) from error
        self._held = True
        if self._is_note():
            os.ftruncate(self._number, 0)
            os.pwrite(self._number, _own_note(), 0)
        return True

    def holder(self) -> str:
        """The holder in words: process, host, command and start time."""
        try:
            note = json.loads(os.pread(self._number, 4096, 0))
            text = f"process {note['pid']} on {note['host']} (`{note['command']}`) since {note['since']}"
        except (ValueError, KeyError, TypeError):
            return "an unidentified process"
        return printable(text)

    def _is_note(self) -> bool:
        """Whether the file may be overwritten: it is empty, or an earlier note."""
        whole = os.fstat(self._number)
        return whole.st_nlink == 1 and os.pread(self._number, len(_NOTE), 0) in (b"", _NOTE)


def _own_note() -> bytes:
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]) if sys.argv else ""
    since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    note = {"pid": os.getpid(), "host": platform.node(), "command": command[:_LONGEST], "since": since}
    return json.dumps(note).encode()


def open_lock_file(path: Path, mode: int = 0o600, what: str = "a lock file") -> int:
    """A descriptor of the regular file at ``path``, created if missing. Raises MeasurementError if
    something else is there, where ncubble keeps ``what``, and OSError."""
    try:
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        if path.is_symlink() or path.is_dir():
            raise _wrong(path, what) from error
        raise
    if stat.S_ISREG(os.fstat(number).st_mode):
        return number
    os.close(number)
    raise _wrong(path, what)


def _wrong(path: Path, what: str) -> MeasurementError:
    kind = "a symbolic link" if path.is_symlink() else "a directory" if path.is_dir() else "no regular file"
    return MeasurementError(f"{path}: is {kind}, where ncubble keeps {what}", f"remove it: {path}")


def _unusable(path: Path, error: OSError) -> MeasurementError:
    return MeasurementError(
        f"{path}: cannot be locked ({error.strerror})", f"fix the permissions of {path.parent}, or set TMPDIR"
    )
