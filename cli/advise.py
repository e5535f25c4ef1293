"""``ncubble advise``: predictions for other pipeline depths and for the fix of each cause."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.cli.command import Json
from ncubble.cli.terminal import emit_json, printable

if TYPE_CHECKING:
    from rich.table import Table

    from ncubble.analysis.diagnosis.advise import Advice

WIDE = 100
BAR_CELLS = (30, 16)
"""Cells of a bar in a terminal of at least ``WIDE`` columns, and in a narrower one."""
SOURCES = {"manifest": "from its manifest", "sass": "from its code", "given": "as given"}


def advise(
    path: Annotated[Path, typer.Argument(metavar="RUN|REPORT", help="A run directory, .ncu-rep or .ncu-repz file.")],
    launch: Annotated[
        int | None, typer.Option("--launch", help="Launch number, if the report has several.", min=0)
    ] = None,
    stages: Annotated[
        int | None,
        typer.Option("--stages", help="Present pipeline depth, if neither manifest nor code shows it.", min=1, max=64),
    ] = None,
    as_json: Json = False,
) -> None:
    """Predict utilization and cycles at depths 1 to 8 from one profile, and the gain of each
    cause's fix. A depth without information in the report is "not identified", with the reason;
    this is not an error.
    """
    from ncubble.api.advice import advise as advise_launch

    advice = advise_launch(path, number=launch, stages=stages).advice
    if as_json:
        emit_json(advice.to_json())
    else:
        print_advice(advice)


def print_advice(advice: Advice) -> None:
    """Print advice to stdout: a table of depths, one of fixes, and notes."""
    from rich.console import Console
    from rich.text import Text

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
    from rich.table import Table
    from rich.text import Text

    from ncubble.cli.accounts import bar, colour

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
        length = bar(predicted.tensor_elapsed_pct, cells, colour("tensor_busy"))
        row = (str(depth), f"{predicted.tensor_elapsed_pct:.1f}", interval, f"{predicted.cycles:,.0f}", change, length)
        table.add_row(*row, style="bold" if now else "")
    return table


def _fixes(advice: Advice) -> Table:
    from rich.table import Table
    from rich.text import Text

    from ncubble.analysis.account.parts import PARTS
    from ncubble.text.values import fixed

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for name in ("cycles saved %", "at most"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("cause", no_wrap=True)
    table.add_column("fix", overflow="fold")
    for fix in advice.fixes:
        cause = Text(fix.cause.replace("_", " "), style=PARTS[fix.cause].color if fix.cause in PARTS else "")
        table.add_row(fixed(fix.predicted_gain_pct, 1, "–"), fixed(fix.high, 1, "–"), cause, printable(fix.fix))
    return table
