"""The variants of a kernel that are measured: machine code without sets of parts, and with delays.

A word names what a variant leaves out: ``wait``, ``copy_sync``, ``all``. Without copies nothing
waits, so that ``copy`` is without waits, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations

from ncubble.analysis.ablation.code import SPECIAL, RemovableParts
from ncubble.analysis.account.shares import ALL, EPILOGUE, LOOP, removed
from ncubble.sass.patching import Code

SLACK = "slack"
"""Prefix of the names of variants that delay a class of instructions."""


@dataclass(frozen=True)
class CodeVariant:
    """Changed machine code. ``rows``: instructions that are gone or delayed. ``harmless``: results
    must stay as they are."""

    name: str
    cubin: bytes
    rows: int
    harmless: bool = False


def words(parts: RemovableParts) -> list[str]:
    """Every set of parts that is measured, singles first."""
    loop = [part for part in LOOP if part in parts.rows]
    chosen = ["_".join(subset) for size in range(1, len(loop) + 1) for subset in combinations(loop, size)]
    # A set with copies always includes the waits: its name omits them.
    distinct = [word for word in chosen if not {"wait", "copy"} <= set(word.split("_"))]
    more = [EPILOGUE, ALL] if EPILOGUE in parts.rows else []
    return [*distinct, *more, *([SPECIAL] if SPECIAL in parts.rows else [])]


class Way(Enum):
    """How waits and copies are taken away."""

    PLAIN = "with the arithmetic that only serves copies"
    FREE_RUNNING = "with all other mbarrier waits"
    BARE = "copies without the arithmetic that serves them"
    ARRIVING = "bare copies; waits for them stay, and pass as soon as the copying thread arrives"

    @property
    def retried(self) -> set[str]:
        """Parts that are tried again this way, where a variant without them failed."""
        return {"wait", "copy"} if self is Way.FREE_RUNNING else {"copy"}


def without(
    code: Code, sass: Sequence[str], parts: RemovableParts, word: str, way: Way = Way.PLAIN, short: bool = False
) -> CodeVariant:
    """The code without the parts that ``word`` names: NOPs in their place or, ``short``, without
    these, too."""
    gone = {SPECIAL} if word == SPECIAL else removed(word)
    rows, expecting = dict(parts.rows), parts.expecting
    if way is Way.FREE_RUNNING:
        rows["wait"], expecting = parts.free_running
    if way in (Way.BARE, Way.ARRIVING):
        rows["copy"] = parts.bare
    if way is Way.ARRIVING and "copy" in gone:
        gone = gone - {"wait"}
    taken = [row for part in sorted(gone) for row in rows.get(part, ())]
    changes = code.without(taken, list(sass))
    if "copy" in gone:
        changes |= code.announcing_nothing(expecting) if way is Way.ARRIVING else code.without(expecting, list(sass))
    elif "wait" in gone:
        changes |= code.expecting(expecting)
    return CodeVariant(word, code.shortened(changes, sass) if short else code.patched(changes), len(changes))


def delayed(code: Code, parts: RemovableParts) -> Iterator[CodeVariant]:
    """One variant for each class of instructions whose stall counts can be raised."""
    for name, rows in parts.slack.items():
        if changes := code.delayed(rows):
            yield CodeVariant(f"{SLACK} {name}", code.patched(changes), len(changes), harmless=True)
