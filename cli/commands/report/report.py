"""``ncubble report``: the bubble account of every launch, in the terminal or as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ncubble.errors import UsageError

if TYPE_CHECKING:
    from ncubble.analysis.details.coarse import CoarseVerdict
    from ncubble.analysis.diagnosis.results import ReportResult, Unread
    from ncubble.analysis.report.report import Report
    from ncubble.cli.commands.report.view import View

LANES = "lanes.parquet"
"""File of recordings without counters, here to avoid the slow import of pandas."""


NEXT = ("ncubble.analysis.diagnosis.judge", "ncubble.cli.commands.report.render")
"""Modules that judge and show a report."""


def report(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Run directories, .ncu-rep or .ncu-repz files, recordings of trace or streams, or folders."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    brief: Annotated[bool, typer.Option("--brief", help="With --json: at most 4 KB per launch.")] = False,
    details: Annotated[bool, typer.Option("--details", help="Show every launch in full.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the inputs of each part: counters, timeline, instructions.")
    ] = False,
    by_rank: Annotated[bool, typer.Option("--by-rank", help="Compare the ranks of a program on several GPUs.")] = False,
    kernel: Annotated[
        str | None, typer.Option("--kernel", metavar="REGEX", help="Only launches whose kernel or label matches.")
    ] = None,
    sort: Annotated[
        str | None, typer.Option("--sort", metavar="ORDER", help="Sort rows by time, lost (time), busy, dram or read.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="Show N rows, or N launches.")
    ] = None,
    group: Annotated[
        bool | None, typer.Option("--group/--no-group", help="One row per kernel (default) or per launch.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    markdown: Annotated[Path | None, typer.Option("--markdown", metavar="FILE", help="Write a table.")] = None,
    sarif: Annotated[Path | None, typer.Option("--sarif", metavar="FILE", help="Write causes as SARIF 2.1.0.")] = None,
) -> None:
    """Show where the time of every launch went: the bubble account, its causes and their source
    lines. For recordings of `trace` and `streams`: a coarser account without counters, labelled as
    such. Exit code 3 if a file could not be read or nothing was found; other files are still
    reported.
    """
    from ncubble.cli.commands.report.view import View

    _refuse_contradictions(as_json, brief, as_csv, markdown, sarif)
    if by_rank:
        _by_rank(paths, as_json, {kernel, sort, limit, group, markdown, sarif, as_csv, brief, details, explain})
        return
    view = View(kernel, sort, limit, group is not False)
    write = _writers(view, markdown, sarif)
    traces, unread = _traces(paths, view)
    reports, result = _judged(paths, explain, bool(traces or unread))
    result.errors += unread
    if traces and not any(view.matches(verdict.kernel, verdict.label) for verdict in result.verdicts):
        result = replace(result, verdicts=[], explanations=[], ablations=[])
    write(result)
    if as_json:
        _emit(reports, view.first(view.chosen(result)), traces, brief)
    elif as_csv:
        _emit_csv(replace(view, group=bool(group)), result, traces)
    else:
        from ncubble.cli.commands.report.render import print_result

        print_result(result, details or explain, view, traces)
    if result.errors or not (result.verdicts or traces):
        raise typer.Exit(3)


def _traces(paths: list[Path], view: View) -> tuple[list[CoarseVerdict], list[Unread]]:
    """Accounts of recordings without counters selected by ``view``, and errors of the others."""
    if not any(path.is_dir() and next(path.rglob(LANES), None) for path in paths):
        return [], []
    from ncubble.analysis.details.coarse import CoarseVerdict, coarse_verdicts
    from ncubble.analysis.diagnosis.results import Unread

    found = list(coarse_verdicts(paths))
    known = [one for one in found if isinstance(one, CoarseVerdict)]
    unread = [Unread(str(one[0]), str(one[1])) for one in found if not isinstance(one, CoarseVerdict)]
    return [one for one in known if view.matches(one.kernel, one.label)][: view.limit], unread


def _refuse_contradictions(as_json: bool, brief: bool, as_csv: bool, markdown: Path | None, sarif: Path | None) -> None:
    if brief and not as_json:
        raise UsageError("--brief without --json", "add --json")
    if as_json and as_csv:
        raise UsageError("--json and --csv are both given", "omit one")
    if markdown is not None and sarif is not None and markdown.resolve() == sarif.resolve():
        raise UsageError(f"--markdown and --sarif name the same file, {markdown}", "name two")


def _brief(reports: list[Report], result: ReportResult) -> dict[str, Any]:
    """The brief of each launch, as in ``ncubble mcp``."""
    from ncubble.analysis.diagnosis.brief import brief
    from ncubble.cli.terminal import fitted

    of_report = {str(report.path): report for report in reports}
    judged = zip(result.verdicts, result.ablations, strict=True)
    found = [brief(of_report[one.report].launch(one.launch), one, own) for one, own in judged]
    errors = [error._asdict() for error in result.errors]
    return {
        "schema": 1,
        "launches": [fitted(one, "ncubble report --json shows all") for one in found],
        "errors": errors,
    }


def _writers(view: View, markdown: Path | None, sarif: Path | None) -> Callable[[ReportResult], None]:
    """Check that no foreign file is overwritten, before anything is read; returns a function that
    writes both."""
    if markdown is None and sarif is None:
        return lambda _: None
    from ncubble.analysis.gate.annotations import CheckoutFiles
    from ncubble.cli.commands.report.sarif import report_sarif
    from ncubble.cli.commands.report.tables import MARK, markdown_text
    from ncubble.cli.terminal import refuse_foreign, write_text
    from ncubble.text.markup import SARIF_MARK

    refuse_foreign(markdown, MARK)
    refuse_foreign(sarif, SARIF_MARK)

    def write(result: ReportResult) -> None:
        shown, rest = view.rows(view.chosen(result))
        if markdown is not None:
            write_text(markdown, markdown_text(shown, rest))
        if sarif is not None:
            files = CheckoutFiles.here()
            write_text(sarif, report_sarif(shown, lambda place: files.find(place.file or "", place.line or 0)))

    return write


def _emit(reports: list[Report], result: ReportResult, traces: list[CoarseVerdict], brief: bool) -> None:
    from ncubble.cli.terminal import emit_json

    found = _brief(reports, result) if brief else result.to_json()
    emit_json({**found, "traces": [trace.to_json() for trace in traces]})


def _emit_csv(view: View, result: ReportResult, traces: list[CoarseVerdict]) -> None:
    from ncubble.cli.commands.report.tables import csv_text

    typer.echo(csv_text(view.groups(view.chosen(result))[: view.limit]), nl=False)
    if traces:
        typer.echo(
            f"ncubble: {len(traces)} recordings without counters are not in the CSV; --json includes them", err=True
        )


def _by_rank(paths: list[Path], as_json: bool, others: set[object]) -> None:
    """Match the launches of all ranks; raises Exit if a file could not be read or no rank is known.
    ``others``: values of incompatible options."""
    if others - {None, False}:
        raise UsageError("--by-rank allows no other option but --json", "omit the other options")
    from ncubble.analysis.compare import ranks as by_rank
    from ncubble.cli.commands.report.ranks import print_ranks
    from ncubble.cli.terminal import emit_json

    reports, result = _judged(paths)
    ranks = by_rank.by_rank(*by_rank.place(reports, result))
    if as_json:
        emit_json(by_rank.as_json(ranks, result.errors))
    else:
        print_ranks(ranks, result.errors)
    if result.errors or not ranks.programs:
        raise typer.Exit(3)


def print_report(paths: list[Path]) -> int:
    """Print the accounts of all reports at ``paths`` for a person; return the number of launches."""
    from ncubble.cli.commands.report.render import print_result

    result = _judged(paths)[1]
    print_result(result)
    return len(result.verdicts)


def _judged(paths: list[Path], explained: bool = False, recorded: bool = False) -> tuple[list[Report], ReportResult]:
    """The reports at ``paths`` and their verdicts. Folders without a report are named on stderr,
    unless they contain other recordings (``recorded``)."""
    from ncubble.analysis.diagnosis.results import Unread, judge_all
    from ncubble.analysis.report.report import open_reports
    from ncubble.cli.terminal import reading
    from ncubble.profiling.runs import without_report

    with reading() as progress:
        reports, failures = open_reports(paths, progress, then=NEXT)
    result = judge_all(reports, failures, explained)
    if not result.verdicts and not result.errors and not recorded:
        result.errors.append(Unread(", ".join(map(str, paths)), str(without_report(paths))))
    return reports, result
