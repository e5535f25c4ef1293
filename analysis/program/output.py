"""The account of a program as JSON, as rows of tables, and as a tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ncubble.analysis.account.parts import PARTS, Style, part_style
from ncubble.analysis.program.account import (
    BETWEEN,
    INSIDE,
    KINDS,
    MEMORY,
    OTHER_WORK,
    TENSOR,
    UNPROFILED,
    KernelTime,
    PartTime,
    ProgramAccount,
)
from ncubble.analysis.program.span import OUTSIDE
from ncubble.analysis.streams.work import CAUSES
from ncubble.text.values import number

SCHEMA = 1
NO_RANGE = "outside of all ranges"
DETAILED = (INSIDE, BETWEEN, UNPROFILED)
"""Kinds whose parts are shown one by one."""
MOST_NODES = 40
"""Kernels, or ranges within one range, that get a node of their own in the tree."""
VIEWS = ("kernel", "cause", "range")
"""What the first level of the tree below the span is."""
KIND_STYLES = {
    TENSOR: part_style("tensor_busy"),
    OTHER_WORK: part_style("unit_busy"),
    INSIDE: Style(KINDS[INSIDE], "#cf4307", "", "The unit that bounds the kernel is idle while the kernel runs."),
    BETWEEN: Style(KINDS[BETWEEN], "#76869a", "", "No SM works."),
    UNPROFILED: Style(KINDS[UNPROFILED], "#858d96", "x", "Kernels run, but no launch of them was profiled."),
    MEMORY: Style(KINDS[MEMORY], "#158f83", "-", "The SMs set or copy memory."),
}
SPAN_STYLE = Style("measured span", "#5b6877")
KERNEL_STYLE = Style("kernel", "#8b97a5")


class TimeRow(NamedTuple):
    """A row of kernels or ranges: percent of the span, and of it by kind. ``worst``: the part that
    costs most; ``launches`` is None for ranges."""

    name: str
    launches: int | None
    ns: float
    pct: float
    tensor: float
    work: float
    inside: float
    between: float
    unprofiled: float
    worst: str


def part_words(part: PartTime) -> str:
    """What a part is called."""
    if part.kind == BETWEEN:
        return CAUSES[part.name].title
    return PARTS[part.name].label if part.name in PARTS else KINDS.get(part.name, part.name)


def part_fix(part: PartTime) -> str:
    """What helps against a part; empty for work."""
    if part.kind == BETWEEN:
        return CAUSES[part.name].remedy
    return PARTS[part.name].fix if part.name in PARTS else ""


def style_of(part: PartTime) -> Style:
    """How a part is drawn: as everywhere, if it is one of the bubble account."""
    return part_style(part.name) if part.name in PARTS else KIND_STYLES[part.kind]


def kind_shares(account: ProgramAccount) -> list[tuple[str, float, Style]]:
    """Name, percent of the span and style of each kind that has any, in their order."""
    return [(KINDS[kind], account.pct(ns), KIND_STYLES[kind]) for kind, ns in account.by_kind.items()]


def kernel_rows(account: ProgramAccount) -> list[TimeRow]:
    """A row for each kernel, most time first."""
    return [_row(account, account.title(kernel.kernel), kernel.launches, kernel.parts) for kernel in account.kernels]


def range_rows(account: ProgramAccount) -> list[TimeRow]:
    """A row for each NVTX path, most time first; none where no range was recorded."""
    if set(account.by_range) <= {OUTSIDE}:
        return []
    return [_row(account, path or NO_RANGE, None, parts) for path, parts in account.by_range.items()]


def _row(account: ProgramAccount, name: str, launches: int | None, parts: list[PartTime]) -> TimeRow:
    ns = sum(part.ns for part in parts)
    pct = {kind: sum(account.pct(part.ns) for part in parts if part.kind == kind) for kind in KINDS}
    lost = [part for part in parts if part.kind in (INSIDE, BETWEEN)]
    worst = max(lost, key=lambda part: part.ns, default=None)
    words = part_words(worst) if worst else ("not profiled" if pct[UNPROFILED] else "")
    figures = (pct[TENSOR], pct[OTHER_WORK], pct[INSIDE], pct[BETWEEN], pct[UNPROFILED])
    return TimeRow(name, launches, ns, account.pct(ns), *figures, words)


def with_rest(rows: Sequence[TimeRow], most: int) -> list[TimeRow]:
    """The first ``most`` rows, and one for all others."""
    rest = rows[most:]
    if not rest:
        return list(rows)
    launches = sum(row.launches or 0 for row in rest) if rest[0].launches is not None else None
    sums = {name: sum(getattr(row, name) for row in rest) for name in TimeRow._fields[2:-1]}
    return [*rows[:most], TimeRow(name=f"{len(rest)} more", launches=launches, worst="", **sums)]


def account_json(account: ProgramAccount) -> dict[str, Any]:
    """One element of ``devices``. ``parts``, each list of ``ranges`` and ``kernels`` with the gaps
    and ``memory`` sum to the span."""
    span = account.span
    return {
        "process": account.process,
        "device": account.device,
        "span_us": span.ns / 1e3,
        "rule": span.rule,
        "repeats": span.steady.repeats if span.steady else None,
        "windows": len(span.windows),
        "excluded": [{"what": what, "us": ns / 1e3} for what, ns in span.excluded],
        "overlapped_us": account.overlapped_ns / 1e3,
        "profiled_pct": account.covered_pct,
        "kinds": {kind: account.pct(ns) for kind, ns in account.by_kind.items()},
        "parts": _parts_json(account, account.parts),
        "kernels": [_kernel_json(account, kernel) for kernel in account.kernels],
        "ranges": [
            {"range": path, "us": sum(part.ns for part in parts) / 1e3, "parts": _parts_json(account, parts)}
            for path, parts in account.by_range.items()
        ],
    }


def _parts_json(account: ProgramAccount, parts: Iterable[PartTime]) -> list[dict[str, Any]]:
    return [{"kind": part.kind, "part": part.name, "us": part.ns / 1e3, "pct": account.pct(part.ns)} for part in parts]


def _kernel_json(account: ProgramAccount, kernel: KernelTime) -> dict[str, Any]:
    what, verdict = kernel.kernel, kernel.verdict
    return {
        "kernel": what.name,
        "function": what.function,
        "grid": what.grid or None,
        "block": what.block or None,
        "shared_B": what.shared_B if what.grid else None,
        "launches": kernel.launches,
        "us": kernel.ns / 1e3,
        "pct": account.pct(kernel.ns),
        "median_us": kernel.median_ns / 1e3,
        "spread": number(kernel.spread),
        "launch": verdict.address if verdict else None,
        "cause": verdict.cause if verdict else None,
        "profiled_over_median": number(kernel.stretched),
        "not_profiled": kernel.lacking or None,
        "parts": _parts_json(account, kernel.parts),
    }


@dataclass(frozen=True)
class Node:
    """A part of the span with what it is made of; the members of a node sum to it."""

    label: str
    ns: float
    pct: float
    style: Style
    members: tuple[Node, ...] = field(default=())


Step = tuple[str, Style, str]
"""Label and style of a node, and what tells it apart from nodes of equal label."""
Leaf = tuple[tuple[Step, ...], float]
"""The steps from below the root to a part of the span, and its ns."""


def tree(account: ProgramAccount, view: str) -> Node:
    """The whole span: by kernel and its parts, by cause and the kernels that have it, or by NVTX
    range and its parts."""
    leaves = _by_range(account) if view == "range" else _by_kernel(account, view == "cause")
    return _grown(account, ("measured span", SPAN_STYLE, ""), list(leaves), "ranges" if view == "range" else "kernels")


def _grown(account: ProgramAccount, step: Step, leaves: list[Leaf], what: str) -> Node:
    """The node of all ``leaves``; of its members the largest, and one for all others."""
    ns = sum(time for _, time in leaves)
    inner: dict[Step, list[Leaf]] = {}
    for steps, time in leaves:
        if steps and time > 0:
            inner.setdefault(steps[0], []).append((steps[1:], time))
    members = [_grown(account, first, within, what) for first, within in inner.items()]
    members.sort(key=lambda node: -node.ns)
    if rest := members[MOST_NODES:]:
        left = sum(node.ns for node in rest)
        members[MOST_NODES:] = [Node(f"{len(rest)} more {what}", left, account.pct(left), KERNEL_STYLE)]
    return Node(step[0], ns, account.pct(ns), step[1], tuple(members))


def _step(part: PartTime) -> Step:
    return part_words(part), style_of(part), part.name


def _by_kernel(account: ProgramAccount, cause_first: bool) -> Iterator[Leaf]:
    of_kernels = [(part, kernel.kernel) for kernel in account.kernels for part in kernel.parts]
    others = [(part, None) for part in account.parts if part.kind in (BETWEEN, MEMORY)]
    several = Counter(part.kind for part in account.parts)
    for part, kernel in (*of_kernels, *others):
        kind: Step = KINDS[part.kind], KIND_STYLES[part.kind], ""
        name = (account.names[kernel], style_of(part) if cause_first else KERNEL_STYLE, kernel.grid) if kernel else None
        if not cause_first:
            yield ((name or kind, _step(part)) if part.kind != MEMORY else (_step(part),)), part.ns
        elif name and several[part.kind] == 1:  # of a kind with a single part, one level says it
            yield (kind, name), part.ns
        else:
            yield (kind, _step(part), *([name] if name else [])), part.ns


def _by_range(account: ProgramAccount) -> Iterator[Leaf]:
    for path, parts in account.by_range.items():
        steps = tuple((name, KERNEL_STYLE, "") for name in (path or NO_RANGE).split("/"))
        for part in parts:
            yield (*steps, _step(part)), part.ns
