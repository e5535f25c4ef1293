"""Commands of the gate: ``ncubble check``, and those of ``baselines``."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ncubble.cli.command import WithProgram
from ncubble.cli.commands.check.baselines import STORE, AllowSuspicious, Json, Kernel, NoConfig, NoNvtx
from ncubble.cli.commands.check.io import console, unwritten, write
from ncubble.cli.commands.check.io import open_all as _open
from ncubble.cli.commands.check.options import Measuring, measurable
from ncubble.cli.terminal import refuse_foreign
from ncubble.errors import GateError, MeasurementError, NcubbleError, UsageError
from ncubble.profiling.runs import require_paths

if TYPE_CHECKING:
    from ncubble.analysis.gate.baseline import Baseline
    from ncubble.analysis.gate.verdicts import CheckOptions, GateResult
    from ncubble.cli.commands.check.now import CheckInputs

    Output = tuple[Path | None, str, Callable[[GateResult], str]]

HISTORY = Path("checks")
BISECT_EXIT = "--bisect-exit"
SKIP, ABORT = 125, 128
"""Exit codes that ``git bisect run`` reads as: this commit cannot be judged, and stop here. Any other from 1 to 127
means to it that the commit is bad."""

CheckedPaths = Annotated[
    list[Path] | None,
    typer.Argument(metavar="PATH…", help="Runs, reports or folders of them; where it measures: kernels."),
]
Rules = Annotated[
    list[str] | None,
    typer.Option("--rule", metavar="RULE", help="'cycles 2%', 'tensor_elapsed_pct >= 50', 'data_wait +2' …"),
]


class CheckCommand(WithProgram):
    """``check``; with ``--bisect-exit``, 125 stands for what was not judged, and 128 ends the search: for a wrong
    request, and a machine that cannot measure."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> Any:
        """The context of ``args``; an option that there is not must not be taken for a bad commit."""
        given = args[: args.index("--")] if "--" in args else args
        with _read_by_git() if BISECT_EXIT in given else nullcontext():
            return super().make_context(info_name, args, *more, **extra)

    def invoke(self, ctx: Any) -> Any:
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
    measuring: Measuring,
    paths: CheckedPaths = None,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", help="Folder of baselines (else ./baselines), or one file: parameters may differ."),
    ] = None,
    rule: Rules = None,
    kernel: Kernel = "",
    require_all: Annotated[
        bool, typer.Option("--all", help="Require a measurement for every baseline of this GPU.")
    ] = False,
    allow_new: Annotated[bool, typer.Option("--allow-new", help="Accept kernels without a baseline.")] = False,
    same_gpu: Annotated[
        bool, typer.Option("--same-gpu", help="Take reports that do not name their GPU as from the baseline's.")
    ] = False,
    allow_suspicious: AllowSuspicious = False,
    no_nvtx: NoNvtx = False,
    no_config: NoConfig = False,
    json: Json = False,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML.")] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write a Markdown summary for a merge request.")
    ] = None,
    sarif: Annotated[Path | None, typer.Option("--sarif", metavar="FILE", help="Write SARIF 2.1.0.")] = None,
    history: Annotated[
        Path | None, typer.Option("--history", metavar="DIR", help="Folder that keeps all results (else ./checks).")
    ] = None,
    no_history: Annotated[bool, typer.Option("--no-history", help="Keep no result.")] = False,
    github: Annotated[bool, typer.Option("--github", help="Annotate this GitHub Actions job.")] = False,
    bisect_exit: Annotated[
        bool, typer.Option(BISECT_EXIT, help="Exit as `git bisect run` expects: 125 to skip what was not judged.")
    ] = False,
) -> None:
    """Compare launches with baselines, or with another revision. Exit code 0: passed, 1: regression, 3: not judged."""
    from ncubble.analysis.gate.rules import parse_all
    from ncubble.analysis.gate.settings import GateSettings, load
    from ncubble.analysis.gate.verdicts import CheckOptions

    outputs = _outputs(junit, markdown, sarif)
    _refuse_history(history, no_history)
    config = GateSettings() if no_config else load(Path.cwd())
    store = baseline or config.baselines or STORE
    limits = config.rules.plus(parse_all(rule or []))
    options = CheckOptions(limits, store.is_dir(), require_all, allow_new, same_gpu, kernel, allow_suspicious)
    unneeded = allow_new and baseline is None and not store.exists()  # absolute limits may be all there is
    taken, baselines, broken = _take(measuring, paths or [], options, not no_nvtx, None if unneeded else store)
    result = _checked(
        taken, baselines, options, [(str(store), f"{error.message} ({error.remedy})") for error in broken], not no_nvtx
    )
    _show(result, json, github)
    for file, _, text in outputs:
        if file is not None:
            write(file, text(result), result.exit_code)
    if not no_history and (config.keep_history or history is not None):
        _keep(result, taken.paths, history, config.history)
    raise typer.Exit(result.exit_code)


command, COMMAND = measurable(check), CheckCommand


def _outputs(junit: Path | None, markdown: Path | None, sarif: Path | None) -> list[Output]:
    from ncubble.analysis.gate import output as gate_output
    from ncubble.analysis.gate.annotations import sarif as sarif_text
    from ncubble.cli.commands.check.github import CheckoutFiles, checkout_root
    from ncubble.text.markup import SARIF_MARK

    files = [file.resolve() for file in (junit, markdown, sarif) if file is not None]
    if len(set(files)) < len(files):
        raise UsageError("--junit, --markdown and --sarif name one file twice", "name another for each")
    outputs: list[Output] = [
        (junit, gate_output.JUNIT_MARK, gate_output.junit),
        (markdown, gate_output.MARKDOWN_MARK, gate_output.markdown),
        (sarif, SARIF_MARK, lambda result: sarif_text(result, CheckoutFiles(checkout_root()).locate)),
    ]
    for file, mark, _ in outputs:
        refuse_foreign(file, mark)
    return outputs


def _checked(
    taken: CheckInputs, baselines: list[Baseline], options: CheckOptions, errors: list[tuple[str, str]], nvtx: bool
) -> GateResult:

    from ncubble.analysis.gate.check import judge_reports

    reports, failures = _open(taken.paths, taken.kernel)
    result = judge_reports(
        reports,
        failures,
        baselines,
        taken.options(options),
        errors=[*taken.errors, *errors],
        notes=taken.notes,
        judged=bool(taken.judged),
        nvtx=nvtx,
    )
    return taken.complete(result)


def _show(result: GateResult, json: bool, github: bool) -> None:
    from ncubble.analysis.gate.output import as_json
    from ncubble.cli.commands.check.github import annotate, quoted
    from ncubble.cli.commands.check.render import print_result
    from ncubble.cli.terminal import emit_json

    if json:
        emit_json(as_json(result))
    else:
        with quoted(github):
            print_result(result, console())
    if github:
        annotate(result, json)


def _take(
    measuring: Measuring, paths: list[Path], options: CheckOptions, nvtx: bool, store: Path | None
) -> tuple[CheckInputs, list[Baseline], list[NcubbleError]]:
    """What is to be judged, measured first where that is asked for; with the baselines, and what is wrong with them."""
    from ncubble.analysis.gate.baseline_file import load_store

    if measuring.against is not None:
        from ncubble.cli.commands.check.against import take_against

        taken = take_against(measuring, paths, options, nvtx)
        return taken, taken.baselines or [], []
    from ncubble.cli.commands.check.now import check_request, take

    check_request(measuring, paths)
    if measuring.reads and store and not store.exists():  # a path that does not exist comes first
        require_paths(paths)
    baselines, broken = load_store(store) if store else ([], [])
    taken = take(measuring, paths, options.kernel, baselines)
    return taken, baselines if taken.baselines is None else taken.baselines, broken


def _refuse_history(history: Path | None, no_history: bool) -> None:
    if history is not None and no_history:
        raise UsageError("--history and --no-history contradict each other", "give one of them")
    if history is not None and history.exists() and not history.is_dir():
        raise UsageError(f"--history {history}: not a folder", "name a folder, or one that does not exist yet")


def _keep(result: GateResult, paths: list[Path], history: Path | None, usual: Path | None) -> None:
    """Add the result to the history. Where the default folder cannot be written, that is said and changes no verdict;
    a folder that was asked for is an output like any other."""
    from ncubble.analysis.gate.history import keep

    folder = history or usual or HISTORY
    new = not folder.exists()
    try:
        keep(folder, result, [str(path) for path in paths], Path.cwd())
    except OSError as error:
        if history is not None:
            raise unwritten(folder, error, result.exit_code) from error
        typer.echo(f"note: {folder}: the result was not added to the history ({error})", err=True)
    except MeasurementError as error:
        if history is not None:
            kind = GateError if result.exit_code == GateError.exit_code else MeasurementError
            raise kind(error.message, error.remedy) from error
        typer.echo(f"note: {error}", err=True)
    else:
        if new:
            typer.echo(f"note: results are kept in {folder}, which git ignores (--no-history keeps none)", err=True)
