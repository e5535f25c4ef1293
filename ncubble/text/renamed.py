"""Maps names of quantities of earlier versions to current ones."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from typing import Any

RENAMED = {"tensor_active_pct": "tensor_elapsed_pct"}
"""It contains ncu's ``…pct_of_peak_sustained_elapsed``; percent of active cycles is
``tensor_of_active_pct``."""


def current_name(name: str) -> str:
    """The current name of ``name``; an old name is noted once per process."""
    if name not in RENAMED:
        return name
    _note(name)
    return RENAMED[name]


@cache
def _note(name: str) -> None:
    logging.getLogger(__name__).warning("%s is now called %s: the old name is still accepted", name, RENAMED[name])


def renamed_keys(members: Mapping[str, Any]) -> dict[str, Any]:
    """``members`` by their current names, without a note: for files that nobody edits by hand."""
    return {RENAMED.get(name, name): value for name, value in members.items()}
