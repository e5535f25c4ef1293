"""Small facts kept as files in the cache: whole, unharmed, or not there."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from ncubble.files.private import write_private


def recall(path: Path) -> Any:
    """What ``remember`` wrote to ``path``; None where that is nothing, or not what was written."""
    with suppress(OSError, ValueError):
        digest, _, text = path.read_text(encoding="utf-8").partition("\n")
        if digest == _digest(text):
            return json.loads(text)
    return None


def remember(path: Path, content: Any) -> None:
    """Write ``content`` (JSON) to ``path``. Where the cache cannot be written, nothing is
    remembered."""
    text = json.dumps(content)
    with suppress(OSError):
        write_private(path, f"{_digest(text)}\n{text}".encode())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
