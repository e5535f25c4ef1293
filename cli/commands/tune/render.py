"""Prints a search: a line per trial, and a table of the best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ncubble.analysis.diagnosis.diseases import disease_words
from ncubble.cli.commands.tune.job import TuneResult
from ncubble.cli.terminal import printable
from ncubble.kernels.run.tune import ELITES_FILE, OK, Point, Trial, Tuner
from ncubble.kernels.spec.spec import Value


def tell_trial(tuner: Tuner, point: Point, trial: Trial, why: str) -> None:
    """Print one line to stderr: number, time, change from the start, configuration, and why it was
    tried."""
    start, settings = tuner.trials[tuner.space.start], _pairs(tuner.space.settings(point))
    time = f"{trial.p50_us:10.2f} us" if trial.p50_us else f"{trial.outcome:>13}"
    change = "" if trial is start else _change(trial.p50_us, start.p50_us)
    more = f": {trial.why}" if trial.outcome != OK else ""
    line = f"{tuner.launches:5}/{tuner.budget} {time} {change:>8}  {settings}  ({why}){more}"
    typer.echo(printable(line), err=True)


def print_result(result: TuneResult, folder: Path) -> None:
    """Print the best three, the effort of the search, and the output file."""
    tuner, space, out = result.tuner, result.space, Console(highlight=False)
    sizes = " ".join(f"{key}={value}" for key, value in result.setting.shape.items())
    out.print(Text(printable(result.setting.kernel), style="bold").append(f"  {sizes}", style="dim not bold"))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for name in ("", "p50 us", "to start", "max error"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("first cause", no_wrap=True)
    table.add_column("parameters", overflow="fold")
    start = tuner.trials[space.start]
    for number, elite in enumerate(result.elites, 1):
        error = (elite.trial.verification or {}).get("max_abs_error")
        table.add_row(
            str(number),
            f"{elite.p50_us:.2f}",
            _change(elite.p50_us, start.p50_us),
            "" if error is None else f"{error:.2g}",
            disease_words(elite.cause) if elite.cause else "–",
            printable(_pairs(space.settings(elite.point))),
            style="bold" if number == 1 else "",
        )
    out.print(table)
    for line in _cost(result):
        typer.echo(f"  {line}")
    typer.echo(f"  written: {folder / ELITES_FILE}", err=True)


def _cost(result: TuneResult) -> Iterator[str]:
    """Lines on the effort, the start, and the parameters not searched."""
    tuner, space = result.tuner, result.space
    share, start = 100.0 * tuner.launches / len(space.cases), tuner.trials[space.start]
    again = f", {len(tuner.turns)} of them retimed in turns" if tuner.turns else ""
    yield f"{tuner.launches} launches, {share:.0f} % of {len(space.cases)} configurations{again}; {tuner.stopped}"
    begun = f"{start.p50_us:.2f} us" if start.p50_us else start.outcome
    yield f"start: {printable(_pairs(space.settings(space.start)))}: {begun}; seed {result.setting.seed}"
    yield from (f"not searched: {name} ({why})" for name, why in space.left_out.items())


def _change(now: float | None, before: float | None) -> str:
    return f"{100.0 * (now / before - 1.0):+.1f} %" if now and before else ""


def _pairs(settings: Mapping[str, Value]) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items())
