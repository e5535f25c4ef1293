"""``ncubble doctor``: lists what this machine lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.cli.command import Json
from ncubble.cli.terminal import emit_json

if TYPE_CHECKING:
    from ncubble.profiling.doctor import DoctorCheck

COMMANDS_WIDTH = 24
"""Width of the doctor's column of command names."""


def doctor(
    gpu: Annotated[
        bool, typer.Option("--gpu", help="Also require everything that profiling needs (exit 3 if missing).")
    ] = False,
    json: Json = False,
) -> None:
    """Show what this machine has and lacks, and how to get what is missing. Exit code 0, because
    recorded runs can be viewed anywhere; with --gpu, 3 if it cannot profile.
    """
    from ncubble.profiling.doctor import as_json, examine, require_profiling

    checks = examine()
    if json:
        emit_json(as_json(checks))
    else:
        _print_checks(checks)
    if gpu:
        require_profiling(checks)


def _print_checks(checks: list[DoctorCheck]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from ncubble.profiling.doctor import able, commands

    colors = {"ok": "green", "missing": "yellow", "wrong": "red"}
    table = Table("check", "status", "what", box=None, pad_edge=False)
    if packages := [check for check in checks if check.need == "view" and check.status == "ok"]:
        versions = ", ".join(f"{check.name} {check.detail}" for check in packages)
        table.add_row("to view runs", f"[{colors['ok']}]ok[/]", escape(versions))
    for check in checks:
        if check in packages:
            continue
        status = f"[{colors[check.status]}]{check.status}[/]"
        remedy = f"\n[dim]→ {escape(check.remedy)}[/]" if check.status != "ok" and check.remedy else ""
        table.add_row(check.name, status, escape(check.detail) + remedy)
    console = Console()
    console.print(table)
    for need, what in (
        ("view", "view recorded runs"),
        ("profile", "profile on this machine"),
        ("kernels", "build and run the catalog"),
        ("own", "build own kernels, CUDA C++ and Triton"),
        ("streams", "record streams of Python programs"),
        ("sweeps", "run sweeps"),
        ("agents", "answer agents"),
    ):
        answer = "[green]yes[/]" if able(checks, need) else "[yellow]no[/]"
        console.print(f"{what}: {answer}", highlight=False)
    reached = Table("command", "works", "how, or what it lacks", box=None, pad_edge=False)
    reached.columns[0].max_width = COMMANDS_WIDTH
    for row in commands(checks):
        color = {"yes": "green", "partly": "yellow", "no": "red"}[row.works]
        reached.add_row(", ".join(row.commands), f"[{color}]{row.works}[/]", escape(row.how))
    console.print()
    console.print(reached)
