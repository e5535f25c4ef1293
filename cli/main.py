"""The ``ncubble`` command: the table of all commands, and ``main``, which turns errors into messages
and exit codes.
"""

from __future__ import annotations

import sys
import traceback
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from itertools import pairwise
from types import ModuleType
from typing import Annotated, NoReturn

import typer

from ncubble import __version__
from ncubble.cli.command import Click, HouseCommand, HouseGroup, WithProgram
from ncubble.cli.terminal import drop_output, show_notes
from ncubble.errors import INTERRUPTED, NcubbleError, lacking

PIPE_CLOSED = 141
"""As in shells: 128 + SIGPIPE."""

UNEXPECTED = 3
"""An internal error: the request could not be measured."""

# To add, move or rename a command, change these tables and nothing else: a command's module is imported when the
# command is called or its own help is shown, never for `ncubble --help`. COMMANDS repeats the first sentence of the
# docstring; tests/unit/cli/test_command.py compares the two. PLACES needs no entry for a
# function that has the name of its command and of its module (cli/report.py: report).
COMMANDS = {
    "Read what was recorded": {
        "report": "Show where the time of every launch went, what to change, and the source lines.",
        "dashboard": "Serve the dashboard: a table of all launches, and a page with account and timeline for each.",
        "compare": (
            "Compare launches with those of the first path: account, utilization, time, resources, stall reasons."
        ),
        "export": "Export launches from the dashboard into one file that needs no server and no network.",
        "demo": "Show runs recorded on real GPUs: accounts and a tour in the terminal, then the dashboard.",
    },
    "Measure": {
        "doctor": "Show what this machine has and lacks, and how to get what is missing.",
        "profile": "Profile a catalog kernel, or any program after --, into a run directory.",
        "program": "Run a program twice, recorded and under ncu, and account for its time between and inside kernels.",
        "streams": "Record kernels and copies of a program with CUPTI: what overlaps, and why the SMs are idle.",
        "trace": (
            "Record what each warp does over time: loads, waits, computation, stores, with clocks "
            "written by the kernel itself."
        ),
        "ablate": (
            "Measure what waits, copies, barriers, shared loads and stores cost, by removing them from "
            "the machine code."
        ),
        "try": "Make all single changes of a kernel, time them in turns with it, and say which gain.",
    },
    "Kernels of the catalog and your own": {
        "kernels": "List the catalog's kernels: default shape, idea, and parameters with allowed values and defaults.",
        "verify": "Run a kernel on random inputs and compare it with the float64 reference.",
        "bench": (
            "Verify a kernel, then time it with CUDA events and compare with its roof and, with "
            "--library, with a library."
        ),
    },
    "Guard against regressions": {
        "check": "Compare launches with baselines, or with another revision.",
        "baseline": ("Record baselines from repeated launches: one readable JSON file per GPU model and kernel."),
        "trend": "Find lasting changes of a metric: when, at which commit, by how much, and with which confidence.",
    },
    "Many runs": {
        "sweep": "Profile a kernel at every point of a grid, and keep each run.",
        "ingest": (
            "Read all reports below DIR into one Parquet dataset; a second call reads only what is new or changed."
        ),
        "query": "Show rows of a dataset.",
    },
    "Other tools": {
        "mcp": "Answer an agent's questions about recorded launches (Model Context Protocol, on stdin and stdout)."
    },
}
"""The first sentence of the help of each command, in the order and below the headings of ``ncubble --help``."""
PLACES = {
    "demo": "dashboard:demo",
    "kernels": "kernels:list_kernels",
    "verify": "kernels:verify",
    "bench": "kernels:bench",
    "ingest": "datasets:ingest",
    "query": "datasets:query",
    "try": "trying:try_changes",
}
"""Functions below ``ncubble.cli``, where they are not ``NAME:NAME``."""
WITH_PROGRAM = ("profile", "program", "streams", "trace", "ablate", "try", "check")
"""Commands that take a program after ``--``."""


class Commands(HouseGroup):
    """The root command. Its commands are names with a sentence until one of them is called."""

    def __init__(self, **options: Click) -> None:
        super().__init__(**options)
        for panel, summaries in COMMANDS.items():
            for name, summary in summaries.items():
                self.commands[name] = HouseCommand(name=name, help=summary, rich_help_panel=panel)

    def resolve_command(self, ctx: Click, args: list[str]) -> Click:
        """The command that ``args`` call, with what is left for it."""
        if args and args[0] in self.commands:
            self.commands[args[0]] = loaded(args[0], getattr(self.commands[args[0]], "rich_help_panel", ""))
        return super().resolve_command(ctx, args)


def loaded(name: str, panel: str) -> Click:
    """The command of that name, with its options."""
    module, member = PLACES.get(name, f"{name}:{name}").split(":")
    home = import_module(f"ncubble.cli.{module}")
    alone = typer.Typer(add_completion=False)
    kind = getattr(home, "COMMAND", WithProgram if name in WITH_PROGRAM else HouseCommand)
    alone.command(name, cls=kind, rich_help_panel=panel)(getattr(home, member))
    alone.callback()(lambda: None)
    return typer.main.get_group(alone).commands[name]


app = typer.Typer(
    name="ncubble",
    cls=Commands,
    help="Find, explain and guard against pipeline bubbles in GPU kernels, on top of Nsight Compute.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


def command_line() -> Click:
    """The root command with all commands below it, each with its options."""
    whole: Click = typer.main.get_command(app)
    whole.commands = {name: loaded(name, panel) for panel, names in COMMANDS.items() for name in names}
    return whole


def main(argv: list[str] | None = None) -> None:
    """Entry point. The only place that prints an error and exits."""
    given = sys.argv[1:] if argv is None else argv
    own = given[: given.index("--") if "--" in given else len(given)]
    # As a path it would be the current directory; as an expression of nothing it leaves nothing out.
    if any(not word and before != "--without" for before, word in pairwise(["", *own])):
        typer.echo("ncubble: an argument is empty\n  remedy: check the calling script for an unset variable", err=True)
        sys.exit(2)
    show_notes()
    if not own or {"-h", "--help"}.intersection(own):
        _import_help()
    for stream in (sys.stdout, sys.stderr):  # file names need not be text, and terminals need not speak UTF-8
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            app(given)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except NcubbleError as error:
        _end(f"ncubble: {error}", error.exit_code)
    except BrokenPipeError:
        drop_output()
        sys.exit(PIPE_CLOSED)
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # the reader has seen enough; 1 would say "regression"
            sys.exit(PIPE_CLOSED)
        if isinstance(getattr(ended.__context__, "__cause__", None), KeyboardInterrupt):  # typer ends it without a word
            _end("ncubble: interrupted", INTERRUPTED)
        raise
    except KeyboardInterrupt:
        _end("ncubble: interrupted", INTERRUPTED)
    except Exception as error:  # Python's own 1 would say "regression"
        drop_output()
        if why := lacking(error):
            _end(f"ncubble: {why}", UNEXPECTED)
        with suppress(OSError):
            traceback.print_exc()
        _end("ncubble: unexpected error, please report it", UNEXPECTED)


def _import_help() -> None:
    """Import what writes help without Markdown and tracebacks of rich, of which no help here has any: a third of the
    time of ``ncubble --help``."""
    unused = [name for name in ("rich.markdown", "rich.traceback") if name not in sys.modules]
    for name in unused:
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name])["__getattr__"] = lambda _: object
    import_module("typer.rich_utils")
    for name in unused:
        del sys.modules[name]


def _end(text: str, code: int) -> NoReturn:
    """Say ``text`` on stderr, if that can be written, and exit."""
    with suppress(OSError):
        typer.echo(text, err=True)
    sys.exit(code)
