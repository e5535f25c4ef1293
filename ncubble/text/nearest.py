"""Remedies for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def known_names(name: str, known: Iterable[str], lead: str = "it has") -> str:
    """The remedy for ``name``, which is none of ``known``: the nearest one, if any is near, and
    after ``lead`` all."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    listed = f"{lead}: {', '.join(names)}" if names else f"{lead} none"
    return f"did you mean {near[0]}? {listed[:1].upper()}{listed[1:]}" if near else listed
