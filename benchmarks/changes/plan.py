"""Which bases are measured, and which families are learned from. Fixed before anything was measured.

A family has three bases: what a competent engineer would write first (fair), one that is drawn from
it by a seed (bad: two of its meta-parameters are made worse, or so it seems), and the one to which
single changes of the fair one lead until none gains 1 % (well). A family is one kernel, so all its
bases stand on one side. Within each kind, families are ordered by the SHA-256 of their names; the
first 60 %, rounded down, are learned from, the others are frozen.
"""

from __future__ import annotations

import hashlib
import math
import random

from benchmarks.changes.families import FAMILIES, MORE, Family

LEARNED = 0.6
BAD, FAIR, WELL = "bad", "fair", "well"
DRAWS = 4


def hashed(name: str) -> str:
    """The SHA-256 of a name."""
    return hashlib.sha256(name.encode()).hexdigest()


def split() -> dict[str, str]:
    """``learn`` or ``frozen`` for each family."""
    sides: dict[str, str] = {}
    for kind in {family.kind for family in FAMILIES}:
        names = sorted((family.name for family in FAMILIES if family.kind == kind), key=hashed)
        learned = math.floor(LEARNED * len(names))
        sides |= {name: "learn" if number < learned else "frozen" for number, name in enumerate(names)}
    return sides | {family.name: "learn" for family in MORE}


def bases(family: Family) -> dict[str, dict[str, int]]:
    """Meta-parameters of the bases that are known before measuring, by name."""
    return {BAD: _worse(family), FAIR: dict(family.fair)}


def drawn(family: Family) -> dict[str, dict[str, int]]:
    """More bases to learn from, added after the first scoring of the frozen side: each
    meta-parameter is halved, kept or doubled, and the depth is 1 to 4."""
    made: dict[str, dict[str, int]] = {}
    for number in range(DRAWS):
        draw = random.Random(hashed(f"{family.name} drawn {number}"))  # noqa: S311
        meta = dict(family.fair)
        for key, value in family.fair.items():
            if key == "num_stages":
                meta[key] = draw.choice((1, 2, 3, 4))
            elif key == "num_warps":
                meta[key] = draw.choice((4, 4, 8))
            elif key == "GROUP_M":
                meta[key] = draw.choice((1, 8))
            elif _is_tile(key):
                meta[key] = min(256, max(32, draw.choice((value // 2, value, value, value * 2))))
        made[f"drawn{number}"] = meta
    return made


def _worse(family: Family) -> dict[str, int]:
    draw = random.Random(hashed(f"{family.name} {BAD}"))  # noqa: S311
    fair = family.fair
    choices = {
        "num_stages": [stages for stages in (1, 2) if stages != fair["num_stages"]],
        "num_warps": [warps for warps in (fair["num_warps"] // 2, fair["num_warps"] * 2) if 2 <= warps <= 16],
        "GROUP_M": [1],
        **{key: [size for size in (fair[key] // 2, fair[key] // 4) if size >= 32] for key in fair if _is_tile(key)},
    }
    possible = [key for key in fair if [value for value in choices.get(key, []) if value != fair[key]]]
    worse = {key: draw.choice([value for value in choices[key] if value != fair[key]]) for key in possible}
    return {**fair, **{key: worse[key] for key in draw.sample(possible, min(2, len(possible)))}}


def _is_tile(key: str) -> bool:
    return key.startswith(("BLOCK", "CHUNK"))
