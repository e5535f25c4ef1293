"""Report files that came through the browser: received piece by piece into a folder that ends with
this process.

A file is announced first (name and size), so that everything that speaks against it is said before
any of it is sent. Pieces follow in order; one that was not taken whole is sent again. The given
name is only ever shown: where a file lies is chosen here, and its suffix follows from its content.
What is complete goes to the store, and its workers parse it.
"""

from __future__ import annotations

import atexit
import hmac
import os
import secrets
import shutil
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from ncubble.dashboard.data.formats import HEAD_B, foreign, suffix_of
from ncubble.dashboard.pages.open.words import MB, megabytes, shown
from ncubble.errors import NcubbleError
from ncubble.files.cache import cache_root
from ncubble.profiling.processes.scratch import abandoned, scratch

PIECE_B = 8 << 20
"""Most bytes of one piece: the server buffers a whole request."""
SPARE_B = 64 * MB
"""Bytes of the disk that uploads leave free."""
STALE_S = 600.0
"""After so long without a piece an upload has been given up."""
ON_COMMAND_LINE = "ncubble dashboard PATH"
_COPY_B = 1 << 20
_PREFIX = ".uploads-"
_ENDED = ("this upload has ended: it was cancelled, or nothing came for a while", "add the file again")


@dataclass(frozen=True)
class UploadLimits:
    """Limits: bytes of one file (0: take none), number of files and bytes in all."""

    file_bytes: int = 512 * MB
    files: int = 64
    total_bytes: int = 4000 * MB

    @classmethod
    def of_megabytes(cls, megabytes: int) -> UploadLimits:
        """The limits where one file may have so many MB; the total grows with them."""
        return cls(megabytes * MB, total_bytes=max(cls.total_bytes, megabytes * MB))


class UploadError(NcubbleError):
    """A refused file or piece: HTTP ``status``, and the bytes received so far."""

    def __init__(self, status: int, message: str, remedy: str = "", received: int = 0) -> None:
        super().__init__(message, remedy)
        self.status, self.received = status, received


@dataclass
class Upload:
    """One file: ``path`` is where it lies, ``name`` what people call it. Sizes in bytes, ``seen``
    in monotonic s."""

    id: str
    name: str
    size: int
    path: Path
    received: int = 0
    seen: float = 0.0
    busy: bool = False

    @property
    def complete(self) -> bool:
        """Whether all of it is here."""
        return self.received == self.size


class Taker(Protocol):
    """What uploads need of the store."""

    def add(self, path: Path, shown_as: str = "") -> None:
        """Read this file, or read it again; returns at once."""

    def drop(self, path: Path) -> None:
        """Forget this file."""


@dataclass
class Uploads:
    """The files that were added since this process began. Methods may be called from any thread."""

    store: Taker
    limits: UploadLimits = field(default_factory=UploadLimits)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    version: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: dict[str, Upload] = field(default_factory=dict)
    _work: Path | None = None
    _keeper: ExitStack = field(default_factory=ExitStack)

    @property
    def allowed(self) -> bool:
        """Whether any file is taken."""
        return self.limits.file_bytes > 0

    def knows(self, token: str) -> bool:
        """Whether a request carries the token that only pages of this process can read."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    def kept(self) -> list[Upload]:
        """All files in the order of their coming, also those of which pieces are missing."""
        with self._lock:
            return list(self._known.values())

    def admit(self, name: str, size: int) -> Upload:
        """Admit a file. Raises UploadError where it is too large, or too many are kept."""
        with self._lock:
            self._clear_stale()
            self._check(size)
            work = self._folder()
            if shutil.disk_usage(work).free < size + SPARE_B:
                raise UploadError(507, f"no room on the disk for {megabytes(size)}", f"free some space: {work.parent}")
            one = Upload(secrets.token_hex(8), shown(name), size, work / f"{secrets.token_hex(8)}.part")
            one.path.touch(mode=0o600, exist_ok=False)
            one.seen = time.monotonic()
            self._known[one.id] = one
            self.version += 1
            return one

    def take(self, key: str, offset: int, length: int, stream: IO[bytes]) -> Upload:
        """Write ``length`` bytes of a file that begin at ``offset``; the last ones send it to the
        store.

        Raises UploadError where they do not follow what is here, where no report begins like this,
        and for a full disk.
        """
        one = self._claim(key, offset, length)
        try:
            self._write(one, length, stream)
            if offset < HEAD_B:
                self._look(one)
            if one.complete:
                self._pass_on(one)
        except FileNotFoundError as error:
            raise UploadError(404, *_ENDED) from error
        finally:
            with self._lock:
                one.busy, one.seen = False, time.monotonic()
                self.version += 1
        return one

    def again(self, key: str) -> None:
        """Have a complete file read once more; raises UploadError where there is none."""
        with self._lock:
            one = self._find(key)
        if one.complete:
            self._hand_over(one)

    def remove(self, key: str) -> None:
        """Forget a file, or what has come of it. One that is not there is no error."""
        with self._lock:
            one = self._known.pop(key, None)
            self.version += one is not None
        if one is not None:
            self.store.drop(one.path)
            one.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove all files."""
        self._keeper.close()

    def _check(self, size: int) -> None:
        most = self.limits
        if not self.allowed:
            raise UploadError(
                403, "this server takes no files", "name them on the command line: ncubble dashboard PATH"
            )
        if size <= 0:
            raise UploadError(422, "the file is empty", "profile again, or copy the file again")
        if size > most.file_bytes:
            raise UploadError(
                413,
                f"too large: {megabytes(size)}, at most {megabytes(most.file_bytes)} are taken",
                f"name it on the command line: {ON_COMMAND_LINE}, or raise the limit: --upload-limit MB",
            )
        if len(self._known) >= most.files:
            raise UploadError(413, f"too many: {most.files} files are kept already", "remove some in the list below")
        held = sum(one.size for one in self._known.values())
        if held + size > most.total_bytes:
            raise UploadError(
                413,
                f"too much: with {megabytes(held)} that are kept it would be more than {megabytes(most.total_bytes)}",
                "remove some files in the list below",
            )

    def _folder(self) -> Path:
        """Where files lie: below the cache, or below the temporary folder."""
        if self._work is None or not self._work.exists():
            parent, prefix = clear_leftovers()
            self._keeper = ExitStack()
            self._work = self._keeper.enter_context(scratch(parent, prefix, {}))
            atexit.register(self._keeper.close)
        return self._work

    def _claim(self, key: str, offset: int, length: int) -> Upload:
        """The upload that a piece is for, marked as busy: two pieces are never written at once."""
        with self._lock:
            one = self._find(key)
            if one.busy or offset != one.received:
                raise UploadError(409, "another piece is expected", "go on where the last one ended", one.received)
            if not 0 < length <= min(PIECE_B, one.size - one.received):
                raise UploadError(413, "the piece is longer than what is missing", "add the file again", one.received)
            one.busy, one.seen = True, time.monotonic()
            return one

    def _find(self, key: str) -> Upload:
        if key not in self._known:
            raise UploadError(404, *_ENDED)
        return self._known[key]

    def _write(self, one: Upload, length: int, stream: IO[bytes]) -> None:
        """Append a piece whole, or leave the file as it was."""
        left = length
        try:
            with one.path.open("r+b") as file:
                file.truncate(one.received)
                file.seek(one.received)
                while left and (data := stream.read(min(left, _COPY_B))):
                    file.write(data)
                    left -= len(data)
        except FileNotFoundError:
            raise  # removed meanwhile
        except OSError as error:
            self.remove(one.id)
            raise UploadError(
                507, f"cannot be written: {error.strerror or error}", "free some space, and retry"
            ) from error
        if left:
            raise UploadError(400, "the piece was cut off", "send it again", one.received)
        one.received += length

    def _look(self, one: Upload) -> None:
        """Refuse what is no report as soon as its first bytes are here."""
        with one.path.open("rb") as file:
            head = file.read(HEAD_B)
        if not suffix_of(head) and (len(head) == HEAD_B or one.complete):
            self.remove(one.id)
            raise UploadError(415, *foreign(head))

    def _pass_on(self, one: Upload) -> None:
        with one.path.open("rb") as file:
            suffix = suffix_of(file.read(HEAD_B))
        with self._lock:
            if one.id not in self._known:
                return  # removed meanwhile
            one.path = one.path.rename(one.path.with_suffix(suffix))
        self._hand_over(one)

    def _hand_over(self, one: Upload) -> None:
        """Have the store read a file, and forget it where it was removed meanwhile: then ``remove``
        came too early."""
        self.store.add(one.path, shown_as=one.name)
        with self._lock:
            gone = one.id not in self._known
        if gone:
            self.store.drop(one.path)

    def _clear_stale(self) -> None:
        until = time.monotonic() - STALE_S
        for one in [u for u in self._known.values() if not u.complete and not u.busy and u.seen < until]:
            del self._known[one.id]
            one.path.unlink(missing_ok=True)


def clear_leftovers() -> tuple[Path, str]:
    """Remove what killed processes left; gives the folder below which uploads lie, and how their
    folders' names begin.

    A folder that cannot be read or written is left as it is.
    """
    parent, prefix = _place()
    for _ in abandoned(parent, prefix):
        pass
    return parent, prefix


def _place() -> tuple[Path, str]:
    """The folder below which uploads lie, and how the names of their folders begin there."""
    wanted = cache_root()
    with suppress(OSError):
        wanted.mkdir(parents=True, exist_ok=True)
        if os.access(wanted, os.R_OK | os.W_OK | os.X_OK):
            return wanted, _PREFIX
    return Path(tempfile.gettempdir()), f".ncubble-uploads-{os.getuid()}-"
