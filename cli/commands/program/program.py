"""``ncubble program``: where the time of a whole program goes, between its kernels and inside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.cli.command import PROGRAM

if TYPE_CHECKING:
    from ncubble.analysis.program.opening import RecordedProgram
    from ncubble.analysis.program.span import SpanChoice

COVERED_PCT, MOST = 95.0, 1_000_000


def program(
    ctx: typer.Context,
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A recorded program or run of streams; or give -- CMD ….")
    ] = None,
    nvtx: Annotated[
        str, typer.Option(metavar="RANGE", help="Account for the NVTX ranges of this name ('step *': any end).")
    ] = "",
    skip_first: Annotated[
        int, typer.Option("--skip-first", min=0, metavar="N", help="Leave out N launches; with --nvtx, N ranges.")
    ] = 0,
    whole: Annotated[bool, typer.Option("--whole", help="Account for everything, warm-up included.")] = False,
    cover: Annotated[
        float,
        typer.Option(min=1, max=100, metavar="PCT", help="Profile kernels until they cover this share of GPU time."),
    ] = COVERED_PCT,
    without: Annotated[
        str, typer.Option(metavar="REGEX", help="Never profile these kernels, as those that wait for others.")
    ] = "",
    no_profile: Annotated[bool, typer.Option("--no-profile", help="Only record, without a run under ncu.")] = False,
    report: Annotated[
        list[Path] | None, typer.Option("--report", metavar="RUN", help="With DIR: launches of another run, too.")
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="SET", help="Metric set, repeatable.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The run directory to write.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the run at --out.")] = False,
    most: Annotated[int, typer.Option(metavar="N", help="Maximum records to keep; others are counted.")] = MOST,
    recorder: Annotated[
        str, typer.Option(metavar="auto|python|library", help="How to record: inside Python, or by a library.")
    ] = "auto",
    timeout: Annotated[
        float | None, typer.Option(min=0.001, metavar="S", help="Stop each of the two runs after S seconds.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="Rows of kernels and ranges.")] = 12,
    markdown: Annotated[Path | None, typer.Option("--markdown", metavar="FILE", help="Write the tables.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the account as one JSON object.")] = False,
) -> None:
    """Run a program twice, recorded and under ncu, and account for its time between and inside kernels.

    Imports, compilation and warm-up are left out: only what lies between cudaProfilerStart and cudaProfilerStop counts,
    else the launches that repeat. DIR shows a recorded one again. Ends with 3 where something could not be measured.
    """
    from ncubble.analysis.program.span import SpanChoice
    from ncubble.errors import UsageError

    argv, choice = ctx.meta[PROGRAM], SpanChoice(nvtx, skip_first, whole)
    if (argv is None) == (folder is None):
        raise UsageError("name either a recorded program or a program after --", "see `ncubble program --help`")
    write = _writer(markdown)
    if folder is not None:
        recording = (out, force, no_profile, set_, timeout, without, recorder, cover, most)
        if recording != (None, False, False, None, None, "", "auto", COVERED_PCT, MOST):
            raise UsageError("a recorded program is shown as it is", "leave out the options for recording")
        write(_shown(folder, choice, report or [], limit, json), limit)
        return
    if report:
        raise UsageError("--report is for a recorded program", "name its directory")
    recorded = _recorded(argv, choice, cover, out, force, most, recorder, timeout, set_, not no_profile, without)
    write(_shown(recorded, None, [], limit, json), limit)
    _raise_failure(recorded)


def _recorded(
    argv: list[str],
    choice: SpanChoice,
    cover: float,
    out: Path | None,
    force: bool,
    most: int,
    recorder: str,
    timeout: float | None,
    sets: list[str] | None,
    profiled: bool,
    without: str,
) -> Path:
    from ncubble.cli.commands.program.job import ProgramJob, record_program
    from ncubble.profiling.metrics.metrics import DEFAULT_SETS

    chosen = (out, force, most, recorder, timeout, tuple(sets or DEFAULT_SETS), profiled, without)
    return record_program(ProgramJob(argv, choice, cover, *chosen, say=_say))


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _shown(folder: Path, choice: SpanChoice | None, others: list[Path], limit: int, json: bool) -> RecordedProgram:
    """Prints a recorded program; without options the span is the one that was chosen at recording."""
    from ncubble.analysis.program.opening import open_program
    from ncubble.analysis.program.output import as_json
    from ncubble.analysis.program.span import SpanChoice
    from ncubble.cli.commands.program.render import print_program
    from ncubble.cli.terminal import emit_json

    shown = open_program(folder, None if choice == SpanChoice() else choice, others)
    if json:
        emit_json(as_json(shown))
    else:
        print_program(shown, limit)
    return shown


def _writer(markdown: Path | None):  # type: ignore[no-untyped-def]
    """What writes --markdown. A foreign file is refused before anything runs."""
    from ncubble.analysis.program.output import MARK, markdown_text
    from ncubble.cli.terminal import refuse_foreign, write_text

    refuse_foreign(markdown, MARK)

    def write(shown: RecordedProgram, limit: int) -> None:
        if markdown is not None:
            write_text(markdown, markdown_text(shown, limit))

    return write


def _raise_failure(folder: Path) -> None:
    from ncubble.analysis.program import record
    from ncubble.errors import MeasurementError

    if failed := record.read(folder).failed:
        raise MeasurementError(failed, f"what was recorded until then is in {folder}")
