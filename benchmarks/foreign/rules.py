"""The rule that makes a label of measured cycles. It was written before anything was measured, and
reads no verdict.

An experiment is a launch and changes of it, each of which takes causes of lost time away. The
saving of a change is what vanishes of cycles for the same work, against the launch itself or
against another change of it that ``against`` names, in percent of the launch's cycles. The label of
a launch is the first of these that holds:

1. ``tiny_launch``: of the time, TINY_PCT or more does not shrink with the work (a change of kind
   ``less``: all of the problem is smaller; time is taken as fixed + rate · work).
2. ``memory_bound``: MEMORY_PCT or more of the time scales with the bytes (a change of kind
   ``bytes``: the same arithmetic on fewer bytes).
3. ``no_tensor_work``: the launch issued no MMA, so that there is no tensor pipe to keep busy.
4. The cause whose removal saves most, if that is SAVING_PCT or more, and with it every cause within
   TIE_POINTS of it: those are all admissible. A change that takes several causes away counts for
   those in ``beyond`` by what other changes show of them: only the rest of its saving is its own.
5. ``none``: nothing saves as much, and the tensor pipe is busy for BUSY_PCT of the time or more.

Otherwise there is no label: the experiment did not find what bounds the launch. A change is no
evidence where another kernel ran (unless it is meant to be another), or where the number of MMAs
did not follow the work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.foreign.experiment import Change

SAVING_PCT = 5.0
TIE_POINTS = 3.0
BUSY_PCT = 85.0
TINY_PCT = 50.0
MEMORY_PCT = 80.0
THRESHOLDS = {
    "saving_pct": SAVING_PCT,
    "tie_points": TIE_POINTS,
    "busy_pct": BUSY_PCT,
    "tiny_pct": TINY_PCT,
    "memory_pct": MEMORY_PCT,
}


@dataclass(frozen=True)
class Measured:
    """One launch: elapsed SM cycles, ns, tensor pipe busy in percent of them, MMA instructions.
    None: not collected.

    ``ctas_per_sm`` is the most that registers, shared memory and threads let an SM hold;
    ``beside_pct`` the cycles of other kernels that the same call launched, in percent of these.
    """

    kernel: str
    cycles: float
    duration_ns: float
    tensor_pct: float | None = None
    products: float | None = None
    ctas_per_sm: int | None = None
    beside_pct: float = 0.0


@dataclass(frozen=True)
class Tried:
    """A change with its measurement; ``work`` is the work of the changed launch as a multiple of
    the base's."""

    change: Change
    work: float
    found: Measured


def saving_pct(base: Measured, tried: Tried, against: Tried | None = None) -> float:
    """Percent of the base's cycles that vanish for the same work; negative where the change is
    slower."""
    before = against.found.cycles / against.work if against else base.cycles
    return 100.0 * (before - tried.found.cycles / tried.work) / base.cycles


def fixed_pct(base: Measured, tried: Tried) -> float:
    """Percent of the base's cycles that do not shrink with the work."""
    ratio = tried.found.cycles / base.cycles
    return 100.0 * (ratio - tried.work) / (1.0 - tried.work)


def bytes_pct(base: Measured, tried: Tried) -> float:
    """Percent of the base's cycles that scale with the bytes."""
    return saving_pct(base, tried) / (1.0 - tried.change.bytes)


def fault(base: Measured, tried: Tried) -> str:
    """Why a change is no evidence; empty where it is. Those of kinds ``less`` and ``bytes`` may run
    another kernel."""
    if tried.change.kind != "remove" or tried.change.swap:
        return ""
    if tried.found.kernel != base.kernel:
        return f"another kernel ran: {tried.found.kernel}"
    if base.products is None or tried.found.products is None:
        return ""
    if not math.isclose(tried.found.products, base.products * tried.work, rel_tol=0.01):
        return f"{tried.found.products:.0f} MMAs, not {base.products * tried.work:.0f}"
    return ""


def evidence(base: Measured, tried: Sequence[Tried]) -> list[Tried]:
    """The changes that show what a cause costs; where one is compared with another, that must be
    sound as well."""
    sound = {item.change.name for item in tried if not fault(base, item)}
    return [
        item
        for item in tried
        if item.change.kind == "remove"
        and item.change.evidence
        and item.change.name in sound
        and (not item.change.against or item.change.against in sound)
    ]


def shares(base: Measured, tried: Sequence[Tried]) -> dict[str, float]:
    """Percent of the base's cycles by cause, largest first; causes that one change takes away
    together share a key, joined by ``|``."""
    by_name = {item.change.name: item for item in tried}
    alone: dict[str, float] = {}
    for item in sorted(evidence(base, tried), key=lambda item: len(item.change.beyond)):
        others = sum(max(0.0, pct) for key, pct in alone.items() if set(key.split("|")) & set(item.change.beyond))
        key = "|".join(item.change.causes)
        own = saving_pct(base, item, by_name.get(item.change.against))
        alone[key] = max(alone.get(key, -math.inf), own - others)
    return dict(sorted(alone.items(), key=lambda pair: -pair[1]))


def label(base: Measured, tried: Sequence[Tried]) -> list[str]:
    """Admissible causes of a launch, the most telling first; empty where the experiment does not
    tell."""
    if any(item.change.kind == "less" and fixed_pct(base, item) >= TINY_PCT for item in tried):
        return ["tiny_launch"]
    if any(item.change.kind == "bytes" and bytes_pct(base, item) >= MEMORY_PCT for item in tried):
        return ["memory_bound"]
    if base.products == 0:
        return ["no_tensor_work"]
    found = shares(base, tried)
    best = max(found.values(), default=0.0)
    if best >= SAVING_PCT:
        near = [key for key, pct in found.items() if pct >= best - TIE_POINTS]
        return list(dict.fromkeys(cause for key in near for cause in key.split("|")))
    return ["none"] if found and (base.tensor_pct or 0.0) >= BUSY_PCT else []


def gain(base: Measured, tried: Sequence[Tried], labels: Sequence[str]) -> dict[str, Any] | None:
    """What the best cure of a labelled cause saves: ``change``, ``gain_pct``; None where there is
    no cure among the changes."""
    cures = [
        (saving_pct(base, item), item.change.name)
        for item in tried
        if item.change.cure and set(item.change.causes) & set(labels) and not fault(base, item)
    ]
    if not cures:
        return None
    pct, name = max(cures)
    return {"change": name, "gain_pct": pct}


def row(base: Measured, tried: Sequence[Tried]) -> dict[str, Any]:
    """All that an experiment found, JSON-ready."""
    labels = label(base, tried)
    return {
        "base": asdict(base),
        "changes": {item.change.name: _described(base, item, tried) for item in tried},
        "shares_pct": shares(base, tried),
        "label": labels,
        "gain": gain(base, tried, labels),
    }


def _described(base: Measured, item: Tried, tried: Sequence[Tried]) -> dict[str, Any]:
    change = item.change
    against = next((other for other in tried if other.change.name == change.against), None)
    derived = {
        "remove": lambda: ("saving_pct", saving_pct(base, item, against)),
        "less": lambda: ("fixed_pct", fixed_pct(base, item)),
        "bytes": lambda: ("bytes_pct", bytes_pct(base, item)),
    }
    name, value = derived[change.kind]()
    return {
        "kind": change.kind,
        "causes": list(change.causes),
        "against": change.against or None,
        "cure": change.cure,
        "evidence": item in evidence(base, tried),
        "fault": fault(base, item) or None,
        "work": item.work,
        name: value,
        **asdict(item.found),
    }
