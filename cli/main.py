"""The ``ncubble`` command: registers all commands and turns errors into messages and exit codes.
Registered modules import nothing heavy at module level, so that ``--help`` is fast.
"""

from __future__ import annotations

import sys
import traceback
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from ncubble import __version__
from ncubble.cli.command import adopt, unfolded
from ncubble.cli.notes import show_notes
from ncubble.errors import NcubbleError

PIPE_CLOSED = 141
"""As in shells: 128 + SIGPIPE."""

UNEXPECTED = 3
"""An internal error: the request could not be measured."""

ALONE = {
    "report": "report.report:report",
    "compare": "compare.compare:compare",
    "advise": "advise.advise:advise",
    "query": "datasets.query:query",
    "dashboard": "show:dashboard",
}
"""Commands that are registered alone when called, and their functions below ``cli.commands``:
importing all commands and building their options takes longer than showing a cached report."""


PANELS = {
    "Read what was recorded": ("report", "dashboard", "compare", "advise", "export", "note", "demo"),
    "Measure": ("doctor", "profile", "program", "streams", "trace", "ablate"),
    "Kernels of the catalog and your own": ("kernels", "verify", "bench", "tune"),
    "Guard against regressions": ("check", "baseline", "trend"),
    "Many runs": ("sweep", "ingest", "query"),
    "Other tools": ("augment", "mcp", "skill"),
    "ncubble itself": ("validate",),
}
"""Headings of ``ncubble --help``, each with its commands, in their order."""


def _new_app(completion: bool = False) -> typer.Typer:
    return typer.Typer(
        name="ncubble",
        help="Find, explain and guard against pipeline bubbles in GPU kernels, on top of Nsight Compute.",
        no_args_is_help=True,
        add_completion=completion,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


app = _new_app(completion=True)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"ncubble {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options that stand before every command."""


@cache
def _register() -> None:
    """Add every command to ``app``, once."""
    from ncubble.cli.commands import note, profile, show
    from ncubble.cli.commands.ablate import ablate
    from ncubble.cli.commands.advise import advise
    from ncubble.cli.commands.augment import augment
    from ncubble.cli.commands.check import check as gate
    from ncubble.cli.commands.compare import compare
    from ncubble.cli.commands.datasets import ingest, query
    from ncubble.cli.commands.export import export
    from ncubble.cli.commands.kernels import kernels
    from ncubble.cli.commands.mcp import server, skill
    from ncubble.cli.commands.program import program
    from ncubble.cli.commands.report import report
    from ncubble.cli.commands.streams import streams
    from ncubble.cli.commands.sweep import sweep
    from ncubble.cli.commands.trace import trace
    from ncubble.cli.commands.trend import trend
    from ncubble.cli.commands.tune import tune
    from ncubble.cli.commands.validate import validate

    app.command("kernels")(kernels.list_kernels)
    app.command("verify")(kernels.verify)
    app.command("bench")(kernels.bench)
    app.command("tune")(tune.tune)
    app.command("profile", cls=profile.WithProgram)(profile.profile)
    app.command("doctor")(profile.doctor)
    app.command("report")(report.report)
    app.command("mcp")(server.mcp)
    app.command("skill")(skill.skill)
    app.command("ablate", cls=profile.WithProgram)(ablate.ablate)
    app.command("advise")(advise.advise)
    app.command("compare")(compare.compare)
    gate.register(app)
    app.command("trend")(trend.trend)
    app.add_typer(validate.app, name="validate")
    app.command("note")(note.note)
    app.command("dashboard")(show.dashboard)
    app.command("demo")(show.demo)
    app.command("export")(export.export)
    app.command("streams", cls=profile.WithProgram)(streams.streams)
    app.command("program", cls=profile.WithProgram)(program.program)
    app.command("sweep")(sweep.sweep)
    app.command("ingest")(ingest.ingest)
    app.command("query")(query.query)
    app.command("augment")(augment.augment)
    app.command("trace", cls=profile.WithProgram)(trace.trace)
    adopt(app)
    _group()


def _group() -> None:
    """Put commands in the order and under the headings of ``PANELS``."""
    panels = {name: panel for panel, those in PANELS.items() for name in those}
    order = list(panels)
    app.registered_commands.sort(key=lambda command: order.index(command.name or ""))
    for command in app.registered_commands:
        command.rich_help_panel = panels[command.name or ""]
    for group in app.registered_groups:
        group.rich_help_panel = panels[group.name or ""]


def _answering(given: list[str]) -> typer.Typer:
    """The app with the command of ``given`` only, if it is one of ``ALONE``, else with all
    commands."""
    place = ALONE.get(given[0]) if given and not app.registered_commands else None
    if place is None:
        _register()
        return app
    module, function = place.split(":")
    alone = _new_app()
    alone.callback()(root)
    alone.command(given[0])(getattr(import_module(f"ncubble.cli.commands.{module}"), function))
    adopt(alone)
    return alone


def command_line() -> Any:
    """The root command with all commands below it."""
    _register()
    return typer.main.get_command(app)


def main(argv: list[str] | None = None) -> None:
    """Entry point. The only place that prints an error and exits."""
    given = sys.argv[1:] if argv is None else argv
    if "" in given[: given.index("--") if "--" in given else len(given)]:  # as a path it would be the current directory
        typer.echo("ncubble: an argument is empty\n  remedy: check the calling script for an unset variable", err=True)
        sys.exit(2)
    show_notes()
    for stream in (sys.stdout, sys.stderr):  # file names need not be text, and terminals need not speak UTF-8
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        given = unfolded(given, lambda note: typer.echo(note, err=True))
        _answering(given)(given)
    except NcubbleError as error:
        typer.echo(f"ncubble: {error}", err=True)
        sys.exit(error.exit_code)
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # the reader has seen enough; 1 would say "regression"
            sys.exit(PIPE_CLOSED)
        raise
    except Exception:  # Python's own 1 would say "regression"
        traceback.print_exc()
        typer.echo("ncubble: unexpected error, please report it", err=True)
        sys.exit(UNEXPECTED)
