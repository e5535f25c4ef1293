"""Prints accounts of recordings without counters (warps and streams), labelled as such."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ncubble.analysis.details.coarse import KERNELS, STREAMS, CoarseVerdict
from ncubble.analysis.streams.causes import CAUSES
from ncubble.analysis.traces.account import WORK
from ncubble.cli.commands.report.parts import SMALL_PCT, bar, colour
from ncubble.cli.commands.report.words import duration
from ncubble.cli.terminal import printable
from ncubble.text.values import fixed

IN_FULL = 3
BAR_CELLS = 16
SOURCES = {STREAMS: "time of the recorded program"}


def print_coarse(out: Console, verdicts: Sequence[CoarseVerdict], details: bool) -> None:
    """Print a few in full, many as a table."""
    if details or len(verdicts) <= IN_FULL:
        for verdict in verdicts:
            _print_one(out, verdict)
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for number, head in enumerate(("without counters", "source", "time", "work %", "largest bubble")):
        table.add_column(head, justify="right" if number in (2, 3) else "left", no_wrap=number != 0)
    for verdict in verdicts:
        work = fixed(verdict.account.get(WORK, verdict.account.get(KERNELS, 0.0)), 1)
        first = verdict.causes[0] if verdict.causes else None
        largest = f"{words(first.cause)} {first.pct:.1f} %" if first else "none"
        label = printable(verdict.label)
        table.add_row(label, verdict.source, duration(verdict.duration_ns), work, largest)
    out.print(table)
    out.print(
        Text("computed from recordings, not from counters; --details lists what they cannot show", style="yellow")
    )


def words(part: str) -> str:
    """A part of an account, or a cause of idle streams, in words."""
    return CAUSES[part].title if part in CAUSES else part.replace("_", " ")


def _print_one(out: Console, verdict: CoarseVerdict) -> None:
    facts = [
        printable(verdict.device or "device not known"),
        verdict.recorded,
        duration(verdict.duration_ns),
    ]
    out.print(Text(printable(verdict.label), style="bold").append("  " + " · ".join(facts), style="dim not bold"))
    what = SOURCES.get(verdict.source, "time of the recorded SMs")
    out.print(Text(f"source: {verdict.source}, no counters; % of the {what}", style="yellow"))
    first = verdict.causes[0] if verdict.causes else None
    if first is not None:
        out.print(Text("→ ").append(words(first.cause), style="bold").append(f": {first.fix}", style="not bold"))
    out.print(_parts(verdict))
    out.print(Text(f"not visible in it: {'; '.join(verdict.cannot_tell)}", style="dim"))
    for note in verdict.notes:
        out.print(Text(f"note: {printable(note)}", style="dim"))
    out.print()


def _parts(verdict: CoarseVerdict) -> Table:
    bounded = verdict.at_least is not None and verdict.at_most is not None
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("part", no_wrap=True)
    table.add_column("%", justify="right", no_wrap=True)
    if bounded:
        table.add_column("range", justify="right", no_wrap=True)
    table.add_column("", width=BAR_CELLS, no_wrap=True)
    table.add_column("", overflow="fold")
    rest = 0.0
    for part, pct in verdict.account.items():
        bounds = _bounds(part, (verdict.at_least, verdict.at_most)) if bounded else None
        if pct < SMALL_PCT and (bounds is None or bounds[1] < SMALL_PCT):
            rest += pct
            continue
        spread = [f"{bounds[0]:.1f}..{bounds[1]:.1f}"] if bounds else []
        holds = [words(name) for name in verdict.merged.get(part, ())]
        note = Text(f"holds {', '.join(holds)}", style="dim") if holds else Text("")
        table.add_row(words(part), fixed(pct, 1), *spread, bar(pct, BAR_CELLS, colour(_styled(part))), note)
    if rest >= 0.05:
        table.add_row("the rest", fixed(rest, 1))
    return table


def _bounds(part: str, readings: Iterable[Mapping[str, float] | None]) -> tuple[float, float]:
    """Minimum and maximum of a part over all readings."""
    values = [reading[part] for reading in readings if reading is not None]
    return min(values), max(values)


def _styled(part: str) -> str:
    """The account part whose colour is used."""
    return "unit_busy" if part in (WORK, KERNELS) else part
