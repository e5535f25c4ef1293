"""Small records as files in the cache: complete and valid, or absent."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from ncubble.files.private import write_private


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
