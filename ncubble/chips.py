"""Which chip a compute capability means: metric names differ between chips, not between products.

Source: ``ncu --list-chips`` and the compute capability table of the CUDA programming guide.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ncubble.errors import UsageError

CHIPS = {
    (7, 0): "gv100",
    (7, 5): "tu102",
    (8, 0): "ga100",
    (8, 6): "ga102",
    (8, 9): "ad102",
    (9, 0): "gh100",
    (10, 0): "gb100",
    (10, 3): "gb100",  # GB300 shares the metric names of GB100
    (12, 0): "gb202",
    (12, 1): "gb202",
}
CHIP_NAMES = frozenset(CHIPS.values())


class Version(NamedTuple):
    """Two leading numbers of a version or compute capability; the rest never decides anything here."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


def parse_version(text: str) -> Version:
    """``"2025.3.1.0"`` → 2025.3, ``"9.0"`` → 9.0; raises UsageError for anything without two leading numbers."""
    found = re.match(r"\s*(\d+)\.(\d+)", text)
    if not found:
        raise UsageError(f"not a version: {text!r}", "write it as major.minor, for example 9.0")
    return Version(int(found[1]), int(found[2]))


def chip_of(capability: Version | None) -> str | None:
    """The chip of a compute capability, or None where it is unknown: then names are used as written."""
    return CHIPS.get(capability) if capability else None
