"""Prints the inputs of an account: a line per part, and a line per term."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from ncubble.cli.terminal import TIED, printable, tied, wrapped

if TYPE_CHECKING:  # imports pandas, which printing a remembered verdict does without
    from ncubble.analysis.account.explain import Borders, Explanation, PartExplained, Term

LEAST_PCT = 0.05
"""Smaller parts are omitted here, never in JSON."""
LEAST_TERM_PCT = 0.005
REASONS = 2
"""Stall reasons shown per instruction."""


def print_explanation(out: Console, explanation: Explanation, unit: str) -> None:
    """Print the parts of a launch in the account's order; ``unit`` is the busy unit. Missing inputs
    are in the launch's notes."""
    formulas: dict[str, str] = {}
    for part in explanation.parts:
        if part.pct >= LEAST_PCT:
            name = f"{unit} busy" if part.part == "unit_busy" else part.part.replace("_", " ")
            _print_part(out, part, name, formulas.get(part.formula, ""))
            formulas.setdefault(part.formula, name)
    if explanation.timeline:
        _print_dim(out, _timeline(explanation.timeline))
    if explanation.samples:
        _print_dim(out, _samples(explanation.samples))
        _print_dim(out, _load(explanation.load, unit))
    out.print()


def _print_dim(out: Console, text: str) -> None:
    """Print ``text``, in which no line ends between a number and its percent sign, or behind ``=``."""
    for line in wrapped(re.sub(r"(?<=\d) %| = ", lambda found: tied(found[0]), text), out.width):
        out.print(Text(line.replace(TIED, " "), style="dim"))


def _print_part(out: Console, part: PartExplained, name: str, like: str) -> None:
    """``like``: an earlier part with the same formula, if any."""
    formula = f"as {like}" if like else part.formula
    out.print(Text(f"{name} {part.pct:.2f} %", style="bold").append(f" = {formula}", style="not bold"))
    if part.inputs:
        inputs = "; ".join(f"{what} = {_amount(value)}" for what, value in part.inputs.items())
        _print_dim(out, f"  {printable(inputs)}")
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
    "busy": "{unit} busy",
    "copies": "load/store unit with cp.async",
    "reads": "load/store unit with shared loads",
    "data_pipe": "data stage of L1 and shared memory",
    "boxes": "TMA",
}


def _load(load: Mapping[str, float], unit: str) -> str:
    """Load of an SM while it has CTAs, by which samples are split and weighted."""
    shares = [f"{what.format(unit=unit)} {100 * load[name]:.1f} %" for name, what in _LOADS.items() if name in load]
    ctas = f"with {load['resident']:.3g} CTAs at a time" if "resident" in load else "while it has CTAs"
    return f"load of an SM {ctas}, of its cycles: {', '.join(shares) or 'not known'}"


def _timeline(borders: Borders) -> str:
    names = {"start at": "start_ns", "ramp ends": "ramp_end_ns", "tail starts": "tail_start_ns", "end": "end_ns"}
    edges = ", ".join(f"{name} {getattr(borders, key) / 1e3:,.1f}" for name, key in names.items())
    dips = ", ".join(f"{begin / 1e3:,.1f}–{end / 1e3:,.1f}" for begin, end in borders.dips) or "none"
    without = "" if borders.with_ctas else "; SMs with a CTA were not sampled"
    level = f"series {borders.series}, steady level {borders.steady_pct:.1f} %"
    return f"timeline in µs: {level}; {edges}; dips {dips}{without}"


_WITHOUT_SHARE = {"unit": "at work", "aside": "beside the critical path"}


def _samples(samples: Mapping[str, float]) -> str:
    """Most samples first, those without a share of idle time last."""
    known = sorted(((name, count) for name, count in samples.items() if count), key=lambda one: -one[1])
    counts = [f"{name.replace('_', ' ')} {count:,.0f}" for name, count in known if name not in _WITHOUT_SHARE]
    others = [f"{_WITHOUT_SHARE[name]} {count:,.0f}" for name, count in known if name in _WITHOUT_SHARE]
    rest = f"; without a share of idle time: {', '.join(others)}" if others else ""
    return f"warp samples: {', '.join(counts) or 'none'}{rest}"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"
