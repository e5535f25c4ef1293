"""``ncubble profile``: profiles a catalog kernel or any program. ``ncubble doctor``: lists what
this machine lacks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.cli.command import PROGRAM, Catalog, NameOrProgram, Parameters, Shape, shape_text
from ncubble.cli.terminal import recording

if TYPE_CHECKING:
    from ncubble.profiling.doctor import DoctorCheck
    from ncubble.profiling.runs import Run

COMMANDS_WIDTH = 24
"""Width of the doctor's column of command names."""


def profile(
    ctx: typer.Context,
    name: NameOrProgram = None,
    parameter: Parameters = None,
    shape: Shape = None,
    catalog: Catalog = None,
    repeat: Annotated[int, typer.Option(min=1, help="Launches of the catalog kernel in one run.")] = 1,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="SET", help="Metric set, repeatable (see --list-sets).")
    ] = None,
    metric: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A further metric, repeatable.")] = None,
    kernel: Annotated[
        str,
        typer.Option(metavar="REGEX", help="Only kernels whose demangled name matches; with ^ or $, the base name."),
    ] = "",
    nvtx: Annotated[
        str, typer.Option(metavar="RANGE", help="Only launches in this NVTX range, as ncu writes it.")
    ] = "",
    skip: Annotated[int, typer.Option(help="Matching launches to skip first.")] = 0,
    count: Annotated[int | None, typer.Option(help="Matching launches to profile.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The run directory to write.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the run at --out.")] = False,
    timeout: Annotated[float | None, typer.Option(metavar="S", help="Stop the whole run after S seconds.")] = None,
    no_compress: Annotated[
        bool, typer.Option("--no-compress", help="Keep .ncu-rep, for Nsight Compute's own UI.")
    ] = False,
    clock_control: Annotated[str, typer.Option(metavar="none|base", help="base: ncu locks the clocks.")] = "none",
    cache_control: Annotated[
        str, typer.Option(metavar="all|none", help="none: caches stay warm between passes.")
    ] = "all",
    list_sets: Annotated[bool, typer.Option("--list-sets", help="List the metric sets and exit.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the run as one JSON object.")] = False,
) -> None:
    """Profile a catalog kernel, or any program after --, into a run directory. Results are not
    verified, because a kernel runs once per pass under the profiler; use `ncubble verify`.
    """
    if list_sets:
        _print_sets(json)
        return
    from ncubble.api.profiling import record_profile
    from ncubble.api.subjects import chosen_subject
    from ncubble.profiling.metrics.metrics import DEFAULT_SETS
    from ncubble.profiling.ncu import Control, Filters
    from ncubble.profiling.recorders.ncu import NcuSettings

    subject = chosen_subject(ctx.meta[PROGRAM], name, parameter or [], shape_text(shape), catalog, repeat)
    settings = NcuSettings(
        sets=tuple(set_ or DEFAULT_SETS),
        metrics=tuple(metric or ()),
        filters=Filters(kernel, nvtx, skip, count),
        control=Control(clock_control, cache_control),
        compress=not no_compress,
    )
    with recording() as observer:
        run = record_profile(subject, settings, out, force=force, timeout_s=timeout, observer=observer)
    _report(run, json)


def doctor(
    gpu: Annotated[
        bool, typer.Option("--gpu", help="Also require everything that profiling needs (exit 3 if missing).")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the checks as one JSON object.")] = False,
) -> None:
    """Show what this machine has and lacks, and how to get what is missing. Exit code 0, because
    recorded runs can be viewed anywhere; with --gpu, 3 if it cannot profile.
    """
    from ncubble.cli.terminal import emit_json
    from ncubble.profiling.doctor import as_json, examine, require_profiling

    checks = examine()
    if json:
        emit_json(as_json(checks))
    else:
        _print_checks(checks)
    if gpu:
        require_profiling(checks)


def _report(run: Run, json: bool) -> None:
    """Print the run's path; raise MetricUnavailableError if it lacks metrics for the account."""
    from ncubble.cli.terminal import emit_json
    from ncubble.profiling.failures import MetricUnavailableError

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
    if run.manifest.outcome != "ok":
        raise MetricUnavailableError(str(run.path), ", ".join(report["missing"]))
    if report["missing"] and not json:
        typer.echo(f"  note: no value (n/a) for: {', '.join(report['missing'])}", err=True)


def _print_sets(json: bool) -> None:
    from ncubble.cli.terminal import emit_json, table_lines, terminal_width
    from ncubble.profiling.metrics.metrics import DEFAULT_SETS, load_sets

    sets = load_sets()
    if json:
        import msgspec

        emit_json({"schema": 1, "default": list(DEFAULT_SETS), "sets": msgspec.to_builtins([*sets.values()])})
        return
    rows = []
    for member in sets.values():
        what = f"{member.title} (default)" if member.name in DEFAULT_SETS else member.title
        collected = [
            *([f"{len(member.metrics)} metrics"] if member.metrics else []),
            *([" + ".join(member.include)] if member.include else []),
            *([f"sections {', '.join(member.sections)}"] if member.sections else []),
            *([f"ncu --set {member.ncu_set}"] if member.ncu_set else []),
        ]
        rows.append([member.name, what, "; ".join(collected)])
    for _, line in table_lines(["set", "what it answers", "collects"], rows, [False] * 3, terminal_width()):
        typer.echo(line)


def _print_checks(checks: list[DoctorCheck]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from ncubble.profiling.doctor import able, commands

    colors = {"ok": "green", "missing": "yellow", "wrong": "red"}
    table = Table("check", "status", "what", box=None, pad_edge=False)
    if packages := [check for check in checks if check.need == "view" and check.status == "ok"]:
        versions = ", ".join(f"{check.name} {check.detail}" for check in packages)
        table.add_row("to view runs", f"[{colors['ok']}]ok[/]", escape(versions))
    for check in checks:
        if check in packages:
            continue
        status = f"[{colors[check.status]}]{check.status}[/]"
        remedy = f"\n[dim]→ {escape(check.remedy)}[/]" if check.status != "ok" and check.remedy else ""
        table.add_row(check.name, status, escape(check.detail) + remedy)
    console = Console()
    console.print(table)
    for need, what in (
        ("view", "view recorded runs"),
        ("profile", "profile on this machine"),
        ("kernels", "build and run the catalog"),
        ("streams", "record streams of Python programs"),
        ("sweeps", "run sweeps"),
        ("agents", "answer agents"),
    ):
        answer = "[green]yes[/]" if able(checks, need) else "[yellow]no[/]"
        console.print(f"{what}: {answer}", highlight=False)
    reached = Table("command", "works", "how, or what it lacks", box=None, pad_edge=False)
    reached.columns[0].max_width = COMMANDS_WIDTH
    for row in commands(checks):
        color = {"yes": "green", "partly": "yellow", "no": "red"}[row.works]
        reached.add_row(", ".join(row.commands), f"[{color}]{row.works}[/]", escape(row.how))
    console.print()
    console.print(reached)
