"""Commands of the gate: ``ncubble baseline record|show`` and ``ncubble check``."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ncubble.cli.gate_options import Measuring, measurable
from ncubble.cli.profile import WithProgram
from ncubble.errors import GateError, MeasurementError, NcubbleError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from ncubble.analysis.baseline import Baseline
    from ncubble.analysis.gate_result import GateResult
    from ncubble.analysis.report import Report, ReportFailure
    from ncubble.cli.gate_now import Taken

STORE = Path("baselines")
HISTORY = Path("checks")
LEAST_WIDTH = 120
PIPED_WIDTH = 150

Paths = Annotated[list[Path], typer.Argument(help="Run directories, report files, or folders that hold them.")]
CheckedPaths = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[PATHS]...", help="Runs, reports or folders of them; with --profile or --against: kernels."
    ),
]
Kernel = Annotated[str, typer.Option("--kernel", metavar="REGEX", help="Only kernels whose name or label matches.")]
NoNvtx = Annotated[bool, typer.Option("--no-nvtx", help="Launches in different NVTX ranges are repeats of each other.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Thresholds = Annotated[
    list[str] | None,
    typer.Option(
        "--metric-threshold", metavar="NAME=PCT", help="Loss that must not pass: tensor_active_pct (1) or cycles (2)."
    ),
]


def register(app: typer.Typer) -> None:
    """Add this group's commands to ``app``."""
    baseline = typer.Typer(help="Record and show what kernels measured.", no_args_is_help=True)
    baseline.command("record")(record)
    baseline.command("show")(show)
    app.add_typer(baseline, name="baseline")
    app.command("check", cls=WithProgram)(measurable(check))


def record(
    paths: Paths,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of baselines, or one .json file.")] = STORE,
    force: Annotated[bool, typer.Option("--force", help="Replace baselines that exist.")] = False,
    min_repeats: Annotated[int, typer.Option(help="Launches needed of each kernel; below 5 the gate is weak.")] = 5,
    kernel: Kernel = "",
    no_nvtx: NoNvtx = False,
    json: Json = False,
) -> None:
    """Record baselines from repeated launches: one readable JSON file per GPU model and kernel."""
    from ncubble.analysis import baseline, baseline_file, repeats
    from ncubble.cli.render import emit_json

    reports, failures = _open(paths, kernel)
    if failures:
        listed = "\n  ".join(f"{failure.path}: {failure.error.message}" for failure in failures)
        raise MeasurementError(
            f"nothing recorded, {len(failures)} reports are unreadable:\n  {listed}", "leave them out"
        )
    groups, notes = repeats.collect(reports, nvtx=not no_nvtx, kernel=kernel)
    found = baseline.record(groups, datetime.now(UTC).isoformat(timespec="seconds"), min_repeats)
    places = _places(output, found)
    baseline_file.save(zip(places, found, strict=True), force=force)
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    rows: list[dict[str, Any]] = [
        {"path": str(place), "label": item.key.label, "repeats": item.repeats, "warnings": baseline.weaknesses(item)}
        for place, item in zip(places, found, strict=True)
    ]
    if json:
        emit_json({"schema": 1, "recorded": rows})
        return
    for row in rows:
        typer.echo(f"{row['label']} ({row['repeats']} repeats) -> {row['path']}")
        for warning in row["warnings"]:
            typer.echo(f"warning: {row['label']}: {warning}", err=True)


def _places(output: Path, found: list[Baseline]) -> list[Path]:
    if output.suffix != ".json":
        return [output / item.place for item in found]
    if len(found) != 1:
        raise UsageError(
            f"--output {output}: one file cannot hold {len(found)} baselines", "name a folder, or use --kernel"
        )
    return [output]


def show(
    path: Annotated[Path, typer.Argument(help="Folder of baselines, or one file.")] = STORE, json: Json = False
) -> None:
    """Show recorded baselines. Exit code 2: no such place, 3: it holds none, or an unusable one."""
    from ncubble.analysis.baseline_file import load_store
    from ncubble.cli.gate_render import print_baselines
    from ncubble.cli.render import emit_json

    baselines, errors = load_store(path)
    if json:
        rows = [{"path": str(item.path), **item.to_json()} for item in baselines]
        emit_json({"schema": 1, "baselines": rows, "errors": [str(error.message) for error in errors]})
    elif baselines:
        print_baselines(baselines, _console())
    for error in errors:
        typer.echo(f"ncubble: {error}", err=True)
    if errors:
        raise typer.Exit(3)
    if not baselines:
        raise MeasurementError(f"{path}: no baselines", "record one with `ncubble baseline record RUN…`")


def check(
    measuring: Measuring,
    paths: CheckedPaths = None,
    baseline: Annotated[
        Path, typer.Option("--baseline", help="Folder of baselines, or one file: then parameters may differ.")
    ] = STORE,
    metric_threshold: Thresholds = None,
    kernel: Kernel = "",
    require_all: Annotated[
        bool, typer.Option("--all", help="Every baseline of this GPU must have been measured.")
    ] = False,
    allow_new: Annotated[bool, typer.Option("--allow-new", help="Kernels without a baseline are no error.")] = False,
    no_nvtx: NoNvtx = False,
    json: Json = False,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML.")] = None,
    markdown: Annotated[Path | None, typer.Option("--markdown", metavar="FILE", help="Write a comment.")] = None,
    history: Annotated[
        Path | None, typer.Option("--history", metavar="DIR", help="Folder that keeps all results (else ./checks).")
    ] = None,
    no_history: Annotated[bool, typer.Option("--no-history", help="Keep no result.")] = False,
    github: Annotated[bool, typer.Option("--github", help="Annotate the job of GitHub Actions that this is.")] = False,
) -> None:
    """Compare launches with baselines, or with another revision. Exit code 0: passed, 1: regression, 3: not judged."""
    from ncubble.analysis import gate_output, repeats
    from ncubble.analysis.gate_limits import Limits, from_threshold
    from ncubble.analysis.gate_result import CheckOptions
    from ncubble.analysis.regress import check as judge
    from ncubble.cli.gate_github import annotate, quoted
    from ncubble.cli.gate_render import print_result
    from ncubble.cli.render import emit_json

    limits = Limits(tuple(from_threshold(text) for text in metric_threshold or []))
    options = CheckOptions(limits, baseline.is_dir(), require_all, allow_new)
    outputs = [
        (junit, gate_output.JUNIT_MARK, gate_output.junit),
        (markdown, gate_output.MARKDOWN_MARK, gate_output.markdown),
    ]
    if junit is not None and markdown is not None and junit.resolve() == markdown.resolve():
        raise UsageError(f"--junit and --markdown are one file, {junit}", "name two")
    _refuse_history(history, no_history)
    for file, mark, _ in outputs:
        _refuse_foreign(file, mark)
    taken, baselines, broken = _take(measuring, paths or [], kernel, not no_nvtx, baseline)
    reports, failures = _open(taken.paths, taken.kernel)
    errors = [(str(failure.path), failure.error.message) for failure in failures]
    errors += [*taken.errors, *((str(baseline), error.message) for error in broken)]
    groups, notes = repeats.collect(reports, nvtx=not no_nvtx, kernel=taken.kernel)
    result = taken.complete(judge(groups, baselines, taken.options(options), errors, [*taken.notes, *notes]))
    if json:
        emit_json(gate_output.as_json(result))
    else:
        with quoted(github):
            print_result(result, _console())
    if github:
        annotate(result, json)
    for file, _, text in outputs:
        if file is not None:
            _write(file, text(result), result.exit_code)
    if not no_history:
        _keep(result, taken.paths, history)
    raise typer.Exit(result.exit_code)


def _take(
    measuring: Measuring, paths: list[Path], kernel: str, nvtx: bool, store: Path
) -> tuple[Taken, list[Baseline], list[NcubbleError]]:
    """What is to be judged, measured first where that is asked for; with the baselines, and what is wrong with them."""
    from ncubble.analysis.baseline_file import load_store

    if measuring.against is not None:
        from ncubble.cli.gate_against import take_against

        taken = take_against(measuring, paths, kernel, nvtx)
        return taken, taken.baselines or [], []
    from ncubble.cli.gate_now import check_request, take

    check_request(measuring, paths)
    baselines, broken = load_store(store)
    taken = take(measuring, paths, kernel, baselines)
    return taken, baselines if taken.baselines is None else taken.baselines, broken


def _refuse_history(history: Path | None, no_history: bool) -> None:
    if history is not None and no_history:
        raise UsageError("--history and --no-history contradict each other", "give one of them")
    if history is not None and history.exists() and not history.is_dir():
        raise UsageError(f"--history {history}: not a folder", "name a folder, or one that does not exist yet")


def _keep(result: GateResult, paths: list[Path], history: Path | None) -> None:
    """Add the result to the history. Where the default folder cannot be written, that is said and changes no verdict;
    a folder that was asked for is an output like any other."""
    from ncubble import __version__
    from ncubble.analysis import gate_history, history_file
    from ncubble.profiling.provenance import git_state

    folder, sha = history or HISTORY, str(git_state(Path.cwd()).get("sha") or "")
    try:
        rows = gate_history.rows(result, gate_history.Occasion([str(path) for path in paths], sha, __version__))
        history_file.append(folder, rows)
    except OSError as error:
        if history is not None:
            raise _unwritten(folder, error, result.exit_code) from error
        typer.echo(f"note: {folder}: the result was not added to the history ({error})", err=True)


def _open(paths: list[Path], kernel: str) -> tuple[list[Report], list[ReportFailure]]:
    from rich.console import Console
    from rich.progress import Progress

    from ncubble.analysis.report import open_reports

    try:
        re.compile(kernel)
    except re.error as error:
        raise UsageError(
            f"--kernel {kernel!r}: not a regular expression ({error})", "escape special characters"
        ) from error
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading reports", total=None)
        return open_reports(paths, lambda done, total: progress.update(task, completed=done, total=total))


def _refuse_foreign(file: Path | None, mark: str) -> None:
    """An earlier output of this command may be replaced; anything else that exists may not."""
    if file is None or not file.exists():
        return
    try:
        head = file.read_bytes()[:400] if file.is_file() else b""
    except OSError as error:
        raise UsageError(f"{file}: exists and cannot be read ({error})", "choose another name") from error
    if not file.is_file() or (head and mark.encode() not in head):
        raise UsageError(f"{file}: exists and was not written by `ncubble check`", "choose another name")


def _write(file: Path, text: str, code: int) -> None:
    """Write an output. Where that fails, a regression (``code`` 1) still ends the command with 1."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritten(file, error, code) from error


def _unwritten(place: Path, error: OSError, code: int) -> GateError | MeasurementError:
    kind = GateError if code == GateError.exit_code else MeasurementError
    return kind(f"{place}: could not be written ({error})", "check the path and its permissions")


def _console() -> Console:
    """A console at least LEAST_WIDTH wide: a row that the terminal wraps once reads better than one letter a line."""
    from rich.console import Console

    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)
    return console if console.width >= LEAST_WIDTH else Console(highlight=False, width=LEAST_WIDTH)
