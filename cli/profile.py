"""``ncubble profile``: profiles a catalog kernel or any program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.cli.command import PROGRAM, Catalog, Force, Json, NameOrProgram, Out, Parameters, Sets, Timeout, Without
from ncubble.cli.terminal import emit_json, recording

if TYPE_CHECKING:
    from ncubble.profiling.runs import Run


def profile(
    ctx: typer.Context,
    name: NameOrProgram = None,
    parameter: Parameters = None,
    catalog: Catalog = None,
    set_: Sets = None,
    ncu: Annotated[
        list[str] | None,
        typer.Option(
            "--ncu",
            metavar="NAME=VALUE",
            help="An option of ncu, also by its own name: --section X, --replay-mode X, …",
        ),
    ] = None,
    kernel: Annotated[
        str,
        typer.Option(metavar="REGEX", help="Only kernels whose demangled name matches; with ^ or $, the base name."),
    ] = "",
    nvtx: Annotated[
        str, typer.Option(metavar="RANGE", help="Only launches in this NVTX range, as ncu writes it.")
    ] = "",
    skip: Annotated[int, typer.Option(help="Matching launches to skip first.")] = 0,
    count: Annotated[int | None, typer.Option(help="Matching launches; a catalog kernel makes them.")] = None,
    without: Without = None,
    out: Out = None,
    force: Force = False,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Profile a catalog kernel, or any program after --, into a run directory. Results are not
    verified, because a kernel runs once per pass under the profiler; use `ncubble verify`.
    """
    from ncubble.api.profiling import record_profile
    from ncubble.api.subjects import chosen_subject
    from ncubble.profiling.metrics.metrics import DEFAULT_SETS
    from ncubble.profiling.ncu import Filters
    from ncubble.profiling.recorders.ncu import NcuSettings

    filters = Filters(kernel, nvtx, skip, count, without=without)
    times = skip + (count or 1) if name is not None else 1
    subject = chosen_subject(ctx.meta[PROGRAM], name, parameter or [], catalog, times)
    options = [(option, value) for option, _, value in (text.partition("=") for text in ncu or ())]
    settings = NcuSettings(tuple(set_ or DEFAULT_SETS), filters=filters, options=options, keep_failed=True)
    with recording() as observer:
        run = record_profile(subject, settings, out, force=force, timeout_s=timeout, observer=observer)
    _report(run, json)


def _report(run: Run, json: bool) -> None:
    """Print the run's path; raise MeasurementError if its program failed, or it lacks metrics for the account."""
    from ncubble.api.profiling import require_whole

    report = run.manifest.report
    if json:
        emit_json(
            {"schema": 1, "run": str(run.path), "outcome": run.manifest.outcome, **report, "notes": run.manifest.notes}
        )
    else:
        launches = report["launches"]
        passes = "/".join(str(number) for number in sorted({launch["passes"] for launch in launches}))
        typer.echo(str(run.path))
        typer.echo(f"  {len(launches)} launches, {passes} passes each, {report['bytes']:,} bytes", err=True)
        for note in run.manifest.notes:
            typer.echo(f"  note: {note}", err=True)
        typer.echo(f"  view it: ncubble report {run.path}", err=True)
    require_whole(run)
    if report["missing"] and not json:
        typer.echo(f"  note: no value (n/a) for: {', '.join(report['missing'])}", err=True)
