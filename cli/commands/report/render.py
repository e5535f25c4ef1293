"""Prints bubble accounts: a table of all launches, or a table of parts for each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from ncubble.analysis.ablation.result import Ablation
from ncubble.analysis.diagnosis.diseases import fix_of
from ncubble.analysis.diagnosis.measured import as_measured, differs, measured_sentence
from ncubble.analysis.diagnosis.results import ReportResult
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.diagnosis.words import saving
from ncubble.cli.commands.report.explanation import print_explanation
from ncubble.cli.commands.report.parts import parts_table
from ncubble.cli.commands.report.summary import print_summary
from ncubble.cli.commands.report.view import View
from ncubble.cli.commands.report.words import duration, title, verdict_words
from ncubble.cli.labels import full_labels
from ncubble.cli.terminal import printable
from ncubble.errors import NcubbleError
from ncubble.text.values import fixed

if TYPE_CHECKING:
    from ncubble.analysis.details.coarse import CoarseVerdict

IN_FULL = 3
"""Up to this many launches are shown in full by default."""


def print_result(
    result: ReportResult, details: bool = False, view: View | None = None, traces: Sequence[CoarseVerdict] = ()
) -> None:
    """Print verdicts of reports, then those of recordings without counters, to stdout; files that could not be read
    to stderr."""
    out, view = Console(highlight=False), view or View()
    result = view.chosen(result)
    launches = result.verdicts
    if details or len(launches) <= IN_FULL:
        beside = zip_longest(launches, full_labels(launches), result.explanations, result.ablations)
        for launch, label, explanation, ablation in list(beside)[: view.limit]:
            print_launch(out, launch, label, ablation)
            if explanation:
                print_explanation(out, explanation, launch.unit or "")
    else:
        print_summary(out, *view.rows(result))
    if traces:
        from ncubble.cli.commands.report.coarse import print_coarse

        print_coarse(out, traces, details)
    err = Console(stderr=True, highlight=False)
    for failure in result.errors:
        lines = failure.error.split("\n  remedy: ")
        text = "\n  remedy: ".join(printable(line) for line in lines)
        err.print(Text(f"ncubble: {text}", style="red"), soft_wrap=True)


def print_launch(out: Console, launch: LaunchVerdict, label: str, ablation: Ablation | None = None) -> None:
    """Print one launch in full under ``label``: verdict, a bar per part with its hottest line,
    results of ``ablation``, and notes."""
    facts = [
        printable(launch.device or "device not known"),
        f"launch {launch.launch}",
        duration(launch.duration_ns) + _clock(launch.sm_clock_hz),
        f"tensor {fixed(launch.tensor_elapsed_pct, 1, '–')} %",
        f"DRAM {fixed(launch.dram_pct, 1, '–')} %",
    ]
    out.print(title(launch, label).append("  " + " · ".join(facts), style="dim not bold"))
    for line in _notes(launch):
        out.print(Text(printable(line), style="dim"))
    shown = as_measured(launch, ablation)
    out.print(Text("→ ").append_text(verdict_words(shown)).append(f": {_remedy(shown)}", style="not bold"))
    if ablation:
        style = "bold yellow" if differs(launch, ablation) else "bold"
        out.print(Text(printable(measured_sentence(launch, ablation)), style=style))
    if launch.account:
        out.print(parts_table(launch, launch.account, out.width, ablation))
    for warning in launch.warnings:
        doubt = warning in launch.doubts
        out.print(Text(printable(warning) if doubt else f"note: {printable(warning)}", style="red" if doubt else "dim"))
    out.print()


def _notes(launch: LaunchVerdict) -> list[str]:
    """Tags of the run and the note on it, or why they cannot be read."""
    from ncubble.profiling.runs import Run, RunNotes

    try:
        notes = RunNotes.of(Run.load(Path(launch.report)))
    except NcubbleError as error:
        return [error.message]
    return [*([f"tags: {', '.join(notes.tags)}"] if notes.tags else []), *notes.note.splitlines()]


def _remedy(launch: LaunchVerdict) -> str:
    """The remedy, and its saving if predicted."""
    first = launch.causes[0] if launch.causes else None
    if first is None or first.cause != launch.cause:
        return fix_of(launch.cause, launch.disease)
    saved = saving(first)
    return first.fix + (f" ({saved})" if saved else "")


def _clock(hz: float | None) -> str:
    return f" at {hz / 1e9:.2f} GHz" if hz else ""
