"""``ncubble check``: options to a request, its result to outputs."""

from __future__ import annotations

import os
import secrets
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.cli.command import (
    PROGRAM,
    Click,
    Json,
    Kernel,
    NoConfig,
    Parameters,
    Settings,
    WithProgram,
)
from ncubble.cli.terminal import console, drop_output, emit_json, recording, refuse_foreign
from ncubble.errors import GateError, MeasurementError, UsageError, lacking

if TYPE_CHECKING:
    from ncubble.api.checking import CheckResult

HISTORY = Path("checks")
BISECT_EXIT = "--bisect-exit"
SKIP, ABORT = 125, 128
"""Exit codes that ``git bisect run`` reads as: this commit cannot be judged, and stop here. Any other from 1 to 127
means to it that the commit is bad."""
LARGEST_SUMMARY_B = 1_000_000
"""The runner of GitHub refuses the summary of a job beyond 1 MiB as a whole."""
_CUT = b"\n\n(cut: the summary of a step has room for 1 MiB)\n"


class CheckCommand(WithProgram):
    """``check``; with ``--bisect-exit``, 125 stands for what was not judged, and 128 ends the search: for a wrong
    request, and a machine that cannot measure."""

    def make_context(self, info_name: str | None, args: list[str], *more: Click, **extra: Click) -> Click:
        """The context of ``args``; an option that there is not must not be taken for a bad commit."""
        given = args[: args.index("--")] if "--" in args else args
        with _read_by_git() if BISECT_EXIT in given else nullcontext():
            return super().make_context(info_name, args, *more, **extra)

    def invoke(self, ctx: Click) -> Click:
        """Run the command."""
        with _read_by_git() if ctx.params["bisect_exit"] else nullcontext():
            return super().invoke(ctx)


@contextmanager
def _read_by_git() -> Iterator[None]:
    """Exit codes of the block as ``git bisect run`` reads them."""
    try:
        yield
    except typer.Exit as ended:
        raise typer.Exit(SKIP if ended.exit_code == MeasurementError.exit_code else ended.exit_code) from None
    except Exception as error:
        if not hasattr(error, "exit_code"):  # unexpected: Python's own 1 would say "bad"
            traceback.print_exc()
            raise typer.Exit(ABORT) from None
        error.exit_code = SKIP if getattr(error, "of_subject", False) else ABORT
        raise


def check(
    ctx: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH…", help="Runs, reports or folders of them; where it measures: kernels."),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", help="Folder of baselines (else ./baselines), or one file: parameters may differ."),
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option("--rule", metavar="RULE", help="'cycles 2%', 'tensor_elapsed_pct >= 50', 'data_wait +2' …"),
    ] = None,
    kernel: Kernel = "",
    every: Annotated[
        bool, typer.Option("--all", help="Every baseline of this GPU: require a measurement; with --profile, measure.")
    ] = False,
    allow_new: Annotated[bool, typer.Option("--allow-new", help="Accept kernels without a baseline.")] = False,
    profile: Annotated[bool, typer.Option("--profile", help="PATHS are kernels of the catalog: measure them.")] = False,
    parameters: Parameters = None,
    against: Annotated[
        str | None, typer.Option("--against", metavar="REV", help="Measure the working tree and REV, in turns.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for the runs (else a new one in ./runs).")
    ] = None,
    setting: Settings = None,
    no_config: NoConfig = False,
    json: Json = False,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML.")] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write a Markdown summary for a merge request.")
    ] = None,
    sarif: Annotated[Path | None, typer.Option("--sarif", metavar="FILE", help="Write SARIF 2.1.0.")] = None,
    github: Annotated[bool, typer.Option("--github", help="Annotate this GitHub Actions job.")] = False,
    history: Annotated[
        Path | None, typer.Option("--history", metavar="DIR", help="Folder that keeps all results (else ./checks).")
    ] = None,
    no_history: Annotated[bool, typer.Option("--no-history", help="Keep no result.")] = False,
    bisect_exit: Annotated[
        bool, typer.Option(BISECT_EXIT, help="Exit as `git bisect run` expects: 125 to skip what was not judged.")
    ] = False,
) -> None:
    """Compare launches with baselines, or with another revision. Exit code 0: passed, 1: regression, 3: not judged."""
    from ncubble.analysis.gate.settings import chosen
    from ncubble.api.checking import checked
    from ncubble.api.measuring import CheckRequest

    files = {"to_junit": junit, "to_markdown": markdown, "to_sarif": sarif}
    _refuse(files, history, no_history)
    settings = chosen(Path.cwd(), setting or [], config=not no_config).with_rules(rule or [])
    program = ctx.meta[PROGRAM]
    request = CheckRequest(
        tuple(paths or ()),
        settings,
        baseline,
        kernel,
        every,
        allow_new,
        profile,
        None if program is None else tuple(program),
        against or "",
        tuple(parameters or ()),
        out,
    )
    with recording() as observer:
        found = checked(request, observer)
    unshown = _unshown(found, json, github)
    for form, file in files.items():
        if file is not None:
            _write(file, getattr(found, form)(), found.exit_code)
    if not no_history and (settings.keep_history or history is not None):
        _keep(found, history, settings.history or HISTORY)
    if unshown is not None:
        raise _unwritten(Path("standard output"), unshown, found.exit_code)
    raise typer.Exit(found.exit_code)


COMMAND = CheckCommand


def _refuse(files: dict[str, Path | None], history: Path | None, no_history: bool) -> None:
    """Raise UsageError for outputs that contradict each other, or would replace what no check wrote."""
    from ncubble.analysis.gate.output import JUNIT_MARK, MARKDOWN_MARK
    from ncubble.text.markup import SARIF_MARK

    given = [file.resolve() for file in files.values() if file is not None]
    if len(set(given)) < len(given):
        raise UsageError("--junit, --markdown and --sarif name one file twice", "name another for each")
    for file, mark in zip(files.values(), (JUNIT_MARK, MARKDOWN_MARK, SARIF_MARK), strict=True):
        refuse_foreign(file, mark)
    if history is not None and no_history:
        raise UsageError("--history and --no-history contradict each other", "give one of them")
    if history is not None and history.exists() and not history.is_dir():
        raise UsageError(f"--history {history}: not a folder", "name a folder, or one that does not exist yet")


def _unshown(found: CheckResult, json: bool, github: bool) -> OSError | None:
    """Show the result; what kept that from being written, such as a full disk, must not hide the verdict."""
    try:
        _show(found, json, github)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_output()
        return error
    return None


def _show(found: CheckResult, json: bool, github: bool) -> None:
    from ncubble.cli.gate import print_result

    if json:
        emit_json(found.to_json())
    else:
        with quoted(github):
            print_result(found.result, console())
    if github:
        annotate(found, json)


def annotate(found: CheckResult, json: bool) -> None:
    """Print annotations for GitHub (beside ``json``, to stderr: the runner reads both), and append to the job's
    summary."""
    from ncubble.analysis.gate.annotations import CheckoutFiles, marks

    for line in marks(found.result, CheckoutFiles.here().locate):
        typer.echo(line, err=json)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        _append(Path(summary), found.to_markdown())


@contextmanager
def quoted(active: bool) -> Iterator[None]:
    """What is printed inside is text for the runner of GitHub, never a command: a kernel's name may look like one."""
    token = f"ncubble-{secrets.token_hex(8)}"
    if active:
        typer.echo(f"::stop-commands::{token}")
    try:
        yield
    finally:
        if active:
            typer.echo(f"::{token}::")


def _append(file: Path, text: str) -> None:
    """Add ``text`` to the summary, cut to what it takes. Where it cannot be written, that changes no verdict."""
    try:
        room = LARGEST_SUMMARY_B - (file.stat().st_size if file.exists() else 0)
        whole = text.encode()
        if len(whole) > room:
            whole = whole[: max(room - len(_CUT), 0)].rpartition(b"\n")[0] + _CUT
        with file.open("ab") as stream:
            stream.write(whole)
    except OSError as error:
        typer.echo(f"note: {file}: the job's summary was not written ({error})", err=True)


def _write(file: Path, text: str, code: int) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritten(file, error, code) from error


def _unwritten(place: Path, error: OSError, code: int) -> GateError | MeasurementError:
    """The error to raise where ``place`` cannot be written; a regression (``code`` 1) stays one."""
    kind = GateError if code == GateError.exit_code else MeasurementError
    remedy = "free disk space, or write elsewhere" if lacking(error) else "check the path and its permissions"
    return kind(f"{place}: could not be written ({error})", remedy)


def _keep(found: CheckResult, named: Path | None, usual: Path) -> None:
    """Add the result to the history. Where the default folder cannot be written, that is said and changes no verdict;
    a folder that was asked for is an output like any other."""
    folder = named or usual
    new = not folder.exists()
    try:
        found.keep(folder)
    except OSError as error:
        if named is not None:
            raise _unwritten(folder, error, found.exit_code) from error
        typer.echo(f"note: {folder}: the result was not added to the history ({error})", err=True)
    except MeasurementError as error:
        if named is not None:
            kind = GateError if found.exit_code == GateError.exit_code else MeasurementError
            raise kind(error.message, error.remedy) from error
        typer.echo(f"note: {error}", err=True)
    else:
        if new:
            typer.echo(f"note: results are kept in {folder}, which git ignores (--no-history keeps none)", err=True)
