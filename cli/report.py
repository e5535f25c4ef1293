"""``ncubble report``: the bubble account of every launch, in the terminal or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.cli.command import Json, Kernel
from ncubble.cli.terminal import emit_json, fitted, reading
from ncubble.errors import UsageError

if TYPE_CHECKING:
    from ncubble.api.reporting import LaunchReport
    from ncubble.records import JsonObject

NEXT = ("ncubble.analysis.diagnosis.diagnose", "ncubble.cli.accounts")
"""Modules that judge and show a report, imported while it is read."""


def report(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Run directories, .ncu-rep or .ncu-repz files, recordings of trace or streams, or folders."
        ),
    ],
    as_json: Json = False,
    brief: Annotated[bool, typer.Option("--brief", help="With --json: at most 4 KB per launch.")] = False,
    details: Annotated[bool, typer.Option("--details", help="Show every launch in full.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show counters and instructions of each part.")] = False,
    depths: Annotated[bool, typer.Option("--depths", help="Predict other depths of the pipeline, 1 to 8.")] = False,
    stages: Annotated[
        int | None,
        typer.Option(
            "--stages", help="With --depths: the present depth, if neither manifest nor code shows it.", min=1, max=64
        ),
    ] = None,
    kernel: Kernel = "",
    sort: Annotated[
        str | None, typer.Option("--sort", metavar="ORDER", help="Sort rows by time, lost (time), busy, dram or read.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Show N rows or launches.")] = None,
    group: Annotated[bool, typer.Option("--group/--no-group", help="One row per kernel, or per launch.")] = True,
) -> None:
    """Show where the time of every launch went, what to change, and the source lines. For recordings
    of `trace` and `streams`: a coarser account without counters, labelled as such. Exit code 3 if a
    file could not be read or nothing was found; other files are still reported.
    """
    from ncubble.api import reporting

    if brief and not as_json:
        raise UsageError("--brief without --json", "add --json")
    if stages and not depths:
        raise UsageError("--stages without --depths", "add --depths")
    selection = reporting.Selection(kernel, sort, limit, group)
    with reading() as progress:
        found = reporting.report(
            paths, selection, explained=explain, depths=depths, stages=stages, progress=progress, then=NEXT
        )
    if as_json:
        emit_json(_brief(found) if brief else found.to_json())
    else:
        from ncubble.cli.accounts import print_report

        print_report(found, details or explain or depths)
    if found.errors or not (found.launches or found.traces):
        raise typer.Exit(3)


def _brief(found: LaunchReport) -> JsonObject:
    """The brief of each launch, as in ``ncubble mcp``."""
    depths = found.depths or {}
    briefs = [launch.brief(depths.get(launch)) for launch in found.first]
    launches = [fitted(one, "ncubble report --json shows all") for one in briefs]
    return found.to_json() | {"schema": 2, "launches": launches}
