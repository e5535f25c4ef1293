"""Reads what ``ncubble validate --measure`` wrote beside the runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ncubble.errors import ReportError


def load(file: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises ReportError where it is missing or holds none."""
    if not file.is_file():
        raise ReportError(f"{file}: no such recording", "name a folder that --measure wrote, or measure one")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ReportError(f"{file}: not JSON ({error})", "restore it, or measure anew") from error
    if not isinstance(content, dict):
        raise ReportError(f"{file}: not a JSON object", "restore it, or measure anew")
    return content
