"""``ncubble validate``: holds account, diagnosis and prediction against what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ncubble.errors import UsageError

if TYPE_CHECKING:
    from ncubble.analysis.validation.tables import Table

Folder = Annotated[Path | None, typer.Argument(help="Folder of recordings (else those that ncubble ships).")]
Measure = Annotated[bool, typer.Option("--measure", help="Measure anew on this machine's GPU, into FOLDER.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(app: typer.Typer) -> None:
    """Add this group's commands to ``app``."""
    group = typer.Typer(help="Hold what ncubble says against what was measured.", no_args_is_help=True)
    group.command("account")(account)
    app.add_typer(group, name="validate")


def account(folder: Folder = None, measure: Measure = False, as_json: Json = False) -> None:
    """Score the bubble account against kernels that were built without one part of their work.

    Exit code 3 where nothing could be scored or measured. A missed target is no error: the table says so.
    """
    from ncubble.analysis.validation.account_score import score_account
    from ncubble.analysis.validation.account_tables import account_notes, account_tables

    place = _place("account", folder, measure)
    if measure:
        from ncubble.cli.measuring import measure_account

        measure_account(place)
    result = score_account(place)
    _show(result, account_tables(result), account_notes(result), as_json)


def _place(name: str, folder: Path | None, measure: bool) -> Path:
    from ncubble.recordings import VALIDATION

    if measure and folder is None:
        raise UsageError("--measure: no folder to measure into", f"ncubble validate {name} FOLDER --measure")
    return VALIDATION / name if folder is None else folder


def _show(result: dict[str, Any], tables: list[Table], notes: list[str], as_json: bool) -> None:
    from ncubble.cli.render import emit_json
    from ncubble.cli.validate_render import print_tables

    if as_json:
        emit_json(result)
    else:
        print_tables(tables, notes)
