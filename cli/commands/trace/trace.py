"""``ncubble trace``: records what each warp does over time, by a probe in the kernel itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncubble.cli.command import PROGRAM, Catalog, Json, Parameters, Seed, Shape


def trace(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(help="A kernel with a probe, or a folder written by trace; or -- CMD …"),
    ] = None,
    parameters: Parameters = None,
    shape: Shape = None,
    seed: Seed = None,
    catalog: Catalog = None,
    sms: Annotated[int, typer.Option(min=1, max=512, help="Record the warps that start on the first N SMs.")] = 1,
    events: Annotated[int, typer.Option(min=1, max=(1 << 20) - 1, help="Marks to keep for each warp.")] = 2048,
    cost: Annotated[
        bool, typer.Option(" /--no-cost", help="Do not measure the cost of the probe.", show_default=False)
    ] = True,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The run directory to write.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the run at --out.")] = False,
    perfetto: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write trace events, for ui.perfetto.dev.")
    ] = None,
    start: Annotated[
        float | None, typer.Option("--from", metavar="US", help="Start of the section to show, in µs.")
    ] = None,
    end: Annotated[float | None, typer.Option("--to", metavar="US", help="Its end; --out writes the section.")] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="S", help="Stop the program after S seconds and keep nothing.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the kernels that contain a probe, and exit.")] = False,
    json: Json = False,
) -> None:
    """Record what each warp does over time: loads, waits, computation, stores, with clocks written
    by the kernel itself.

    NAME: a catalog kernel with the probe; its result is verified, and the probe's cost is measured.
    -- CMD …: your own program whose kernels include bubble_probe.cuh (docs/trace.md). A recorded
    folder is shown again.
    """
    from ncubble.cli.commands.trace import run
    from ncubble.errors import UsageError

    if list_:
        run.list_probed(catalog, json)
        return
    program = ctx.meta[PROGRAM]
    wanted = run.TraceRequest(sms, events, cost, out, force, perfetto, json, (start, end), timeout)
    if wanted.window != (None, None) and (name is None or not Path(name).is_dir()):
        raise UsageError("--from and --to need a recorded folder", "record a trace first, then cut its folder")
    if (name is None) == (program is None):
        raise UsageError("name a kernel with a probe, or a program after --", "see `ncubble trace --help`")
    if program is not None:
        if parameters or shape or catalog or seed is not None:
            raise UsageError("-p, --shape, --seed and --catalog are for catalog kernels", "pass options after --")
        run.trace_program(program, wanted)
    elif Path(name or "").is_dir():
        run.trace_shown(Path(name or ""), wanted)
    else:
        run.trace_kernel(name or "", parameters or [], shape or [], seed, catalog, wanted)
