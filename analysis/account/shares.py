"""Distributes the saved time of a launch among the removed parts.

Parts of the main loop overlap: without copies, a barrier costs less. They share the saving of all
of them by the Shapley value, the mean over all orders of removal, if every set was measured (L. S.
Shapley, "A value for n-person games", 1953). A wait must be removed before its copy, because
nothing waits for a copy that is not made. If not every set could be measured, parts are only
removed in the order of ``LOOP``. Parts that were only removed together are one part here. The
epilogue overlaps with the loop, too, but is only removed first and last: its share is the mean of
both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, permutations

from ncubble.analysis.account.parts import JOINED
from ncubble.errors import ReportError

LOOP = ("wait", "copy", "sync", "smem")
EPILOGUE, NONE, ALL, TAIL, REST = "epilogue", "none", "all", "tail", "rest"
PART_OF = {"wait": "data_wait", "copy": "copy_cost", "sync": "sync_wait", "smem": "smem_wait", "epilogue": "epilogue"}
"""Parts that variants remove, and the account part that each measures."""
MEASURE = "measure it again with --measure"

Gone = dict[frozenset[str], float]


def removed(word: str) -> frozenset[str]:
    """The parts that a variant leaves out, as ``kernels/catalog/ablation.py`` has it: without
    copies nothing waits."""
    parts = set(PART_OF) if word == ALL else set(word.split("_")) - {NONE}
    return frozenset(parts | {"wait"} if "copy" in parts else parts)


def shared_out(gone: Gone, tail: float | None, busy_pct: float) -> dict[str, float]:
    """Parts of the account, and ``rest``, in percent of the whole kernel's cycles, from what
    vanishes with each set (``gone``), with a grid of whole waves (``tail``), and from the share in
    which the unit is busy.

    Raises ReportError if a required set is missing.
    """

    def without(parts: frozenset[str]) -> float:
        if parts not in gone:
            raise ReportError(f"no usable variant without {' and '.join(sorted(parts))}", MEASURE)
        return gone[parts]

    everything = frozenset().union(*gone)
    loop = everything - {EPILOGUE}
    parts = _loop_parts({removed_parts: pct for removed_parts, pct in gone.items() if removed_parts <= loop})
    if EPILOGUE in everything:
        parts[EPILOGUE] = (without(frozenset({EPILOGUE})) + without(everything) - without(loop)) / 2
    if tail is not None:
        parts[TAIL] = tail
    return {**parts, REST: 100.0 - busy_pct - without(everything) - (tail or 0.0)}


def _loop_parts(gone: Gone) -> dict[str, float]:
    """Shares of the parts of the main loop."""
    players = _players(gone)
    names = list(players)
    sets = {frozenset(name for name in names if players[name] <= parts): pct for parts, pct in gone.items()}
    shares = shapley(sets, names, [(PART_OF["wait"], PART_OF["copy"])]) or shapley(
        sets, names, list(combinations(names, 2))
    )
    if shares is None:
        raise ReportError(f"too few usable variants to separate {', '.join(names)}", MEASURE)
    return shares


def _players(gone: Iterable[frozenset[str]]) -> dict[str, frozenset[str]]:
    """Parts by name in the account, those that were only ever removed together as one."""
    groups: dict[tuple[bool, ...], list[str]] = {}
    for part in LOOP:
        if any(member := tuple(part in parts for parts in gone)):
            groups.setdefault(member, []).append(part)
    return {JOINED.join(PART_OF[part] for part in group): frozenset(group) for group in groups.values()}


def overlaps(alone: Mapping[str, float]) -> dict[str, float]:
    """Per variant of two parts that were also removed alone: the saving of both minus the savings
    of each."""
    pairs: dict[str, Sequence[str]] = {word: word.split("_") for word in alone if word.count("_") == 1}
    return {
        word: alone[word] - sum(alone[part] for part in parts)
        for word, parts in pairs.items()
        if all(part in alone for part in parts)
    }


def orders(parts: Sequence[str], before: Collection[tuple[str, str]] = ()) -> Iterator[tuple[str, ...]]:
    """All orders of ``parts`` in which the first of each pair of ``before`` comes before the
    second."""
    pairs = [pair for pair in before if set(pair) <= set(parts)]
    for order in permutations(parts):
        if all(order.index(first) < order.index(second) for first, second in pairs):
            yield order


def shapley(gone: Gone, parts: Sequence[str], before: Collection[tuple[str, str]] = ()) -> dict[str, float] | None:
    """Mean contribution of each part to ``gone``, the saving of a set of parts, over the
    ``orders``. The empty set saves nothing. The shares sum to the saving of all parts. None if a
    set was not measured.
    """
    total = dict.fromkeys(parts, 0.0)
    every_order = list(orders(parts, before))
    for order in every_order:
        last = 0.0
        for count, part in enumerate(order, 1):
            removed_parts = frozenset(order[:count])
            if removed_parts not in gone:
                return None
            total[part] += gone[removed_parts] - last
            last = gone[removed_parts]
    return {part: value / len(every_order) for part, value in total.items()}
