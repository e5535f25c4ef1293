"""Report files that come through the browser, each as one request, into a folder that ends with
this process. ``assets/open.js`` sends them; every request but the first carries the token.

| request | meaning |
| --- | --- |
| ``GET /upload?size=BYTES`` | the token, for pages of this origin, and what speaks against a file |
| ``POST /upload?name=NAME`` | takes the body as a file, gives its ``id`` |
| ``DELETE /upload/ID`` | forgets it |

Refusals are JSON: ``error`` and ``remedy``. The given name is only ever shown: where a file lies is
chosen here, and its suffix follows from its content. What is complete goes to the store, whose
workers parse it; of anything else, nothing is kept.
"""

from __future__ import annotations

import atexit
import hmac
import os
import secrets
import shutil
import tempfile
import threading
import unicodedata
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from flask import Flask, Response, current_app, has_app_context, jsonify, request

from ncubble.analysis.report.container import MAGIC, ZSTD_MAGIC
from ncubble.dashboard.data.store import ReportStore
from ncubble.errors import NcubbleError
from ncubble.profiling.scratch import abandoned, scratch
from ncubble.store import cache_root, make_private
from ncubble.text.values import file_size

ADDRESS = "/upload"
TOKEN = "X-Ncubble-Token"  # noqa: S105
HEADER = "X_NCUBBLE_TOKEN"
"""Its name as waitress has it."""
MB = 1_000_000
LARGEST_MB = 512
"""Default limit of a file."""
MOST_FILES, LEAST_TOTAL_B = 64, 4000 * MB
"""Limits of all files together; one file may have more bytes if its own limit does."""
SPARE_B = 64 * MB
"""Disk space in bytes that uploads leave free."""
LONGEST_NAME = 200
HEAD_B = 64
"""Bytes from the start of a file that tell what it is."""
_COPY_B = 1 << 20
_PREFIX, _EXTENSION = ".uploads-", "ncubble-uploads"
_UNPACK = "unpack it, and add the .ncu-rep files in it"
_FOREIGN: tuple[tuple[bytes, str, str], ...] = (
    (
        b"NVIDIA Tegra Profiler Report",
        "a report of Nsight Systems",
        "profile with Nsight Compute: ncubble profile -- CMD",
    ),
    (b"SQLite format 3\0", "an SQLite database", "add the .ncu-rep file that Nsight Compute wrote"),
    (b"\x1f\x8b", "a gzip archive", _UNPACK),
    (b"PK\x03\x04", "a zip archive", _UNPACK),
    (b"\xfd7zXZ\0", "an xz archive", _UNPACK),
    (b"BZh", "a bzip2 archive", _UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (b"\x7fELF", "a program or a cubin", "profile it: ncubble profile -- CMD"),
    (b"version https://git-lfs", "a pointer of Git LFS, not the file itself", "fetch the file: git lfs pull"),
    (b"==PROF==", "the text output of ncu", "let ncu write a report: ncu -o report …"),
    (b"<", "a text with markup, perhaps the page of a download", "download the file itself"),
    (b"{", "a JSON text", "add the report.ncu-rep that lies beside it"),
    (b'"ID"', "a CSV export of ncu", "add the .ncu-rep file that it was exported from"),
)


class UploadError(NcubbleError):
    """A refused file, with the ``status`` of the answer."""

    def __init__(self, status: int, message: str, remedy: str) -> None:
        super().__init__(message, remedy)
        self.status = status


@dataclass
class Upload:
    """One file of ``size`` bytes: ``path`` is where it lies, ``name`` what people call it."""

    id: str
    name: str
    size: int
    path: Path
    complete: bool = False


class Uploads:
    """The files that were added since this process began. Methods may be called from any thread."""

    def __init__(self, store: ReportStore, megabytes: int = LARGEST_MB) -> None:
        """``megabytes``: limit of a file; with 0, none is taken."""
        self.store, self.largest = store, megabytes * MB
        self.most, self.total = MOST_FILES, max(LEAST_TOTAL_B, self.largest)
        self.token = secrets.token_urlsafe(32)
        self.version = 0
        self._lock = threading.RLock()
        self._known: dict[str, Upload] = {}
        self._work: Path | None = None
        self._keeper = ExitStack()

    def knows(self, token: str) -> bool:
        """Whether a request carries the token that only pages of this process can read."""
        return hmac.compare_digest(token.encode(errors="replace"), self.token.encode())

    def kept(self) -> list[Upload]:
        """All complete files in the order of their coming."""
        with self._lock:
            return [upload for upload in self._known.values() if upload.complete]

    def check(self, size: int) -> Path:
        """Where a file of ``size`` bytes would lie. Raises UploadError where it is not taken beside
        those that are here."""
        with self._lock:
            held = [upload.size for upload in self._known.values()]
        by_path = "open it on the command line: ncubble dashboard PATH"
        if not self.largest:
            raise UploadError(403, "this server does not accept files", by_path)
        if size <= 0:
            raise UploadError(422, "the file is empty", "profile again, or copy the file again")
        if size > self.largest:
            what = f"too large: {file_size(min(size, 1 << 62))}, at most {file_size(self.largest)} are accepted"
            raise UploadError(413, what, f"{by_path}, or raise the limit: --upload-limit MB")
        if len(held) >= self.most:
            raise UploadError(413, f"too many: {self.most} files are already kept", "remove some in the list below")
        if sum(held) + size > self.total:
            what = f"the {file_size(sum(held))} already kept it would exceed {file_size(self.total)}"
            raise UploadError(413, f"too much: together with {what}", "remove some files in the list below")
        work = self._folder()
        for place in (work, Path(tempfile.gettempdir())):  # requests are received into the second
            if shutil.disk_usage(place).free < size + SPARE_B:
                what = f"not enough disk space for {file_size(size)}"
                raise UploadError(507, what, f"free some space: {work.parent if place is work else place}")
        return work

    def take(self, name: str, size: int, stream: IO[bytes]) -> Upload:
        """A file of ``size`` bytes out of ``stream``, which the store then reads. Raises
        UploadError, and keeps nothing, where it is refused, no report, cut off, or cannot be
        written."""
        with self._lock:
            path = self.check(size) / secrets.token_hex(8)
            upload = Upload(secrets.token_hex(8), shown_name(name), size, path)
            self._known[upload.id] = upload
        try:
            head = stream.read(min(HEAD_B, size))
            upload.path = path.with_suffix(suffix_of(head))
            upload.path.touch(mode=0o600, exist_ok=False)
            with upload.path.open("wb") as file:
                file.write(head)
                while (left := size - file.tell()) and (data := stream.read(min(left, _COPY_B))):
                    file.write(data)
            if left:
                raise UploadError(400, "the file was cut off on its way", "add it again")
            with self._lock:
                self.store.add(upload.path, shown_as=upload.name)
                upload.complete = True
                self.version += 1
        except OSError as error:
            self.remove(upload.id)
            why = f"cannot be written: {error.strerror or error}"
            raise UploadError(507, why, "free some space, and retry") from error
        except BaseException:
            self.remove(upload.id)
            raise
        return upload

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


def current() -> Uploads | None:
    """The uploads of the application that answers now; None outside of one."""
    return current_app.extensions.get(_EXTENSION) if has_app_context() else None


def largest_body(server: Flask, path: str, token: str) -> int:
    """Maximum bytes of the body of a request to ``path`` that is an upload, by its token; 0 for all
    other requests."""
    uploads: Uploads = server.extensions[_EXTENSION]
    return uploads.largest if path == ADDRESS and uploads.knows(token) else 0


def register(server: Flask, uploads: Uploads) -> None:
    """Add the routes to ``server``. All but the first refuse who does not know the token: a header
    of its own also keeps other origins from sending without asking."""
    server.extensions[_EXTENSION] = uploads

    @server.errorhandler(UploadError)
    def refuse(error: UploadError) -> tuple[Response, int]:
        return jsonify(error=error.message, remedy=error.remedy), error.status

    def admit() -> None:
        if not uploads.knows(request.headers.get(TOKEN, "")):
            raise UploadError(
                403, "the token of this server is missing or wrong", "reload the page: the server was restarted"
            )

    @server.get(ADDRESS)
    def ask() -> Response:
        answer: dict[str, Any] = {"token": uploads.token}
        try:
            uploads.check(request.args.get("size", 1, type=int))
        except UploadError as error:
            answer |= {"error": error.message, "remedy": error.remedy}
        return Response(jsonify(answer).data, mimetype="application/json", headers={"Cache-Control": "no-store"})

    @server.post(ADDRESS)
    def take() -> tuple[Response, int]:
        admit()
        if request.content_length is None:
            raise UploadError(411, "the request does not tell its length", "add the file in the browser")
        # Not request.stream, which has the limit of all other requests.
        upload = uploads.take(request.args.get("name", ""), request.content_length, request.environ["wsgi.input"])
        return jsonify(id=upload.id), 201

    @server.delete(f"{ADDRESS}/<key>")
    def remove(key: str) -> Response:
        admit()
        uploads.remove(key)
        return jsonify(id=key)


def suffix_of(head: bytes) -> str:
    """``.ncu-rep`` or ``.ncu-repz`` by the first bytes of a file. Raises UploadError where no
    report begins like this, with what it is and what to do instead."""
    if head.startswith(MAGIC):
        return ".ncu-rep"
    if head.startswith(ZSTD_MAGIC):
        return ".ncu-repz"
    for start, what, remedy in _FOREIGN:
        if head.startswith(start):
            raise UploadError(415, f"not a report of Nsight Compute but {what}", remedy)
    remedy = "add a .ncu-rep file, or one compressed with zstd (.ncu-repz)"
    raise UploadError(415, "not a report of Nsight Compute", remedy)


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
    parent, prefix = Path(tempfile.gettempdir()), f".ncubble-uploads-{os.getuid()}-"
    with suppress(OSError):
        make_private(wanted := cache_root())
        if os.access(wanted, os.R_OK | os.W_OK | os.X_OK):
            parent, prefix = wanted, _PREFIX
    for _ in abandoned(parent, prefix):
        pass
    return parent, prefix
