"""Progress of a sweep on stderr: a bar with the remaining time on a terminal, else one line per
job."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ncubble.profiling.sweeps.dispatch import Task
    from ncubble.profiling.sweeps.store import Record
    from ncubble.profiling.sweeps.sweep import SweepPlan
    from ncubble.profiling.sweeps.team import Team

_LONGEST = 240


@dataclass(frozen=True)
class SweepDisplay:
    """Callbacks for every settled job, and for every message about workers."""

    settled: Callable[[Task, Record], None]
    tell: Callable[[str], None]


@contextmanager
def progress(plan: SweepPlan, team: Team) -> Iterator[SweepDisplay]:
    """Show the progress of the sweep while the block runs."""
    hosts = {machine.host for machine in team.machines.values()}
    total, workers = len(plan.todo), len(team.machines)
    where = f"{workers} GPU{'s' if workers > 1 else ''}" + (f" on {len(hosts)} hosts" if len(hosts) > 1 else "")
    stored = f", {len(plan.held)} are already in the store" if plan.held else ""
    typer.echo(f"{total} jobs on {where} ({plan.machine.device}){stored}", err=True)
    for reason in dict.fromkeys(team.left_out.values()):
        typer.echo(f"note: a worker is excluded: {_one_line(reason)}", err=True)
    if team.spare:
        typer.echo(f"note: {len(team.spare)} workers share a GPU with another worker and stay idle", err=True)
    with _bar(total) if sys.stderr.isatty() else _lines(total) as shown:
        yield shown


def remaining(done: int, total: int, elapsed_s: float) -> str:
    """``about 3 min left``, estimated from the rate so far; empty before the first job is done."""
    if not done:
        return ""
    left_s = elapsed_s / done * (total - done)
    for unit, name in ((3600.0, "h"), (60.0, "min")):
        if left_s >= 2 * unit:
            return f"about {left_s / unit:.0f} {name} left"
    return f"about {left_s:.0f} s left"


def _outcome_words(task: Task, record: Record) -> str:
    from ncubble.cli.terminal import printable

    seconds = record.attempts[-1].seconds if record.attempts else 0.0
    why = _one_line(record.error)
    return f"{printable(task.job.label)}: {record.state}, {seconds:.1f} s" + (f": {why}" if why else "")


def _one_line(text: str) -> str:
    from ncubble.cli.terminal import printable

    return printable(" ".join(text.split()))[:_LONGEST]


@contextmanager
def _lines(total: int) -> Iterator[SweepDisplay]:
    done, begun = 0, time.monotonic()

    def observe(task: Task, record: Record) -> None:
        nonlocal done
        done += 1
        left = remaining(done, total, time.monotonic() - begun)
        typer.echo(f"[{done}/{total}] {_outcome_words(task, record)}; {left}", err=True)

    yield SweepDisplay(observe, lambda sentence: typer.echo(f"note: {_one_line(sentence)}", err=True))


@contextmanager
def _bar(total: int) -> Iterator[SweepDisplay]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("measuring"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    done, failed, begun = 0, 0, time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        bar = shown.add_task("", total=total)

        def observe(task: Task, record: Record) -> None:
            nonlocal done, failed
            done += 1
            failed += record.state == "failed"
            text = remaining(done, total, time.monotonic() - begun) + (f", {failed} failed" if failed else "")
            shown.update(bar, completed=done, description=text)
            if record.state == "failed":
                shown.console.print(_outcome_words(task, record), markup=False, highlight=False)

        def tell(sentence: str) -> None:
            shown.console.print(f"note: {_one_line(sentence)}", markup=False, highlight=False)

        yield SweepDisplay(observe, tell)
