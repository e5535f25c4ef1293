"""``ncubble augment``: adds the accounts of profiled launches to a trace of PyTorch's profiler."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncubble.errors import ReportError, UsageError

DASHBOARD = "http://127.0.0.1:8050"


def augment(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A Kineto trace: .json or .json.gz.")],
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="Run directories or report files of its kernels, or folders.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The file to write [TRACE.ncubble.json(.gz)].")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file at --out.")] = False,
    dashboard: Annotated[
        str, typer.Option("--dashboard", metavar="URL", help="Dashboard address for links to kernel pages.")
    ] = DASHBOARD,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="Show N kernels.")] = 15,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Add each kernel's account to a trace of PyTorch's profiler: arguments of its slices, and counters over time.

    Kernels are matched by name with template arguments, grid and block, on the same GPU model.
    Kernels without a match are counted and listed. The result opens in ui.perfetto.dev and
    chrome://tracing. Exit code 3 if no kernel was matched or a report could not be read.
    """
    from ncubble.cli.commands.augment.job import augmented
    from ncubble.cli.commands.augment.render import as_object, print_augmented
    from ncubble.cli.terminal import emit_json

    if not dashboard.startswith(("http://", "https://")):
        raise UsageError(
            f"--dashboard {dashboard}: not the address of a dashboard", f"for example --dashboard {DASHBOARD}"
        )
    target = out or _beside(trace)
    done, unread = augmented(trace, runs, target, force, dashboard.rstrip("/"))
    for error in unread:
        typer.echo(f"ncubble: {error}", err=True)
    if as_json:
        emit_json(as_object(done, target))
    else:
        print_augmented(done, target, limit)
    if unread or not done.matched:
        raise typer.Exit(ReportError.exit_code)


def _beside(trace: Path) -> Path:
    """``step.ncubble.json.gz`` of ``step.json.gz``."""
    packed = trace.suffix == ".gz"
    stem = trace.with_suffix("") if packed else trace
    return stem.parent / f"{stem.name.removesuffix('.json')}.ncubble.json{'.gz' if packed else ''}"
