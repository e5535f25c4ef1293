"""A comparison in words: the lines of its tables, a sentence for each side, Markdown for a merge
request, and JSON (docs/reference/compare.md). Pure.

Names of kernels, files and stall reasons come out of reports: they stand in Markdown as text, never
as markup.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from ncubble.analysis.account.parts import JOINED, WORK
from ncubble.analysis.compare.compare import Change, CompareResult, Comparison, Group, Row, letter
from ncubble.analysis.report.launch_key import telling_dims
from ncubble.records import JsonObject
from ncubble.text.markup import code, escape
from ncubble.text.values import UnitStep, bar_of, finite, scaled

SCHEMA = 1
MARK = "<!-- ncubble compare -->"
BAR_CELLS = 40
DRAWN_PCT = 2.0
"""Parts of less time than this, in percent of the longest launch, are not drawn."""
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
_COUNT = (UnitStep(0.0, 1.0, ",.0f", ""),)
_STEPS = {
    "ns": (UnitStep(1e6, 1e6, ",.3f", "ms"), UnitStep(1e3, 1e3, ",.1f", "µs"), UnitStep(0.0, 1.0, ",.0f", "ns")),
    "Hz": (UnitStep(0.0, 1e9, ",.3f", "GHz"),),
    "B": (UnitStep(0.0, 1024.0, ",.1f", "KiB"),),
}


@dataclass(frozen=True)
class Cell:
    """What a line says of one side that takes part: its value, its change from A, and what the
    noise model says of the change (both empty for A)."""

    side: int
    value: str
    change: str = ""
    outcome: str = ""


@dataclass(frozen=True)
class Line:
    """One row as text."""

    name: str
    cells: tuple[Cell, ...]


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


def spread(comparison: Comparison) -> str:
    """What the numbers of repeats are; empty where there are none."""
    several = any(value and value.n > 1 for row in comparison.rows for value in row.values)
    return "mean ± standard deviation" if several else ""


def sections(comparison: Comparison) -> list[tuple[str, str]]:
    """The sections of a comparison's table, each with the title of its numbers."""
    return [("launch", spread(comparison)), ("account", share_words(comparison)), ("stalls", "% of warp samples")]


def lines(comparison: Comparison, section: str) -> list[Line]:
    """The lines of one section's table: ``launch``, ``account`` or ``stalls``. What no side has to
    speak of is left out, and so are stall reasons that only one side has."""
    rows = comparison.section(section)
    if section == "stalls" and not any(row.values[0] and any(row.values[1:]) for row in rows):
        return []
    least = LEAST.get(section, 0.0)
    kept = [row for row in rows if any(value and value.mean and abs(value.mean) >= least for value in row.values)]
    there = [index for index, side in enumerate(comparison.sides) if side]
    return [
        Line(LABELS.get(row.name, part_words(row.name)), tuple(_cell(row, index, comparison) for index in there))
        for row in kept
    ]


def _cell(row: Row, index: int, comparison: Comparison) -> Cell:
    """A side's mean, in section ``launch`` with the coefficient of variation of repeats that vary.
    Changes of the account carry their time, other changes their percent."""
    value, change = row.values[index], row.changes[index]
    shown = amount(value.mean, row.unit) if value else "–"
    if value and row.section == "launch" and value.sd > 0 and value.mean:
        shown += f" ± {100 * value.sd / abs(value.mean):.2f} %"
    if change is None:
        return Cell(index, shown)
    changed = amount(change.difference, row.unit, sign=True)
    if not change.difference:
        changed = "same"
    elif row.section == "account":
        took = _change_of(comparison.row("time", row.name), index)
        changed += f", {amount(took.difference, 'ns', sign=True)}" if took else ""
    elif row.unit != "%" and not math.isnan(change.pct):
        changed = f"{change.pct:+.1f} %"
    return Cell(index, shown, changed, "within noise" if change.outcome == "same" else change.outcome or "")


def _change_of(row: Row | None, index: int) -> Change | None:
    return row.changes[index] if row else None


def headings(comparison: Comparison, others: Iterable[int] | None = None) -> list[str]:
    """Columns beside the name: ``A``, ``B``, ``B - A``, ``C``, … of the sides that take part, or of
    A and ``others``."""
    there = [index for index, side in enumerate(comparison.sides) if index and side]
    named = [letter(index) for index in (there if others is None else others)]
    return [letter(0), *(text for name in named for text in (name, f"{name} - {letter(0)}"))]


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
    """``takes 187.3 µs, 37.2 % less than A``, and whether noise explains it; `` (44.8 % fewer
    cycles)`` where the clock makes time say something else by a point or more."""
    row = comparison.row("launch", "duration_ns") or comparison.row("launch", "cycles")
    change, value = _change_of(row, index), row.values[index] if row else None
    if row is None or change is None or value is None:
        return ""
    unit = " cycles" if row.unit == "cycle" else ""
    if abs(change.pct) < 0.05 or not math.isfinite(change.pct):
        words = f"as long as {first}"
    else:
        words = f"{abs(change.pct):.1f} % {'less' if change.difference < 0 else 'more'} than {first}"
    cycles = _change_of(comparison.row("launch", "cycles"), index)
    if cycles and abs(cycles.pct - change.pct) >= 1.0:
        words += f" ({abs(cycles.pct):.1f} % {'fewer' if cycles.difference < 0 else 'more'} cycles)"
    tested = {"same": ", which noise explains", "unclear": ", which its scatter may explain"}
    return f"takes {amount(value.mean, row.unit)}{unit}, {words}{tested.get(change.outcome or '', '')}"


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
    changes = (_change_of(comparison.row("account", name), index) for name in WORK)
    change = next((candidate for candidate in changes if candidate and abs(candidate.difference) >= MOVED), None)
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


def judgement(comparison: Comparison, index: int) -> str:
    """``faster``, ``slower``, ``as fast``, or ``perhaps slower`` where its scatter may explain the
    difference; empty where no time was measured."""
    row = comparison.row("launch", "duration_ns") or comparison.row("launch", "cycles")
    if (change := _change_of(row, index)) is None or not math.isfinite(change.pct):
        return ""
    if change.outcome == "same" or abs(change.pct) < 0.05:
        return "as fast"
    return f"{'perhaps ' if change.outcome == 'unclear' else ''}{'faster' if change.difference < 0 else 'slower'}"


def picture(comparison: Comparison) -> list[str]:
    """The time of each side and of its parts as bars of text: a block of code is the one drawing
    that every host of merge requests shows as it was pasted."""
    whole = comparison.row("launch", "duration_ns")
    rows = [row for row in (whole, *comparison.section("time")) if row] if whole else comparison.section("account")
    longest = max((value.mean for row in rows for value in row.values if value), default=0.0)
    drawn = [row for row in rows if any(value and value.mean >= DRAWN_PCT / 100 * longest > 0 for value in row.values)]
    names = [LABELS.get(row.name, part_words(row.name)) for row in drawn]
    cells = max(map(len, names), default=0)
    texts = [
        f"{'' if index else name:{cells}} {letter(index)} {bar_of(BAR_CELLS * value.mean / longest)} "
        f"{amount(value.mean, row.unit)}"
        for name, row in zip(names, drawn, strict=True)
        for index, value in enumerate(row.values)
        if value
    ]
    return ["```text", *texts, "```", ""] if texts else []


def markdown(outcome: CompareResult, errors: Iterable[tuple[str, str]] = ()) -> str:
    """The whole comparison for a merge request: what became faster or slower, a picture and tables
    of each; beyond ``IN_FULL`` a summary, and all of them folded away."""
    judged = [
        (letter(index), words)
        for one in outcome.comparisons
        for index, side in enumerate(one.sides)
        if index and side and (words := judgement(one, index))
    ]
    if len(outcome.comparisons) == 1:
        told = "; ".join(f"{side} is {words}" for side, words in judged)
    else:
        told = "; ".join(f"{count} {words}" for words, count in Counter(words for _, words in judged).most_common())
    texts = [MARK, f"### ncubble compare{f': {told}' if told else ''}", ""]
    folded = len(outcome.comparisons) > IN_FULL
    summed = summaries(outcome.comparisons)
    if folded:
        rows = [f"| {code(title)} | {'<br>'.join(words)} |" for title, words in summed]
        texts += ["| kernel | compared |", "| --- | --- |", *rows, ""]
    for comparison, (title, _) in zip(outcome.comparisons, summed, strict=True):
        full = _full(comparison)
        summary = ["<details>", f"<summary>{code(title)}</summary>", "", *full, "</details>", ""]
        texts += summary if folded else full
    for left in outcome.leftovers:
        group = left.group
        texts.append(f"- {letter(left.side)}: {code(group.title)}, {escape(about(group))}: {escape(left.reason)}")
    texts += [f"- could not read {code(file)}: {escape(error)}" for file, error in errors]
    return "\n".join(texts).rstrip() + "\n"


def _full(comparison: Comparison) -> list[str]:
    texts = [
        f"- **{letter(index)}** {code(title)}, {escape(about(side))}, {code(side.first.report)}"
        for index, (side, title) in enumerate(zip(comparison.sides, titles(comparison.sides), strict=True))
        if side
    ]
    texts += ["", *sentences(comparison), "", *picture(comparison)]
    for section, name in sections(comparison):
        if not (shown := lines(comparison, section)):
            continue
        head = headings(comparison)
        table = [f"| {' | '.join([name or ' ', *head])} |", f"| --- |{' ---: |' * len(head)}"]
        table += [f"| {' | '.join((escape(line.name), *_cell_texts(line)))} |" for line in shown]
        hidden = section == "stalls"
        texts += ["<details>", "<summary>stall reasons</summary>", "", *table, "", "</details>"] if hidden else table
        texts.append("")
    return [*texts, *(f"- {escape(note)}" for note in comparison.notes), ""]


def _cell_texts(shown: Line) -> list[str]:
    """The texts below ``headings``."""
    texts: list[str] = []
    for cell in shown.cells:
        change = f"{cell.change} ({cell.outcome})" if cell.outcome else cell.change
        texts += [cell.value, change] if cell.side else [cell.value]
    return texts


def as_json(outcome: CompareResult, paths: Sequence[str], errors: Iterable[tuple[str, str]] = ()) -> JsonObject:
    """The object of ``ncubble compare --json``; a number that does not exist is None."""
    whole: JsonObject = finite(
        {
            "schema": SCHEMA,
            "sides": [{"side": letter(index), "path": path} for index, path in enumerate(paths)],
            "comparisons": [
                {
                    "sides": [_side_json(index, side) for index, side in enumerate(one.sides) if side],
                    "sentences": sentences(one),
                    "rows": [asdict(row) for row in one.rows],
                    "notes": one.notes,
                    "measured": one.measured,
                }
                for one in outcome.comparisons
            ],
            "unmatched": [{**_side_json(left.side, left.group), "reason": left.reason} for left in outcome.leftovers],
            "errors": [{"report": file, "error": error} for file, error in errors],
        }
    )
    return whole


def _side_json(index: int, group: Group) -> JsonObject:
    launch = group.first
    return {
        "side": letter(index),
        "label": launch.label,
        "kernel": launch.kernel,
        "device": launch.device or None,
        "grid": launch.grid or None,
        "block": launch.block or None,
        "cause": launch.verdict.cause,
        "change": launch.verdict.change,
        "launches": [{"report": subject.report, "launch": subject.launch} for subject in group.subjects],
    }
