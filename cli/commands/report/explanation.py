"""Prints the inputs of an account: a line per part, and a line per term."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from ncubble.cli.render import printable

if TYPE_CHECKING:  # imports pandas, which printing a remembered verdict does without
    from ncubble.analysis.account.explain import Borders, Explanation, PartExplained, Term

LEAST_PCT = 0.05
"""Smaller parts are omitted here, never in JSON."""
LEAST_TERM_PCT = 0.005
REASONS = 2
"""Stall reasons shown per instruction."""


ELSEWHERE = (
    "The account above comes from the simulated loop. Below is the account of samples to which "
    "the simulation was fitted: its parts differ."
)


def print_explanation(out: Console, explanation: Explanation, unit: str, account: Mapping[str, float]) -> None:
    """Print the parts of a launch in the account's order; ``unit`` is the busy unit. Missing inputs
    are in the launch's notes. Adds a remark if the reported ``account`` comes from elsewhere."""
    if is_elsewhere(account, explanation):
        out.print(Text(ELSEWHERE, style="italic"))
    for part in explanation.parts:
        if part.pct >= LEAST_PCT:
            _print_part(out, part, unit)
    if explanation.timeline:
        out.print(_timeline(explanation.timeline))
    if explanation.samples:
        out.print(_samples(explanation.samples))
        out.print(_load(explanation.load))
    out.print()


def is_elsewhere(account: Mapping[str, float], explanation: Explanation) -> bool:
    """Whether the reported ``account`` differs from the explained one."""
    return bool(account) and any(abs(part.pct - account.get(part.part, 0.0)) >= LEAST_PCT for part in explanation.parts)


def _print_part(out: Console, part: PartExplained, unit: str) -> None:
    name = f"{unit} busy" if part.part == "unit_busy" else part.part.replace("_", " ")
    out.print(Text(f"{name} {part.pct:.2f} %", style="bold").append(f" = {part.formula}", style="not bold"))
    if part.inputs:
        inputs = "; ".join(f"{what} = {_amount(value)}" for what, value in part.inputs.items())
        out.print(Text(f"  {printable(inputs)}", style="dim"))
    terms = [term for term in part.terms if term.pct >= LEAST_TERM_PCT]
    for term in terms if len(terms) > 1 or any(term.sass for term in terms) else []:
        out.print(_term(term, out.width), no_wrap=True, overflow="ellipsis", crop=True)


def _term(term: Term, width: int) -> Text:
    text = Text(f"{term.pct:7.2f}  ")
    if term.sass is None:
        return text.append(printable(term.what))
    place = f"{Path(term.file).name}:{term.line}  " if term.file and term.line else ""
    why = ", ".join(f"{reason} {count:.0f}" for reason, count in list(term.reasons.items())[:REASONS])
    more = f", {len(term.reasons) - REASONS} more" if len(term.reasons) > REASONS else ""
    room = max(20, width - len(text.plain) - len(place) - len(why) - len(more) - 3)
    sass = printable(term.sass)
    sass = sass if len(sass) <= room else sass[: room - 1] + "…"
    return text.append(printable(place), style="cyan").append(f"{sass}  ").append(why + more, style="dim")


_LOADS = {
    "resident": ("CTAs", 1.0),
    "busy": ("% of its cycles the unit busy", 100.0),
    "copies": ("% the load/store unit by LDGSTS", 100.0),
    "reads": ("% by shared loads", 100.0),
    "data_pipe": ("% its data stage", 100.0),
    "boxes": ("% TMA by its boxes", 100.0),
}


def _load(load: Mapping[str, float]) -> Text:
    """Load of an SM while it has CTAs, by which samples are split and weighted."""
    loads = ", ".join(f"{factor * load[name]:.3g} {what}" for name, (what, factor) in _LOADS.items() if name in load)
    return Text(f"an SM with CTAs: {loads or 'load not known'}", style="dim")


def _timeline(borders: Borders) -> Text:
    names = {"starts": "start_ns", "ramp ends": "ramp_end_ns", "tail starts": "tail_start_ns", "ends": "end_ns"}
    edges = ", ".join(f"{name} {getattr(borders, key):,}" for name, key in names.items())
    dips = ", ".join(f"{begin:,}–{end:,}" for begin, end in borders.dips) or "none"
    without = "" if borders.with_ctas else "; SMs with a CTA were not sampled"
    level = f"series {borders.series}, steady level {borders.steady_pct:.1f} %"
    return Text(f"timeline: {level}; in ns: {edges}; dips {dips}{without}", style="dim")


def _samples(samples: Mapping[str, float]) -> Text:
    counts = ", ".join(f"{name} {count:.0f}" for name, count in samples.items() if count)
    return Text(f"warp samples: {counts} (samples of unit and aside get no share of idle time)", style="dim")


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"
