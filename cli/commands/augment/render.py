"""Prints the matched kernels, as tables or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ncubble.analysis.kineto.augment import Augmented, TracedKernels
from ncubble.analysis.kineto.matching import OUTCOMES
from ncubble.analysis.report.launch_key import base_name
from ncubble.cli.commands.report.words import duration, share
from ncubble.cli.terminal import printable
from ncubble.text.values import fixed, short_name

NAME_CELLS = 28


def print_augmented(done: Augmented, out: Path, limit: int) -> None:
    """Print a table of the kernels with most time, why others have no account, and the file."""
    console = Console(highlight=False)
    ranked = done.by_time()
    table = _table("kernel", ("slices", "time", "time %", "tensor %"), "verdict")
    for kernels in ranked[:limit]:
        table.add_row(*map(escape, _cells(kernels, done.time_us)))
    console.print(table)
    if len(ranked) > limit:
        console.print(f"and {len(ranked) - limit} more (--limit)", style="dim")
    console.print(_outcomes(done))
    for kernels in [kernels for kernels in ranked if kernels.match.note][:limit]:
        console.print(Text(_why(kernels), style="dim", overflow="fold"))
    console.print(Text(str(out)), soft_wrap=True)


def _table(first: str, numbers: tuple[str, ...], last: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first, no_wrap=True, max_width=NAME_CELLS)
    for title in numbers:
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column(last)
    return table


def _cells(kernels: TracedKernels, total_us: float) -> tuple[str, ...]:
    profiled = kernels.match.profiled
    tensor = fixed(profiled.verdict.tensor_elapsed_pct, 1, "–") if profiled else "–"
    verdict = profiled.verdict.cause.replace("_", " ") if profiled else kernels.match.outcome
    name = short_name(printable(base_name(kernels.written)), NAME_CELLS)
    time = duration(kernels.time_us * 1e3)
    return name, f"{kernels.count:,}", time, share(kernels.time_us, total_us), tensor, verdict


def _outcomes(done: Augmented) -> Table:
    """Kernels and time by outcome, with an explanation of the outcome."""
    table = _table("\nmatch", ("\nslices", "\ntime %"), "")
    outcomes = done.outcomes()
    for outcome, meaning in OUTCOMES.items():
        if outcome in outcomes:
            count, time = outcomes[outcome]
            table.add_row(outcome, f"{count:,}", share(time, done.time_us), Text(meaning, style="dim"))
    return table


def _why(kernels: TracedKernels) -> str:
    name = printable(base_name(kernels.written))
    return f"{short_name(name, 40)}: {printable(kernels.match.note)}"


def as_object(done: Augmented, out: Path) -> dict[str, Any]:
    """The same as JSON: kernels by time."""
    outcomes = {name: {"kernels": count, "us": time} for name, (count, time) in done.outcomes().items()}
    return {
        "schema": 1,
        "file": str(out),
        "outcomes": outcomes,
        "kernels": [
            {
                "name": kernels.written,
                "grid": kernels.launch.grid,
                "block": kernels.launch.block,
                "slices": kernels.count,
                "us": kernels.time_us,
                "outcome": kernels.match.outcome,
                "launch": kernels.match.profiled.verdict.address if kernels.match.profiled else None,
                "repeats": kernels.match.repeats,
                "note": kernels.match.note,
            }
            for kernels in done.by_time()
        ],
    }
