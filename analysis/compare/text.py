"""A comparison in words and numbers: the lines of its tables, and a sentence for each side.
Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ncubble.analysis.account.parts import JOINED, WORK
from ncubble.analysis.compare.compare import Change, Comparison, Row, Value
from ncubble.analysis.compare.shapes import telling_dims
from ncubble.analysis.compare.sides import Group, letter
from ncubble.text.values import UnitStep, scaled

IN_FULL = 3
"""Up to this many comparisons are shown in full by default."""
LEAST = {"account": 0.05, "stalls": 1.0}
"""Rows in which no side reaches this percentage are omitted from tables, never from JSON."""
MOVED = 0.5
"""Parts that differ by fewer points are not mentioned."""
LABELS = {
    "duration_ns": "duration",
    "sm_clock_hz": "SM clock",
    "tensor_elapsed_pct": "tensor pipe active",
    "dram_pct": "DRAM throughput",
    "registers": "registers per thread",
    "smem_B": "shared memory per CTA",
    "ctas": "CTAs",
    "threads": "threads per CTA",
    "ldgsts": "async copies (LDGSTS)",
    "tma": "async copies (TMA)",
}
OUTCOME_WORDS = {"same": "within noise", "": ""}


@dataclass(frozen=True)
class Line:
    """One row as text: its name, its value on every side, its change and the change's outcome (both
    empty for A)."""

    name: str
    values: tuple[str, ...]
    changes: tuple[str, ...]
    outcomes: tuple[str, ...]


_COUNT = (UnitStep(0.0, 1.0, ",.0f", ""),)
_STEPS = {
    "ns": (UnitStep(1e6, 1e6, ",.3f", "ms"), UnitStep(1e3, 1e3, ",.1f", "µs"), UnitStep(0.0, 1.0, ",.0f", "ns")),
    "Hz": (UnitStep(0.0, 1e9, ",.3f", "GHz"),),
    "B": (UnitStep(0.0, 1024.0, ",.1f", "KiB"),),
    "cycle": _COUNT,
    "": _COUNT,
}


def amount(value: float, unit: str, sign: bool = False) -> str:
    """``value`` with its unit: ``187.3 µs``, ``1.557 GHz``, ``96.1 KiB``, or signed ``+38.4
    points``; ``–`` for NaN."""
    if unit == "%" and math.isfinite(value):
        return f"{round(value, 1) + 0.0:+.1f} points" if sign else f"{value:.1f} %"  # never -0.0
    return scaled(value, _STEPS.get(unit, _COUNT), "–", "+" if sign else "")


def part_words(name: str) -> str:
    """``data wait`` of ``data_wait``, ``no CTA`` of ``no_cta``."""
    return name.replace("_", " ").replace("no cta", "no CTA").replace(JOINED, " and ")


def share_words(comparison: Comparison) -> str:
    """What the numbers of accounts are."""
    return f"% of elapsed SM cycles{', measured' if comparison.measured else ''}"


def line(row: Row, comparison: Comparison) -> Line:
    """``row`` as text; changes of the account carry their time, other changes their percent."""
    values = tuple("–" if value is None else _shown(value, row) for value in row.values)
    changes = tuple(_changed(index, row, comparison) for index in range(len(row.values)))
    outcomes = tuple(OUTCOME_WORDS.get(change.outcome, change.outcome) if change else "" for change in row.changes)
    return Line(LABELS.get(row.name, part_words(row.name)), values, changes, outcomes)


def _shown(value: Value, row: Row) -> str:
    """The mean; in section ``launch`` also the coefficient of variation of repeats that vary."""
    text, varies = amount(value.mean, row.unit), row.section == "launch" and value.sd > 0 and value.mean
    return f"{text} ± {100 * value.sd / abs(value.mean):.2f} %" if varies else text


def _changed(index: int, row: Row, comparison: Comparison) -> str:
    change = row.changes[index]
    if change is None:
        return ""
    if not change.difference:
        return "same"
    text = amount(change.difference, row.unit, sign=True)
    if row.section == "account":
        took = _change_of(comparison.row("time", row.name), index)
        return f"{text}, {amount(took.difference, 'ns', sign=True)}" if took else text
    if row.unit == "%" or math.isnan(change.pct):
        return text
    return f"{change.pct:+.1f} %"


def _change_of(row: Row | None, index: int) -> Change | None:
    return row.changes[index] if row else None


def lines(comparison: Comparison, section: str) -> list[Line]:
    """The lines of one section's table: ``launch``, ``account`` or ``stalls``. What no side has to
    speak of is left out, and so are stall reasons that only one side has."""
    rows = comparison.section(section)
    if section == "stalls" and not any(row.values[0] and any(row.values[1:]) for row in rows):
        return []
    least = LEAST.get(section, 0.0)
    kept = [row for row in rows if any(value and value.mean and abs(value.mean) >= least for value in row.values)]
    return [line(row, comparison) for row in kept]


def headings(comparison: Comparison) -> list[str]:
    """Columns beside the name: ``A``, ``B``, ``B - A``, ``C``, … of the sides that take part."""
    names = [letter(index) for index, side in enumerate(comparison.sides) if side]
    return [names[0], *(text for name in names[1:] for text in (name, f"{name} - {names[0]}"))]


def cells(shown: Line, comparison: Comparison) -> list[str]:
    """The texts below ``headings``."""
    texts: list[str] = []
    for index, side in enumerate(comparison.sides):
        if side is None:
            continue
        texts.append(shown.values[index])
        if index:
            outcome = f" ({shown.outcomes[index]})" if shown.outcomes[index] else ""
            texts.append(f"{shown.changes[index]}{outcome}")
    return texts


def sentences(comparison: Comparison) -> list[str]:
    """One sentence per other side: how long it takes, what fell or rose most, and what the busy
    unit makes of it."""
    return [_sentence(comparison, index) for index, side in enumerate(comparison.sides) if index and side]


def _sentence(comparison: Comparison, index: int) -> str:
    first, other = letter(0), letter(index)
    parts = [text for text in (_bubble(comparison, index), _work(comparison, index)) if text]
    units = [str(side.first.verdict.unit) for side in (comparison.sides[0], comparison.sides[index]) if side]
    if parts and units[0] != units[1]:
        parts = [f"its account counts {units[1]} as busy instead of {units[0]}"]
    took = _duration(comparison, index, first)
    if not parts and not took:
        return f"{other} and {first} have no measurement in common."
    return f"{other} {'; '.join([took, *parts] if took else parts)}."


def _duration(comparison: Comparison, index: int, first: str) -> str:
    """``takes 187.3 µs, 37.2 % less than A``, and whether noise explains it."""
    row = comparison.row("launch", "duration_ns") or comparison.row("launch", "cycles")
    change, value = _change_of(row, index), row.values[index] if row else None
    if row is None or change is None or value is None:
        return ""
    unit = " cycles" if row.unit == "cycle" else ""
    if abs(change.pct) < 0.05 or not math.isfinite(change.pct):
        words = f"as long as {first}"
    else:
        words = f"{abs(change.pct):.1f} % {'less' if change.difference < 0 else 'more'} than {first}"
    words += _cycles(comparison, index, change)
    tested = {"same": ", which noise explains", "unclear": ", which its scatter may explain"}.get(change.outcome, "")
    return f"takes {amount(value.mean, row.unit)}{unit}, {words}{tested}"


def _cycles(comparison: Comparison, index: int, took: Change) -> str:
    """`` (44.8 % fewer cycles)`` where the clock makes time say something else by a point or
    more."""
    change = _change_of(comparison.row("launch", "cycles"), index)
    if change is None or not abs(change.pct - took.pct) >= 1.0:
        return ""
    return f" ({abs(change.pct):.1f} % {'fewer' if change.difference < 0 else 'more'} cycles)"


def _bubble(comparison: Comparison, index: int) -> str:
    """``data wait falls most, by 38.4 points (-115.4 µs)``: of the bubbles that moved, the one by
    most time."""
    rows = [row for row in comparison.section("account") if row.name not in WORK and row.changes[index]]
    shares = {row.name: change for row in rows if (change := row.changes[index]) and abs(change.difference) >= MOVED}
    times = {row.name: row.changes[index] for row in comparison.section("time")}
    if not rows:
        return ""
    if not shares:
        return "no bubble differs by half a point or more"
    name = max(shares, key=lambda part: abs((times.get(part) or shares[part]).difference))
    share, took = shares[name], times.get(name)
    time = f" ({amount(took.difference, 'ns', sign=True)})" if took else ""
    as_measured = ", as measured" if comparison.measured else ""
    return f"{part_words(name)} {_moved(share)} most, by {abs(share.difference):.1f} points{time}{as_measured}"


def _work(comparison: Comparison, index: int) -> str:
    """``tensor busy rises by 39.1 points``."""
    changes = ((_change_of(comparison.row("account", name), index), name) for name in WORK)
    change = next((candidate for candidate, _ in changes if candidate and abs(candidate.difference) >= MOVED), None)
    group = comparison.sides[index]
    unit = group.first.verdict.unit if group else None
    return f"{unit} busy {_moved(change)} by {abs(change.difference):.1f} points" if change and unit else ""


def _moved(change: Change) -> str:
    return "falls" if change.difference < 0 else "rises"


def about(group: Group) -> str:
    """GPU, geometry and number of launches of a side."""
    launch, count = group.first, len(group.subjects)
    launches = f"{count} launches" if count > 1 else f"launch {launch.launch}"
    return " · ".join(text for text in (launch.device, f"grid {launch.grid} × block {launch.block}", launches) if text)


def spread(comparison: Comparison) -> str:
    """What the numbers of repeats are; empty where there are none."""
    several = any(value and value.n > 1 for row in comparison.rows for value in row.values)
    return "mean ± standard deviation" if several else ""


def titles(groups: Sequence[Group | None], by_name: bool = False) -> list[str]:
    """The title of each group, and behind it the dimensions of its problem in which the groups
    differ.

    ``by_name``: in which groups of the same title differ. A side that is None has an empty title.
    """
    known = [group for group in groups if group]
    names = [group.title if by_name else "" for group in known]
    dims = iter(telling_dims(names, [_dims(group.first.shape) for group in known]))
    return [f"{group.title} {next(dims)}".rstrip() if group else "" for group in groups]


def _dims(shape: str) -> list[str]:
    """``["k=1024", "m=4096"]`` of the JSON text of a shape."""
    shape_of = json.loads(shape or "{}")
    return [f"{name}={value}" for name, value in shape_of.items()] if isinstance(shape_of, dict) else []


def summaries(comparisons: Sequence[Comparison]) -> list[tuple[str, list[str]]]:
    """For each comparison its title, which tells it from the others, and a sentence per other
    side."""
    named = titles([comparison.sides[0] for comparison in comparisons], by_name=True)
    return [(name, sentences(comparison)) for name, comparison in zip(named, comparisons, strict=True)]
