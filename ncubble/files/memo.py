"""Small records as files in the cache: complete and valid, or absent."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from ncubble.files.private import write_private


def recall(path: Path) -> Any:
    """The record that ``remember`` wrote to ``path``; None if missing or damaged."""
    with suppress(OSError, ValueError):
        digest, _, text = path.read_text(encoding="utf-8").partition("\n")
        if digest == _digest(text):
            return json.loads(text)
    return None


def remember(path: Path, content: Any) -> None:
    """Write ``content`` (JSON) to ``path``; does nothing if the cache is not writable."""
    text = json.dumps(content)
    with suppress(OSError):
        write_private(path, f"{_digest(text)}\n{text}".encode())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
