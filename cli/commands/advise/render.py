"""Prints predicted depths and gains: two tables and notes."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.diagnosis.advise import Advice
from ncubble.cli.commands.report.parts import bar
from ncubble.cli.terminal import printable

WIDE = 100
BAR_CELLS = (30, 16)
"""Cells of a bar in a terminal of at least ``WIDE`` columns, and in a narrower one."""
SOURCES = {"manifest": "from its manifest", "sass": "from its code", "given": "as given"}


def print_advice(advice: Advice) -> None:
    """Print advice to stdout."""
    out = Console(highlight=False)
    title = Text(printable(advice.label), style="bold").append(f"  launch {advice.launch}", style="dim not bold")
    if advice.stages:
        title.append(f" · depth {advice.stages}, {SOURCES[advice.stages_from or '']}", style="dim not bold")
    out.print(title)
    if any(advice.depths.values()):
        out.print(_depths(advice, BAR_CELLS[out.width < WIDE]))
    if advice.fixes:
        out.print(_fixes(advice))
    for note in advice.notes:
        out.print(Text(f"note: {printable(note)}", style="dim"))


def _depths(advice: Advice, cells: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for name in ("depth", "busy %", "from – to", "cycles", "against now"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    present = advice.depths.get(advice.stages or 0)
    for depth, predicted in advice.depths.items():
        if predicted is None:
            table.add_row(str(depth), *[Text("–", style="dim")] * 4, Text("see notes", style="dim"))
            continue
        now = depth == advice.stages
        interval = Text("measured", style="dim") if now else f"{predicted.low:.1f} – {predicted.high:.1f}"
        change = "" if now or not present else f"{100 * (predicted.cycles / present.cycles - 1):+.1f} %"
        length = bar(predicted.tensor_elapsed_pct, cells, PARTS["tensor_busy"].color)
        row = (str(depth), f"{predicted.tensor_elapsed_pct:.1f}", interval, f"{predicted.cycles:,.0f}", change, length)
        table.add_row(*row, style="bold" if now else "")
    return table


def _fixes(advice: Advice) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("cycles saved %", justify="right", no_wrap=True)
    table.add_column("at most", justify="right", no_wrap=True)
    table.add_column("cause", no_wrap=True)
    table.add_column("fix", overflow="fold")
    for fix in advice.fixes:
        cause = Text(fix.cause.replace("_", " "), style=_colour(fix.cause))
        table.add_row(_percent(fix.predicted_gain_pct), _percent(fix.high), cause, printable(fix.fix))
    return table


def _colour(cause: str) -> str:
    return PARTS[cause].color if cause in PARTS else ""


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
