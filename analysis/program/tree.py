"""The parts of a program as a tree: what an icicle or flame figure draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ncubble.analysis.account.parts import PARTS, Style, part_style
from ncubble.analysis.program.account import (
    BETWEEN,
    INSIDE,
    KINDS,
    MEMORY,
    OTHER_WORK,
    TENSOR,
    UNPROFILED,
    PartTime,
    ProgramAccount,
)
from ncubble.analysis.program.output import NO_RANGE, part_words

MOST_NODES = 40
"""Kernels, or ranges within one range, that get a node of their own."""
VIEWS = ("kernel", "cause", "range")
"""What the first level below the span is."""
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


@dataclass(frozen=True)
class Node:
    """A part of the span with what it is made of; the members of a node sum to it."""

    label: str
    ns: float
    pct: float
    style: Style
    members: tuple[Node, ...] = field(default=())


def tree(account: ProgramAccount, view: str) -> Node:
    """The whole span: by kernel and its parts, by cause and the kernels that have it, or by NVTX
    range and its parts."""
    members = {"kernel": _by_kernel, "cause": _by_cause, "range": _by_range}[view](account)
    return _node(account, "measured span", SPAN_STYLE, members)


def style_of(part: PartTime) -> Style:
    """How a part is drawn: as everywhere, if it is one of the bubble account."""
    return part_style(part.name) if part.name in PARTS else KIND_STYLES[part.kind]


def kind_shares(account: ProgramAccount) -> list[tuple[str, float, Style]]:
    """Name, percent of the span and style of each kind that has any, in their order."""
    return [(KINDS[kind], account.pct(ns), KIND_STYLES[kind]) for kind, ns in account.by_kind.items()]


def _node(account: ProgramAccount, label: str, style: Style, members: Iterable[Node]) -> Node:
    members = tuple(sorted((one for one in members if one.ns > 0), key=lambda one: -one.ns))
    ns = sum(one.ns for one in members)
    return Node(label, ns, account.pct(ns), style, members)


def _leaf(account: ProgramAccount, part: PartTime) -> Node:
    return Node(part_words(part), part.ns, account.pct(part.ns), style_of(part))


def _by_kernel(account: ProgramAccount) -> list[Node]:
    nodes = [
        _node(account, account.names[kernel.kernel], KERNEL_STYLE, (_leaf(account, part) for part in kernel.parts))
        for kernel in account.kernels
    ]
    return [*_few(account, nodes), *_others(account)]


def _others(account: ProgramAccount) -> list[Node]:
    """What belongs to no kernel: time between them, and memory."""
    between = [_leaf(account, part) for part in account.parts if part.kind == BETWEEN]
    memory = [_leaf(account, part) for part in account.parts if part.kind == MEMORY]
    return [_node(account, KINDS[BETWEEN], KIND_STYLES[BETWEEN], between), *memory]


def _by_cause(account: ProgramAccount) -> list[Node]:
    nodes = []
    for kind in account.by_kind:
        parts = [part for part in account.parts if part.kind == kind]
        members = [_node_of_part(account, part) for part in parts]
        if len(members) == 1:  # one level says it
            members = list(members[0].members) or members
        nodes.append(_node(account, KINDS[kind], KIND_STYLES[kind], members))
    return nodes


def _node_of_part(account: ProgramAccount, part: PartTime) -> Node:
    own = [
        Node(account.names[kernel.kernel], one.ns, account.pct(one.ns), style_of(one))
        for kernel in account.kernels
        for one in kernel.parts
        if (one.kind, one.name) == (part.kind, part.name)
    ]
    return _node(account, part_words(part), style_of(part), _few(account, own)) if own else _leaf(account, part)


def _few(account: ProgramAccount, nodes: Sequence[Node], what: str = "kernels") -> list[Node]:
    """The largest nodes, and one for all others."""
    ordered = sorted(nodes, key=lambda one: -one.ns)
    rest = sum(one.ns for one in ordered[MOST_NODES:])
    more = f"{len(ordered) - MOST_NODES} more {what}"
    return [*ordered[:MOST_NODES], *([Node(more, rest, account.pct(rest), KERNEL_STYLE)] if rest else [])]


def _by_range(account: ProgramAccount) -> list[Node]:
    top = _Level()
    for path, parts in account.by_range.items():
        level = top
        for name in path.split("/") if path else ():
            level = level.within.setdefault(name, _Level())
        level.own = parts
    outside = [_node(account, NO_RANGE, KERNEL_STYLE, [_leaf(account, part) for part in top.own])] if top.own else []
    return [*_ranges(account, top), *outside]


@dataclass
class _Level:
    """A range: its own parts, and the ranges right within it by name."""

    own: list[PartTime] = field(default_factory=list)
    within: dict[str, _Level] = field(default_factory=dict)


def _ranges(account: ProgramAccount, level: _Level) -> list[Node]:
    nodes = []
    for name, inner in level.within.items():
        own = [_leaf(account, part) for part in inner.own]
        nodes.append(_node(account, name, KERNEL_STYLE, [*own, *_ranges(account, inner)]))
    return _few(account, nodes, "ranges")
