"""``ncubble tune``: searches the parameters of a kernel for the fastest correct configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncubble.cli.command import Catalog, Json, Name, Shape
from ncubble.cli.commands.kernels.kernels import Seed


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
    shape: Shape = None,
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
    from ncubble.cli.commands.tune.job import TuneJob, run_job
    from ncubble.cli.commands.tune.render import print_result, tell_trial
    from ncubble.cli.terminal import emit_json, ended_by_signals
    from ncubble.errors import UsageError
    from ncubble.kernels.run.session import parse_parameters, parse_shape
    from ncubble.profiling.staging import default_out

    if resume and out is None:
        raise UsageError("--resume needs --out", "name the folder of the search to continue")
    folder = out or default_out(f"tune-{name}")
    held, begin = parse_parameters(parameters or ()), parse_parameters(start or ())
    job = TuneJob(
        *(name, parse_shape(shape or ()), held, begin, catalog, budget, iterations, seed, folder, resume, profiles)
    )
    with ended_by_signals(f"continue with: ncubble tune … --out {folder} --resume"):
        result = run_job(job, tell_trial, lambda text: typer.echo(f"  note: {text}", err=True))
    if as_json:
        emit_json(result.to_json())
    else:
        print_result(result, folder)
