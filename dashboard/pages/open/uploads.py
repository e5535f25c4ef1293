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
import unicodedata
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from ncubble.dashboard.data.formats import HEAD_B, foreign, suffix_of
from ncubble.dashboard.pages.open.limits import MB, UploadError, UploadLimits, megabytes
from ncubble.profiling.processes.scratch import abandoned, scratch
from ncubble.store import cache_root, make_private

PIECE_B = 8 << 20
"""Maximum bytes of a piece: the server buffers a whole request."""
SPARE_B = 64 * MB
"""Disk space in bytes that uploads leave free."""
STALE_S = 600.0
"""An upload is abandoned after this many seconds without a piece."""
LONGEST_NAME = 200
_COPY_B = 1 << 20
_PREFIX = ".uploads-"
_ENDED = ("this upload has ended: it was cancelled or timed out", "add the file again")


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
            self.limits.check(size, [upload.size for upload in self._known.values()])
            work = self._folder()
            if shutil.disk_usage(work).free < size + SPARE_B:
                raise UploadError(
                    507, f"not enough disk space for {megabytes(size)}", f"free some space: {work.parent}"
                )
            upload = Upload(secrets.token_hex(8), shown_name(name), size, work / f"{secrets.token_hex(8)}.part")
            upload.path.touch(mode=0o600, exist_ok=False)
            upload.seen = time.monotonic()
            self._known[upload.id] = upload
            self.version += 1
            return upload

    def take(self, key: str, offset: int, length: int, stream: IO[bytes]) -> Upload:
        """Write ``length`` bytes of a file that begin at ``offset``; the last ones send it to the
        store.

        Raises UploadError where they do not follow what is here, where no report begins like this,
        and for a full disk.
        """
        upload = self._claim(key, offset, length)
        try:
            self._write(upload, length, stream)
            if offset < HEAD_B:
                self._look(upload)
            if upload.complete:
                self._pass_on(upload)
        except FileNotFoundError as error:
            raise UploadError(404, *_ENDED) from error
        finally:
            with self._lock:
                upload.busy, upload.seen = False, time.monotonic()
                self.version += 1
        return upload

    def again(self, key: str) -> None:
        """Have a complete file read once more; raises UploadError where there is none."""
        with self._lock:
            upload = self._find(key)
        if upload.complete:
            self._hand_over(upload)

    def remove(self, key: str) -> None:
        """Forget a file, or what has come of it. One that is not there is no error."""
        with self._lock:
            upload = self._known.pop(key, None)
            self.version += upload is not None
        if upload is not None:
            self.store.drop(upload.path)
            upload.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove all files."""
        self._keeper.close()

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
            upload = self._find(key)
            if upload.busy or offset != upload.received:
                raise UploadError(409, "unexpected piece", "continue where the last piece ended", upload.received)
            if not 0 < length <= min(PIECE_B, upload.size - upload.received):
                raise UploadError(
                    413, "the piece is longer than the missing rest", "add the file again", upload.received
                )
            upload.busy, upload.seen = True, time.monotonic()
            return upload

    def _find(self, key: str) -> Upload:
        if key not in self._known:
            raise UploadError(404, *_ENDED)
        return self._known[key]

    def _write(self, upload: Upload, length: int, stream: IO[bytes]) -> None:
        """Append a piece whole, or leave the file as it was."""
        left = length
        try:
            with upload.path.open("r+b") as file:
                file.truncate(upload.received)
                file.seek(upload.received)
                while left and (data := stream.read(min(left, _COPY_B))):
                    file.write(data)
                    left -= len(data)
        except FileNotFoundError:
            raise  # removed meanwhile
        except OSError as error:
            self.remove(upload.id)
            raise UploadError(
                507, f"cannot be written: {error.strerror or error}", "free some space, and retry"
            ) from error
        if left:
            raise UploadError(400, "the piece is incomplete", "send it again", upload.received)
        upload.received += length

    def _look(self, upload: Upload) -> None:
        """Refuse what is no report as soon as its first bytes are here."""
        with upload.path.open("rb") as file:
            head = file.read(HEAD_B)
        if not suffix_of(head) and (len(head) == HEAD_B or upload.complete):
            self.remove(upload.id)
            raise UploadError(415, *foreign(head))

    def _pass_on(self, upload: Upload) -> None:
        with upload.path.open("rb") as file:
            suffix = suffix_of(file.read(HEAD_B))
        with self._lock:
            if upload.id not in self._known:
                return  # removed meanwhile
            upload.path = upload.path.rename(upload.path.with_suffix(suffix))
        self._hand_over(upload)

    def _hand_over(self, upload: Upload) -> None:
        """Have the store read a file, and forget it where it was removed meanwhile: then ``remove``
        came too early."""
        self.store.add(upload.path, shown_as=upload.name)
        with self._lock:
            gone = upload.id not in self._known
        if gone:
            self.store.drop(upload.path)

    def _clear_stale(self) -> None:
        until = time.monotonic() - STALE_S
        for upload in [u for u in self._known.values() if not u.complete and not u.busy and u.seen < until]:
            del self._known[upload.id]
            upload.path.unlink(missing_ok=True)


def shown_name(name: str) -> str:
    """The name of a file as people see it: its last part, without control characters, not too
    long."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    kept = "".join(sign if unicodedata.category(sign)[0] != "C" else "\N{REPLACEMENT CHARACTER}" for sign in last)
    return f"{kept[:LONGEST_NAME]}…" if len(kept) > LONGEST_NAME else kept or "unnamed report"


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
        make_private(wanted)
        if os.access(wanted, os.R_OK | os.W_OK | os.X_OK):
            return wanted, _PREFIX
    return Path(tempfile.gettempdir()), f".ncubble-uploads-{os.getuid()}-"
