"""``ncubble tune``: searches the parameters of a kernel for the fastest correct configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.cli.command import Catalog, Json, Name, Seed
from ncubble.cli.terminal import emit_json, ended_by_signals, printable
from ncubble.errors import UsageError

if TYPE_CHECKING:
    from ncubble.kernels.run.trials import Trial
    from ncubble.kernels.run.tune import Point, Tuner, TuneResult
    from ncubble.kernels.spec.spec import Value


def tune(
    name: Name,
    parameters: Annotated[
        list[str] | None, typer.Option("-p", metavar="KEY=VALUE", help="Keep a parameter fixed; repeatable.")
    ] = None,
    start: Annotated[
        list[str] | None,
        typer.Option(
            "--start", metavar="KEY=VALUE", help="Start value of a parameter, instead of its default; repeatable."
        ),
    ] = None,
    catalog: Catalog = None,
    budget: Annotated[
        int | None,
        typer.Option("--budget", metavar="N", min=1, help="Configurations to time (default: a third of all)."),
    ] = None,
    iterations: Annotated[int, typer.Option("--iterations", min=20, help="Timed launches per configuration.")] = 60,
    seed: Seed = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for elites.json and tune.json.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the search in --out without repeating trials.")
    ] = False,
    profiles: Annotated[
        bool, typer.Option(" /--no-profile", help="Use timings only, without profiles.", show_default=False)
    ] = True,
    as_json: Json = False,
) -> None:
    """Search the parameters of a kernel for the fastest configuration; keep the best three in elites.json.

    The best configuration so far is profiled, and parameters that fix its causes are tried first;
    then the most promising ones by the timings so far. Each configuration is verified before it is
    timed. Parameters that define what is computed are not changed. Exit code 4 if no configuration
    is right.
    """
    from ncubble.api import kernels as api
    from ncubble.kernels.run.session import KernelRequest, parse_parameters
    from ncubble.profiling.staging import default_out

    if resume and out is None:
        raise UsageError("--resume needs --out", "name the folder of the search to continue")
    given, folder = KernelRequest.parse(name, parameters, catalog), out or default_out(f"tune-{name}")
    with ended_by_signals(f"continue with: ncubble tune … --out {folder} --resume"):
        result = api.tune(
            name,
            folder,
            shape=given.shape,
            fixed=given.parameters,
            start=parse_parameters(start or ()),
            catalog=catalog,
            budget=budget,
            iterations=iterations,
            seed=seed,
            resume=resume,
            profiles=profiles,
            tell=_tell_trial,
            note=lambda text: typer.echo(f"  note: {text}", err=True),
        )
    if as_json:
        emit_json(result.to_json())
    else:
        _print_result(result, folder)


def _tell_trial(tuner: Tuner, point: Point, trial: Trial, why: str) -> None:
    """Print one line to stderr: number, time, change from the start, configuration, and why it was
    tried."""
    start, settings = tuner.trials[tuner.space.start], _pairs(tuner.space.settings(point))
    time = f"{trial.p50_us:10.2f} us" if trial.p50_us else f"{trial.outcome:>13}"
    change = "" if trial is start else _change(trial.p50_us, start.p50_us)
    more = f": {trial.why}" if trial.why else ""
    line = f"{tuner.launches:5}/{tuner.budget} {time} {change:>8}  {settings}  ({why}){more}"
    typer.echo(printable(line), err=True)


def _print_result(result: TuneResult, folder: Path) -> None:
    """Print the best three, the effort of the search, and the output file."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from ncubble.analysis.diagnosis.diseases import disease_words
    from ncubble.kernels.run.tune import ELITES_FILE

    tuner, space, out = result.tuner, result.tuner.space, Console(highlight=False)
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
    tuner, space = result.tuner, result.tuner.space
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
