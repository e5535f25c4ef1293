"""Output of the commands: JSON on stdout, messages and progress on stderr."""

from __future__ import annotations

import json
import math
import sys
from typing import Any


def emit_json(value: Any) -> None:
    """Print one JSON object to stdout. NaN and infinities become null: they are not JSON."""
    sys.stdout.write(json.dumps(finite(value), indent=1, ensure_ascii=False) + "\n")


def printable(text: str) -> str:
    """``text`` on one line and without control characters: names in a report must not steer the terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def finite(value: Any) -> Any:
    """``value`` with every non-finite float replaced by None, at any depth."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
