"""What of the machine code differs between two sides, in a line for people. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ncubble.analysis.gate.accounts.account import opcode
from ncubble.analysis.gate.baseline.repeats import Repeats

MOST = 6


def code_changes(before: Sequence[Repeats], now: Sequence[Repeats], kernel: str) -> str:
    """Opcodes whose number changed most between the first launches of the function ``kernel``;
    empty where either side holds no machine code."""
    sides = [_opcodes(groups, kernel) for groups in (before, now)]
    if not all(sides):
        return ""
    return difference(*sides)


def difference(before: Counter[str], now: Counter[str]) -> str:
    """``512 -> 530 instructions; LDS 64 -> 80, BAR.SYNC 8 -> 10``: what changed most first."""
    changed = sorted(before.keys() | now.keys(), key=lambda name: (-abs(now[name] - before[name]), name))
    parts = [f"{name} {before[name]} -> {now[name]}" for name in changed if before[name] != now[name]]
    total = f"{before.total()} -> {now.total()} instructions"
    if not parts:
        return f"machine code: the same opcodes ({before.total()} instructions)"
    more = f" and {len(parts) - MOST} more" if len(parts) > MOST else ""
    return f"machine code: {total}; {', '.join(parts[:MOST])}{more}"


def _opcodes(groups: Iterable[Repeats], kernel: str) -> Counter[str]:
    group = next((item for item in groups if item.key.kernel == kernel), None)
    launch = group.first_launch if group is not None else None
    sass = launch.source["sass"].tolist() if launch is not None else []
    return Counter(name for text in sass if (name := opcode(str(text))))
