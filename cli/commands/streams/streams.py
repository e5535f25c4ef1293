"""``ncubble streams``: what a program's copies and kernels overlap, and why its SMs are idle between kernels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.cli.command import PROGRAM, Catalog, Parameters, Shape, kernel_names, shape_text

if TYPE_CHECKING:
    from ncubble.cli.commands.streams.job import StreamsOutput


Subject = Annotated[
    str | None,
    typer.Argument(help="A catalog kernel or a run directory; or -- CMD …", autocompletion=kernel_names),
]


def streams(
    ctx: typer.Context,
    name: Subject = None,
    parameter: Parameters = None,
    shape: Shape = None,
    catalog: Catalog = None,
    repeat: Annotated[int, typer.Option(min=1, help="Number of launches of the catalog kernel.")] = 1,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The run directory to write.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the run at --out.")] = False,
    most: Annotated[int, typer.Option(metavar="N", help="Maximum records to keep; others are counted.")] = 1_000_000,
    recorder: Annotated[
        str, typer.Option(metavar="auto|python|library", help="Recorder: inside Python, or an injected library.")
    ] = "auto",
    timeout: Annotated[
        float | None, typer.Option(min=0.001, metavar="S", help="Stop the program after S seconds.")
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Count everything, also outside cudaProfilerStart/Stop.")
    ] = False,
    warps: Annotated[bool, typer.Option("--warps", help="Also trace warps of the catalog kernel on one SM.")] = False,
    perfetto: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write trace events, for ui.perfetto.dev.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="Show the N longest gaps.")] = 5,
    json: Annotated[bool, typer.Option("--json", help="Print the account as one JSON object.")] = False,
) -> None:
    """Record kernels and copies of a program with CUPTI: what overlaps, and why the SMs are idle.

    It does not run under ncu or nsys: CUPTI serves one client. A run directory as NAME is shown again.
    """
    from ncubble.cli.commands.streams.job import StreamsJob, record_job, show_job
    from ncubble.cli.running import require_viewer_format
    from ncubble.errors import MeasurementError, UsageError
    from ncubble.profiling.runs import holding

    require_viewer_format(perfetto)
    program = ctx.meta[PROGRAM]
    if name is not None and program is None and (Path(name) / "activity.parquet").is_file():
        if parameter or shape or catalog or repeat != 1 or out or force or warps:
            raise UsageError("a recorded run is only shown", "omit the options for recording")
        _show(show_job(Path(name), whole), perfetto, limit, json)
        return
    if name is not None and program is None and Path(name).exists() and name not in kernel_names(name):
        remedy = holding(Path(name)) or "name a run directory of `ncubble streams` or `program`, or a kernel"
        raise UsageError(f"{name}: no recording of streams lies there", remedy)
    subject = (program, name, parameter or [], shape_text(shape), catalog, repeat)
    done = record_job(StreamsJob(*subject, out, force, most, recorder, timeout, whole, warps))
    _show(done, perfetto, limit, json)
    if done.failed:
        raise MeasurementError(done.failed, f"what was recorded until then is in {done.folder}")


def _show(shown: StreamsOutput, perfetto: Path | None, limit: int, json: bool) -> None:
    """Prints the accounts, and writes the trace that was asked for."""
    from ncubble.cli.commands.streams.job import write_trace
    from ncubble.cli.commands.streams.render import print_accounts

    if perfetto is not None:
        write_trace(shown, perfetto)
    print_accounts(shown, limit, json)
