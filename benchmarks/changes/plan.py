"""Which bases are measured, and which families are learned from. Fixed before anything was measured.

A family has three bases: what a competent engineer would write first (fair), one that is drawn from
it by a seed (bad: two of its meta-parameters are made worse, or so it seems), and the one to which
single changes of the fair one lead until none gains 1 % (well); and more that are drawn (``drawn``).
A family is one kernel, so all its bases stand on one side.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import re
from collections.abc import Iterator, Sequence

from benchmarks.changes import cutlass
from benchmarks.changes.families import FAMILIES, MORE, Family
from benchmarks.changes.library import PRODUCTS, ROWS, Launch
from benchmarks.changes.second import BY_NAME, SECOND
from ncubble.analysis.changes.change import KINDS
from ncubble.api.trying import kind_of_constant, kind_of_parameter
from ncubble.errors import UsageError
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.session import KernelRequest

BAD, FAIR, WELL = "bad", "fair", "well"
ORDERS = ("GROUP_M", "GROUP_SIZE_M")
CATALOG = "catalog_"
"""What a family is called that is a kernel of ncubble's own catalog, before its name there."""
CATALOG_KERNELS = (
    *("async_copy_tma", "async_pipeline", "tensor_core_gemm", "gemm_mma_swizzled"),
    *("numba_tensor_core_gemm", "gemm_tma", "gemm_ws", "attention_fwd"),
)
_SECOND = {
    **{family.name: family.kind for family in SECOND},
    **dict.fromkeys((CATALOG + n for n in CATALOG_KERNELS), "catalog"),
}


def hashed(name: str) -> str:
    """The SHA-256 of a name."""
    return hashlib.sha256(name.encode()).hexdigest()


def split() -> dict[str, str]:
    """``learn``, ``library`` for what public libraries ship, or ``cutlass``.

    Of the first families, 60 % of each kind were learned from, in the order of the SHA-256 of their
    names, and the others frozen; of each kind of the second ones and of the catalog, the first half,
    rounded down, was learned from. Each frozen side was scored three times, and mistakes of rules were
    found by it: it can judge no rule any more, and is learned from. Whoever writes rules does not look
    at the other two sides.
    """
    sides = dict.fromkeys((*(family.name for family in (*FAMILIES, *MORE)), *_SECOND), "learn")
    return {**sides, **dict.fromkeys(library(), "library"), **dict.fromkeys(cutlass.PROBLEMS, "cutlass")}


def second() -> Iterator[str]:
    """The second families and the catalog, in the order of measuring: kinds and halves take turns, so
    that what was measured when time is up is of all of them."""
    kinds = _by_kind().values()
    return _in_turns([*(names[: len(names) // 2] for names in kinds), *(names[len(names) // 2 :] for names in kinds)])


def library() -> Iterator[str]:
    """Kernels of libraries, in the order of measuring: classes take turns."""
    return _in_turns([sorted((entry.name for entry in entries), key=hashed) for entries in (PRODUCTS, ROWS)])


def _in_turns(queues: Sequence[Sequence[str]]) -> Iterator[str]:
    for turn in itertools.zip_longest(*queues):
        yield from (name for name in turn if name)


def _by_kind() -> dict[str, list[str]]:
    """Second families of each kind, by the hash of their names."""
    kinds: dict[str, list[str]] = {}
    for name in sorted(_SECOND, key=hashed):
        kinds.setdefault(_SECOND[name], []).append(name)
    return dict(sorted(kinds.items()))


def bases(name: str) -> dict[str, dict[str, int]]:
    """Meta-parameters, or what is set of a catalog kernel, of the bases that are known before measuring."""
    if name.startswith(CATALOG):
        return {FAIR: {}, BAD: _worse_of_catalog(name.removeprefix(CATALOG))}
    if name in cutlass.PROBLEMS:
        return cutlass.bases(name)
    family = BY_NAME[name]
    return {BAD: _worse(family), FAIR: dict(family.fair), **drawn(family, 2 if name in _SECOND else 4)}


def drawn(family: Family, draws: int) -> dict[str, dict[str, int]]:
    """More bases: each meta-parameter is halved, kept or doubled, and the depth is 1 to 4.

    Of the first families some of these are equal, and tiles lie within 32 to 256.
    """
    made: dict[str, dict[str, int]] = {}
    first = family.name not in _SECOND
    for number in itertools.count():
        if len(made) == draws:
            break
        draw = random.Random(hashed(f"{family.name} drawn {number}"))  # noqa: S311
        meta = dict(family.fair)
        for key, value in family.fair.items():
            if key == "num_stages":
                meta[key] = draw.choice((1, 2, 3, 4))
            elif key == "num_warps":
                meta[key] = draw.choice((4, 4, 8))
            elif key in ORDERS:
                meta[key] = draw.choice((1, 8))
            elif _is_tile(key):
                least, most = (32, 256) if first else (min(32, value), max(256, 2 * value))
                meta[key] = min(most, max(least, draw.choice((value // 2, value, value, value * 2))))
        if first or meta not in (family.fair, _worse(family), *made.values()):
            made[f"drawn{len(made)}"] = meta
    return made


def _worse(family: Family) -> dict[str, int]:
    draw = random.Random(hashed(f"{family.name} {BAD}"))  # noqa: S311
    fair = family.fair
    choices = {
        "num_stages": [stages for stages in (1, 2) if stages != fair.get("num_stages")],
        "num_warps": [warps for warps in (fair["num_warps"] // 2, fair["num_warps"] * 2) if 2 <= warps <= 16],
        **{key: [1] for key in ORDERS},
        **{key: [size for size in (fair[key] // 2, fair[key] // 4) if size >= 32] for key in fair if _is_tile(key)},
    }
    possible = [key for key in fair if [value for value in choices.get(key, []) if value != fair[key]]]
    worse = {key: draw.choice([value for value in choices[key] if value != fair[key]]) for key in possible}
    return {**fair, **{key: worse[key] for key in draw.sample(possible, min(2, len(possible)))}}


def _is_tile(key: str) -> bool:
    return key.startswith(("BLOCK", "CHUNK"))


def _worse_of_catalog(name: str) -> dict[str, int]:
    """The first valid draw of smaller values for one or two parameters that make a known change."""
    knobs = [
        item
        for item in find_spec(name).parameters
        if not item.problem and not item.tacit and kind_of_parameter(item) in KINDS and isinstance(item.default, int)
    ]
    smaller = {knob.name: [value for value in knob.choices if value < knob.default] for knob in knobs}
    possible = [name for name, values in smaller.items() if values]
    draw = random.Random(hashed(f"{name} {BAD}"))  # noqa: S311
    while True:
        drawn = {key: draw.choice(smaller[key]) for key in draw.sample(possible, min(2, len(possible)))}
        try:
            KernelRequest(name, drawn).case()
        except UsageError:
            continue
        return drawn


def worse_launch(name: str, launch: Launch, number: int) -> dict[str, int]:
    """What the bad base of a library's kernel changes of its launch, or what another draw does: another
    configuration of the library's own, or one or two of num_warps, num_stages and tiles that the grid
    follows. Empty where nothing can be drawn."""
    draw = random.Random(hashed(f"{name} {BAD} {number}"))  # noqa: S311
    now = launch.now()
    others = [
        {key: value for key, value in other.items() if launch.listed[0].get(key) != value} for other in launch.listed
    ]
    if others := [other for other in others if other and other.keys() <= now.keys()]:
        return draw.choice(others)
    warps, stages = now["num_warps"], now["num_stages"]
    choices = {"num_warps": [count for count in (warps // 2, warps * 2) if 1 <= count <= 16]}
    if re.search(r"^\s*(for|while) ", launch.kernel.src, re.MULTILINE):
        choices["num_stages"] = [count for count in (1, 2) if count != stages]
    for key, value in now.items():
        if key not in choices and kind_of_constant(key, value).startswith("tile"):
            sizes = [size for size in (value // 2, value // 4) if size >= 16]
            choices[key] = [size for size in sizes if launch.tiles({key: size}) != launch.tiles({})]
    possible = sorted(key for key, values in choices.items() if values)
    return {key: draw.choice(choices[key]) for key in draw.sample(possible, min(2, len(possible)))}
