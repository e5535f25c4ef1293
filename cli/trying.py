"""``ncubble try``: makes all single changes of a kernel, times them, and says which gain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.analysis.account.occupancy_limits import kib
from ncubble.cli.command import PROGRAM, Catalog, Force, Json, Out, Parameters, Timeout, Without
from ncubble.cli.terminal import emit_json, printable, recording
from ncubble.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ncubble.analysis.changes.tried import Built, Tried, TriedChange, TriedRound
    from ncubble.api.trying import TriedRun


def try_changes(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(help="A kernel of the catalog or your own; or -- CMD …")] = None,
    parameters: Parameters = None,
    catalog: Catalog = None,
    kernel: Annotated[str, typer.Option(metavar="REGEX", help="Only kernels whose name matches.")] = "",
    skip: Annotated[int, typer.Option(min=0, help="Matching launches to skip first.")] = 0,
    without: Without = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=V,V…", help="Values of {NAME} in --build and the program; the first is the base."),
    ] = None,
    build: Annotated[
        str, typer.Option(metavar="CMD", help="Builds a variant: {NAME} and {OUT}, its folder, are replaced; no shell.")
    ] = "",
    repeat: Annotated[
        bool, typer.Option("--repeat", help="Let the best change become the base, until none gains: elites.json.")
    ] = False,
    budget: Annotated[float, typer.Option(metavar="S", min=1, help="Begin nothing new after S seconds.")] = 120.0,
    out: Out = None,
    force: Force = False,
    timeout: Timeout = None,
    as_json: Json = False,
) -> None:
    """Make all single changes of a kernel, time them in turns with it, and say which gain.

    Of a program, the Triton launch that --kernel and --skip select is launched again with other
    stages, warps, tiles and orders, on copies of its tensors; the program's own results stay as they
    are. Any other program is built and run again for each value of --vary. Kernels of the catalog and
    your own are tried with their parameters. Changes are compiled before anything is timed; what spills
    more than the base, does not fit, or gives other results is said and not timed.
    """
    from ncubble.api.trying import try_changes as make

    program = ctx.meta[PROGRAM]
    if (name is None) == (program is None):
        raise UsageError("name a catalog kernel, or a program after --", "see `ncubble try -h`")
    if program is not None and (parameters or catalog):
        raise UsageError("-p and --catalog are for catalog kernels", "pass options after --")
    with recording() as observer:
        tried = make(
            program if program is not None else str(name),
            parameters=parameters or [],
            catalog=catalog,
            kernel=kernel,
            skip=skip,
            without=without,
            vary=vary or [],
            build=build,
            repeat=repeat,
            budget_s=budget,
            out=out,
            force=force,
            timeout_s=timeout,
            observer=observer,
        )
    if as_json:
        emit_json(tried.to_json())
    else:
        _print(tried)


def _print(run: TriedRun) -> None:
    from rich.console import Console

    out = Console(highlight=False)
    print_tried(out, run.tried, run)
    typer.echo(f"  run: {run.path} ({run.tried.seconds:.0f} s)", err=True)


def print_tried(out: Console, tried: Tried, run: TriedRun | None = None) -> None:
    """All rounds: the base, and its changes, those that gain most first."""
    from rich.text import Text

    out.print(Text(printable(tried.kernel), style="bold").append(f"  {tried.device}", style="dim not bold"))
    for number, made in enumerate(tried.rounds):
        settings = " ".join(f"{key}={value}" for key, value in made.settings.items())
        clock = f" at {made.sm_mhz} MHz" if made.sm_mhz else ""
        words = f"base: {printable(settings)} · {made.us:.2f} µs{clock}{_built(made.built)}"
        out.print(Text(words, style="dim"))
        out.print(_changes(made, tried, run if number == 0 else None))
        for text in _untimed(made):
            out.print(Text(f"not timed: {printable(text)}", style="dim"))
    out.print(Text(_conclusion(tried)))
    for note in tried.notes:
        out.print(Text(f"note: {printable(note)}", style="yellow"))


def _built(built: Built) -> str:
    parts = [
        f"{built.registers} registers" if built.registers is not None else "",
        f"{built.spilled_B:,} B spilled" if built.spilled_B else "",
        f"{kib(built.shared_B)} of shared memory" if built.shared_B else "",
    ]
    return "".join(f" · {part}" for part in parts if part)


def _changes(made: TriedRound, tried: Tried, run: TriedRun | None) -> Table:
    """One row for each change that was timed."""
    from rich.table import Table
    from rich.text import Text

    from ncubble.analysis.changes.tried import NOT_COMPARED, OK

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("change", no_wrap=True)
    for name in ("gain %", "±", *(["predicted %"] if run and run.predicted else []), "regs", "spilled", "shared"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("results", no_wrap=True)
    timed = [change for change in made.changes if change.outcome == OK]
    for change in sorted(timed, key=lambda change: -(change.gain_pct or 0.0)):
        predicted = run.predicted_of(change) if run else None
        cells = [f"{change.gain_pct:+.1f}", f"{((change.high or 0.0) - (change.low or 0.0)) / 2:.1f}"]
        if run and run.predicted:
            cells.append("" if predicted is None else f"{predicted.gain_pct:+.1f}" if predicted.known else "?")
        built = change.built
        cells += [_number(built.registers), _number(built.spilled_B), kib(built.shared_B) if built.shared_B else ""]
        equal = _equal(change) if tried.compared != NOT_COMPARED else NOT_COMPARED
        style = "bold" if change is made.best else "" if change.gains else "dim"
        table.add_row(Text(f"{change.name} {change.before} → {change.after}"), *cells, equal, style=style)
    return table


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _equal(change: TriedChange) -> str:
    if change.difference is None:
        return "verified"
    return "equal" if change.difference == 0 else f"off by {change.difference:.1g}"


def _untimed(made: TriedRound) -> list[str]:
    """A line for each reason, with the changes that it holds for."""
    from ncubble.analysis.changes.tried import OK

    reasons: dict[str, list[str]] = {}
    for change in made.changes:
        if change.outcome != OK:
            reasons.setdefault(f"{change.outcome}: {change.why}", []).append(f"{change.name}={change.after}")
    return [f"{', '.join(changes)} ({why})" for why, changes in reasons.items()]


def _conclusion(tried: Tried) -> str:
    from ncubble.analysis.changes.tried import LEFT, NOT_COMPARED

    compared = "results " + (NOT_COMPARED if tried.compared == NOT_COMPARED else f"compared with {tried.compared}")
    if len(tried.rounds) > 1:
        gained, settings = tried.elites[0]
        best = " ".join(f"{key}={value}" for key, value in settings.items())
        saved = f"{gained:.1f} % of the base's time saved in {len(tried.rounds)} rounds"
        return f"best: {best}, {saved}; {compared}; {tried.stopped}"
    best_one = tried.base.best
    if best_one is None and any(change.outcome == LEFT for change in tried.base.changes):
        return f"no change that was timed gains; {compared}; {tried.stopped}"
    if best_one is None:
        return f"no change gains: this configuration is as good as it gets; {compared}; {tried.stopped}"
    saved = f"{best_one.gain_pct:.1f} % of the time saved"
    return f"best: {best_one.name}={best_one.after}, {saved}; {compared}; {tried.stopped}"
