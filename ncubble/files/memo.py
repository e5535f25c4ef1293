"""Small facts kept as files in the cache: whole, unharmed, or not there."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any


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
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(f"{_digest(text)}\n{text}", encoding="utf-8")
        draft.replace(path)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
