"""Locks between processes. The holder is written into the lock file, so that others can name it. A
lock ends with its process. Links are never followed, because others may write to the folder.
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
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from ncubble.errors import MeasurementError
from ncubble.text.markdown import printable

log = logging.getLogger(__name__)
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


def open_lock_file(path: Path, mode: int = 0o600) -> int:
    """A descriptor of the regular file at ``path``, created if missing. Raises MeasurementError if
    something else is there, and OSError."""
    try:
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        if path.is_symlink() or path.is_dir():
            raise _wrong(path) from error
        raise
    if stat.S_ISREG(os.fstat(number).st_mode):
        return number
    os.close(number)
    raise _wrong(path)


def _wrong(path: Path) -> MeasurementError:
    kind = "a symbolic link" if path.is_symlink() else "a directory" if path.is_dir() else "no regular file"
    return MeasurementError(f"{path}: is {kind}, where ncubble keeps a lock file", f"remove it: {path}")


def _unusable(path: Path, error: OSError) -> MeasurementError:
    return MeasurementError(
        f"{path}: cannot be locked ({error.strerror})", f"fix the permissions of {path.parent}, or set TMPDIR"
    )
