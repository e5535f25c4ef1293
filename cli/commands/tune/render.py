"""A search for a person: a line for each trial, and a table of the best."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ncubble.analysis.diagnosis.diseases import disease_words
from ncubble.cli.commands.tune.job import TuneResult
from ncubble.cli.render import printable
from ncubble.kernels.spec.spec import Value
from ncubble.kernels.tuning.journal import ELITES_FILE
from ncubble.kernels.tuning.space import Point
from ncubble.kernels.tuning.trials import OK, Trial
from ncubble.kernels.tuning.tuner import Tuner


def tell_trial(tuner: Tuner, point: Point, trial: Trial, why: str) -> None:
    """One line on stderr: number, configuration, time against the start's, and why it was tried."""
    start, settings = tuner.trials[tuner.space.start], _pairs(tuner.space.settings(point))
    if trial.outcome != OK:
        found = f"{trial.outcome}: {trial.why}"
    elif start.p50_us and trial is not start:
        found = f"{trial.p50_us:10.2f} us  {100.0 * ((trial.p50_us or 0.0) / start.p50_us - 1.0):+6.1f} %"
    else:
        found = f"{trial.p50_us:10.2f} us"
    typer.echo(f"  {tuner.launches:3}/{tuner.budget}  {settings}  {printable(found)}  ({why})", err=True)


def print_result(result: TuneResult, folder: Path) -> None:
    """The best three, what they cost to find, and where they are written."""
    tuner, space, out = result.tuner, result.space, Console(highlight=False)
    sizes = " ".join(f"{key}={value}" for key, value in result.setting.shape.items())
    out.print(Text(printable(result.setting.kernel), style="bold").append(f"  {sizes}", style="dim not bold"))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for name in ("", *(axis.name for axis in space.axes), "p50 us", "to start"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verified", no_wrap=True)
    table.add_column("first cause", overflow="fold")
    start = tuner.trials[space.start]
    for number, elite in enumerate(result.elites, 1):
        checked = elite.trial.verification or {}
        change = f"{100.0 * (elite.p50_us / start.p50_us - 1.0):+.1f} %" if start.p50_us else ""
        values = [str(value) for value in space.settings(elite.point).values()]
        verified = f"max error {checked.get('max_abs_error', 0.0):.2g}"
        cause = disease_words(elite.cause) if elite.cause else "–"
        table.add_row(
            str(number), *values, f"{elite.p50_us:.2f}", change, verified, cause, style="bold" if number == 1 else ""
        )
    out.print(table)
    share = 100.0 * tuner.launches / len(space.cases)
    again = f", {len(tuner.turns)} of them again in turns" if tuner.turns else ""
    typer.echo(
        f"  {tuner.launches} launches of {len(space.cases)} configurations ({share:.0f} %){again}; {tuner.stopped}"
    )
    begun = f"{start.p50_us:.2f} us" if start.p50_us else start.outcome
    typer.echo(f"  start: {_pairs(space.settings(space.start))}: {begun}")
    for name, why in space.left_out.items():
        typer.echo(f"  not searched: {name} ({why})")
    typer.echo(f"  written: {folder / ELITES_FILE}", err=True)


def _pairs(settings: Mapping[str, Value]) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items())
