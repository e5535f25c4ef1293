"""Names and sizes of added files as people read them."""

from __future__ import annotations

import unicodedata

MB = 1_000_000
LONGEST_NAME = 200


def shown(name: str) -> str:
    """The name of a file as people see it: its last part, without control characters, not too
    long."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    kept = "".join(sign if unicodedata.category(sign)[0] != "C" else "\N{REPLACEMENT CHARACTER}" for sign in last)
    return f"{kept[:LONGEST_NAME]}…" if len(kept) > LONGEST_NAME else kept or "report without a name"


def megabytes(size: float) -> str:
    """A size in bytes as ``12.5 MB``, ``4 GB`` or ``3 kB``."""
    for scale, unit in ((1e9, "GB"), (1e6, "MB")):
        if size >= scale:
            return f"{size / scale:.1f}".removesuffix(".0") + f" {unit}"
    return f"{max(1, round(size / 1e3))} kB" if size else "0 kB"
