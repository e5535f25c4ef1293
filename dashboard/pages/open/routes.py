"""The HTTP side of uploads. ``assets/open.js`` speaks it; every request but the first carries the
token.

| request | meaning |
| --- | --- |
| ``GET /upload`` | the token and the limits (JSON), for pages of this origin |
| ``POST /upload`` with ``{"name", "size"}`` | admits a file, gives its ``id`` |
| ``PATCH /upload/ID`` with ``Upload-Offset`` | takes a piece as a raw body, gives ``received`` |
| ``POST /upload/ID`` | reads a complete file again |
| ``DELETE /upload/ID`` | cancels or forgets |

Refusals are JSON: ``error``, ``remedy``, ``received`` (bytes of the file that are here).
"""

from __future__ import annotations

from typing import Any

from flask import Flask, Response, current_app, has_app_context, jsonify, request

from ncubble.dashboard.pages.open.limits import UploadError
from ncubble.dashboard.pages.open.uploads import PIECE_B, Uploads

PATH = "/upload"
TOKEN = "X-Ncubble-Token"  # noqa: S105
OFFSET = "Upload-Offset"
LONGEST_ANNOUNCEMENT_B = 64 << 10
LARGEST_B = 1 << 62
"""Limit for file sizes; the refusal of a larger file states its size."""
_NAME = "ncubble-uploads"
_RELOAD = "reload the page: the server was restarted"


def current() -> Uploads | None:
    """The uploads of the application that answers now; None outside of one."""
    return current_app.extensions.get(_NAME) if has_app_context() else None


def register(server: Flask, uploads: Uploads) -> None:
    """Add the routes to ``server``."""
    server.extensions[_NAME] = uploads
    server.register_error_handler(UploadError, _refusal)

    @server.get(PATH)
    def settings() -> Response:
        answer = jsonify(token=uploads.token, piece=PIECE_B, allowed=uploads.allowed, largest=uploads.limits.file_bytes)
        answer.headers["Cache-Control"] = "no-store"
        return answer

    @server.post(PATH)
    def announce() -> tuple[Response, int]:
        _admit_request(uploads)
        name, size = _announced()
        return jsonify(id=uploads.admit(name, size).id), 201

    @server.patch(f"{PATH}/<key>")
    def piece(key: str) -> Response:
        _admit_request(uploads)
        offset = request.headers.get(OFFSET, type=int)
        length = request.content_length
        if offset is None or length is None:
            raise UploadError(411, f"a piece needs {OFFSET} and Content-Length", "add the file in the browser")
        return jsonify(received=uploads.take(key, offset, length, request.stream).received)

    @server.post(f"{PATH}/<key>")
    def read_again(key: str) -> Response:
        _admit_request(uploads)
        uploads.again(key)
        return jsonify(id=key)

    @server.delete(f"{PATH}/<key>")
    def remove(key: str) -> Response:
        _admit_request(uploads)
        uploads.remove(key)
        return jsonify(id=key)


def _admit_request(uploads: Uploads) -> None:
    """Refuse who does not know the token: a header of its own also keeps other origins from sending
    without asking."""
    if not uploads.knows(request.headers.get(TOKEN, "")):
        raise UploadError(403, "the token of this server is missing or wrong", _RELOAD)


def _announced() -> tuple[str, int]:
    """Name and size of the file that is to come; raises UploadError for anything else."""
    if (request.content_length or 0) > LONGEST_ANNOUNCEMENT_B:
        raise UploadError(413, "the announcement is too long", "shorten the name of the file")
    given: Any = request.get_json(silent=True)
    name, size = (given.get("name"), given.get("size")) if isinstance(given, dict) else (None, None)
    if not isinstance(name, str) or type(size) is not int or abs(size) > LARGEST_B:
        raise UploadError(400, "an announcement is JSON with name and size", "add the file in the browser")
    return name, size


def _refusal(error: UploadError) -> tuple[Response, int]:
    return jsonify(error=error.message, remedy=error.remedy, received=error.received), error.status
