"""Prints for ``ncubble sweep``: the plan, and finally a table of points with their measurements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from ncubble.analysis.diagnosis.verdict import LaunchVerdict
    from ncubble.cli.commands.sweep.plan import Planned
    from ncubble.profiling.sweeps.job import SweepJob
    from ncubble.profiling.sweeps.store import Record
    from ncubble.profiling.sweeps.sweep import SweepPlan

MOST_REFUSED = 10
MOST_ROWS = 60
LONGEST_REASON = 240


def say_plan(planned: Planned) -> None:
    """Print rejected combinations and notes to stderr."""
    for point, reason in planned.refused[:MOST_REFUSED]:
        typer.echo(f"skipped {_settings(point)}: {reason}", err=True)
    if len(planned.refused) > MOST_REFUSED:
        more = len(planned.refused) - MOST_REFUSED
        typer.echo(
            f"skipped {more} further combinations that the kernel rejects (--dry-run --json lists all)", err=True
        )
    for note in planned.notes:
        typer.echo(f"note: {note}", err=True)


def show_dry(planned: Planned, folder: Path, as_json: bool) -> None:
    """Print only the plan. Points already in the store depend on the GPU and are not marked."""
    from ncubble.cli.terminal import emit_json

    if as_json:
        jobs = [{"point": job.point, **{name: job.about[name] for name in _ABOUT}} for job in planned.jobs]
        emit_json({"schema": 1, "store": str(folder), "jobs": jobs, "refused": _refused(planned)})
        return
    for job in planned.jobs:
        typer.echo(_settings(job.point) or "(nothing varied)")
    typer.echo(f"{len(planned.jobs)} jobs, {len(planned.refused)} combinations skipped; nothing was measured", err=True)


_ABOUT = ("kernel", "parameters", "shape")


def finish(planned: Planned, plan: SweepPlan, records: Mapping[str, Record], folder: Path, as_json: bool) -> None:
    """Print the outcome; exits with 3 if a job failed or lacks metrics for the account."""
    from ncubble.cli.terminal import emit_json

    verdicts = _verdicts(folder, records)
    rows = [_JobRow(task.job, records[key], verdicts[records[key].run]) for key, task in plan.tasks.items()]
    if as_json:
        outcome = {"schema": 1, "store": str(folder), "device": plan.machine.device, "measured": len(plan.todo)}
        jobs = [row.to_json() for row in rows]
        emit_json({**outcome, "held": len(plan.held), "jobs": jobs, "refused": _refused(planned)})
    else:
        _print(rows, plan, folder)
    if any(row.record.state != "ok" for row in rows):
        raise typer.Exit(3)


def _verdicts(folder: Path, records: Mapping[str, Record]) -> defaultdict[str, list[LaunchVerdict]]:
    """Verdicts of the runs, by run directory name."""
    from ncubble.analysis.diagnosis.results import judge_all
    from ncubble.analysis.report.report import open_reports
    from ncubble.cli.terminal import reading

    paths = {str(folder / record.run): record.run for record in records.values() if record.run}
    with reading() as tell:
        result = judge_all(*open_reports([Path(path) for path in paths], tell))
    by_run: defaultdict[str, list[LaunchVerdict]] = defaultdict(list)
    for verdict in result.verdicts:
        by_run[paths.get(verdict.report, "")].append(verdict)
    return by_run


@dataclass(frozen=True)
class _JobRow:
    """A job, its outcome, and the verdicts of its launches."""

    job: SweepJob
    record: Record
    verdicts: list[LaunchVerdict]

    def to_json(self) -> dict[str, Any]:
        shown = ("duration_ns", "tensor_elapsed_pct", "dram_pct", "cause", "disease")
        record = self.record
        return {
            "point": dict(self.job.point),
            **{name: self.job.about[name] for name in _ABOUT},
            "state": record.state,
            "run": record.run or None,
            "error": record.error or None,
            "remedy": (record.attempts[-1].remedy if record.attempts else "") or None,
            "attempts": len(record.attempts),
            "launches": [{name: getattr(verdict, name) for name in shown} for verdict in self.verdicts],
        }

    def mean(self, name: str, scale: float = 1.0) -> str:
        """The mean of a number over all launches that have it."""
        values = [value for verdict in self.verdicts if (value := getattr(verdict, name)) is not None]
        return f"{sum(values) / len(values) * scale:.1f}" if values else "not collected"


def _refused(planned: Planned) -> list[dict[str, Any]]:
    return [{"point": point, "reason": reason} for point, reason in planned.refused]


def _settings(point: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in point.items())


def _print(rows: list[_JobRow], plan: SweepPlan, folder: Path) -> None:
    from rich.console import Console

    from ncubble.cli.terminal import printable

    good = [row for row in rows if row.record.run]
    failed = [row for row in rows if not row.record.run]
    if good:
        Console().print(_table(good[:MOST_ROWS]))
    if len(good) > MOST_ROWS:
        typer.echo(f"and {len(good) - MOST_ROWS} more: ncubble dashboard {folder}")
    for row in failed:
        why = printable(" ".join((row.record.error or "unknown reason").split()))
        why = why if len(why) <= LONGEST_REASON else f"{why[: LONGEST_REASON - 1]}…"
        typer.echo(f"failed {_settings(row.job.point)}: {why}")
    before = f", {len(plan.held)} of them earlier" if plan.held else ""
    again = "; --retry-failed measures failed jobs again" if failed else ""
    typer.echo(f"{len(good)} of {len(rows)} measured{before}{again}", err=True)
    typer.echo(f"  view them: ncubble dashboard {folder}", err=True)


def _table(rows: list[_JobRow]) -> Any:
    from rich.markup import escape
    from rich.table import Table

    names = list(dict.fromkeys(name for row in rows for name in row.job.point))
    table = Table(box=None, pad_edge=False)
    for name in (*map(escape, names), "µs", "tensor %", "DRAM %"):
        table.add_column(name, justify="right")
    table.add_column("cause")
    for row in rows:
        first = row.verdicts[0] if row.verdicts else None
        cause = f"{first.cause} ({first.disease})" if first and first.disease else first.cause if first else ""
        cells = [row.mean("duration_ns", 1e-3), row.mean("tensor_elapsed_pct"), row.mean("dram_pct")]
        note = " (incomplete)" if row.record.state == "incomplete" else ""
        table.add_row(*(escape(row.job.point.get(name, "")) for name in names), *cells, escape(cause + note))
    return table
