"""``ncubble ablate``: measures the cost of a kernel's parts by removing them from its machine
code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.cli.command import PROGRAM, Catalog, Json, Parameters, Shape, shape_text

if TYPE_CHECKING:
    from ncubble.analysis.ablation.result import Ablation


def ablate(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="A catalog kernel, or a run that ablate wrote; or -- CMD …")
    ] = None,
    parameters: Parameters = None,
    shape: Shape = None,
    catalog: Catalog = None,
    kernel: Annotated[
        str, typer.Option(metavar="REGEX", help="Only kernels whose base name or demangled name matches.")
    ] = "",
    skip: Annotated[int, typer.Option(help="Matching launches to skip first.")] = 0,
    count: Annotated[int, typer.Option(min=1, help="Matching launches to measure.")] = 1,
    rounds: Annotated[int | None, typer.Option(min=2, help="Rounds over all variants (default 5; timed: 21).")] = None,
    time: Annotated[
        bool, typer.Option("--time", help="Measure time instead of cycles: needs no counters and no ncu.")
    ] = False,
    slack: Annotated[bool, typer.Option(" /--no-slack", help="Skip the delayed variants (slack).")] = True,
    memory: Annotated[float, typer.Option(metavar="GIB", help="Largest memory of a launch that is copied.")] = 16.0,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The run directory to write.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the run at --out.")] = False,
    timeout: Annotated[float | None, typer.Option(metavar="S", help="Stop the program after S seconds.")] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the tables as Markdown.")] = None,
    json: Json = False,
) -> None:
    """Measure what waits, copies, barriers, shared loads and stores cost, by removing them from the machine code.

    The program runs once, unchanged, to record its launch; the variants run in separate processes.
    Cycles are counted under ncu. If counters cannot be read, time is measured instead, and the
    output says so.
    """
    from ncubble.cli.commands.ablate.job import AblateJob, run_job, shown
    from ncubble.errors import UsageError
    from ncubble.profiling.ncu import Filters

    program = ctx.meta[PROGRAM]
    if (name is None) == (program is None):
        raise UsageError("name a catalog kernel, a run, or a program after --", "see `ncubble ablate -h`")
    if name is not None and Path(name).is_dir():
        _print(shown(Path(name)), markdown, json)
        return
    choice = Filters(kernel, "", skip, count)
    job = AblateJob.of(
        program, name, parameters or [], shape_text(shape), catalog, choice, rounds, slack, memory, timeout, time
    )
    _print(run_job(job, out, force), markdown, json)


def _print(results: list[tuple[Path, str, Ablation]], markdown: Path | None, json: bool) -> None:
    from rich.console import Console

    from ncubble.cli.commands.ablate.render import as_markdown, print_ablation
    from ncubble.cli.terminal import emit_json

    if markdown is not None:
        markdown.write_text(as_markdown(results), encoding="utf-8")
    if json:
        emit_json({"schema": 1, "runs": [{"run": str(path), **result.to_json()} for path, _, result in results]})
        return
    out = Console(highlight=False)
    for path, label, result in results:
        print_ablation(out, result, label)
        took = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in result.seconds.items())
        typer.echo(f"  run: {path} ({took})", err=True)
