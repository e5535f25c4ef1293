"""Parts of the bubble account, and the other verdicts: one record each in ``parts.toml``, with
words, fix and colours."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Literal

import msgspec


class Style(msgspec.Struct, frozen=True):
    """How something is shown: ``color`` as ``#rrggbb``, ``hatch`` as a plotly pattern shape or
    empty."""

    label: str
    color: str = ""
    hatch: str = ""
    meaning: str = ""


class Outcome(Style, frozen=True, kw_only=True):
    """A verdict that is not a part. ``symbol`` is plotly's marker of launches with this cause.
    ``good``: its idle time is not a bubble that changing this kernel removes."""

    name: str
    symbol: str
    fix: str = ""
    good: bool = False


class Part(Style, frozen=True, kw_only=True):
    """One part of the account.

    ``kind`` is ``work``, ``launch`` (shape of the launch, found on the timeline), ``steady``
    (shared out by warp samples) or ``rest``. ``symbol`` is plotly's marker of launches with this
    cause, ``letter`` its cell in a bar without colour. A part with a ``fix`` can be removed;
    ``cause`` is its name as a cause. ``launch_sd`` and ``gpu_sd``: standard deviation between
    launches of one process, and between GPUs of one model, in points of kernel time
    (``benchmarks/gate/proof.py``). ``fix_untiled`` is the fix of a kernel that multiplies no
    tiles, if different.
    """

    name: str
    kind: Literal["work", "launch", "steady", "rest"]
    symbol: str
    letter: str
    launch_sd: float
    gpu_sd: float
    fix: str = ""
    fix_untiled: str = ""
    cause: str = ""


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    parts: list[Part]
    outcomes: list[Outcome]


_table = msgspec.convert(
    tomllib.loads(files("ncubble.analysis.account").joinpath("parts.toml").read_text("utf-8")), _Table
)
PARTS = {part.name: part for part in _table.parts}
"""By name, in display order."""
OUTCOMES = {outcome.name: outcome for outcome in _table.outcomes}
"""Verdicts that are not parts, by name."""
GOOD_CAUSES = tuple(outcome.name for outcome in _table.outcomes if outcome.good)


def _of_kind(kind: str) -> tuple[str, ...]:
    return tuple(part.name for part in PARTS.values() if part.kind == kind)


WORK, LAUNCH_SHAPE, STEADY = _of_kind("work"), _of_kind("launch"), _of_kind("steady")
"""Parts in which the unit works (all others are bubbles); parts from the timeline; parts from warp
samples."""
JOINED = "+"
"""Joins parts that an ablation can only measure together: ``data_wait+copy_cost`` if plain loads
leave no wait to remove."""
COARSE: dict[str, tuple[str, ...]] = {"idle": STEADY, "no_cta": ("ramp", "tail")}
"""Coarse parts of accounts whose report lacks the data to split them, and the parts they stand
for."""

CAUSES: dict[str, Part | Outcome] = {**PARTS, **OUTCOMES}
WAIT_COLORS = tuple(PARTS[name].color for name in ("other", "idle", "no_cta", "epilogue"))
"""Muted colours for waits of a lane; distinct from the colours of sides."""


def part_style(name: str) -> Part:
    """How a part is shown, or the first of joined ones; an unknown one is shown like ``other``."""
    return PARTS.get(name.split(JOINED)[0], PARTS["other"])


def display_order(names: Iterable[str]) -> list[str]:
    """``names`` in the account's order; unknown ones last, in their given order."""
    given = list(dict.fromkeys(names))
    return [*(name for name in PARTS if name in given), *(name for name in given if name not in PARTS)]


def part_label(name: str, unit: str = "") -> str:
    """The words for a part, joined parts or a cause; an unknown name is shown as it is, with
    spaces. ``unit`` names the busy unit."""
    if name == "unit_busy" and unit:
        return f"{unit} busy"
    labels = (CAUSES[part].label if part in CAUSES else part.replace("_", " ") for part in name.split(JOINED))
    return " and ".join(labels)


def part_color(name: str) -> str:
    """The colour of a part or cause, or of the first of joined ones; grey for what has none."""
    first = name.split(JOINED)[0]
    return (CAUSES[first].color if first in CAUSES else "") or PARTS["other"].color


def merged_by_any(accounts: Iterable[Mapping[str, Iterable[str]]]) -> dict[str, set[str]]:
    """Finer parts of each coarse part over several accounts, so that equal names mean the same in
    all. ``accounts`` holds the merged parts of each: finer parts by coarse part."""
    coarser: dict[str, set[str]] = {}
    for merged in accounts:
        for coarse, finer in merged.items():
            coarser.setdefault(str(coarse), set()).update(str(name) for name in finer)
    for coarse, finer in coarser.items():
        # A coarse part whose finer parts belong to another coarse part belongs to it, too.
        finer.update(name for name, held in coarser.items() if name != coarse and held < finer)
    return coarser


def folded(account: Mapping[str, float], merged: Mapping[str, set[str]]) -> dict[str, float]:
    """``account`` with finer parts added to the coarser ones that ``merged`` names; its sum stays
    what it was."""
    shares = {name: float(share) for name, share in account.items()}
    for coarse in sorted(merged, key=lambda name: len(merged[name])):
        held = [shares.pop(name) for name in list(shares) if name in merged[coarse]]
        if held or coarse in shares:
            shares[coarse] = shares.get(coarse, 0.0) + math.fsum(held)
    return shares
