"""``ncubble validate``: scores account, diagnosis and prediction against measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncubble.errors import UsageError

Folder = Annotated[Path | None, typer.Argument(help="Folder of recordings (default: those of this checkout).")]
Measure = Annotated[bool, typer.Option("--measure", help="Measure again on this machine's GPU, into FOLDER.")]
Write = Annotated[
    Path | None,
    typer.Option("--write", metavar="DIR", help="Update the page in DIR (docs/validation): JSON, tables and plots."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


app = typer.Typer(help="Score ncubble's verdicts against measurements.", no_args_is_help=True)


@app.command()
def account(folder: Folder = None, measure: Measure = False, write: Write = None, as_json: Json = False) -> None:
    """Score the bubble account against kernels that were built without one part of their work.

    Exit code 3 if nothing could be scored or measured. A missed target is not an error; the table
    shows it.
    """
    _validate("account", folder, measure, write, as_json)


@app.command()
def diagnosis(folder: Folder = None, measure: Measure = False, write: Write = None, as_json: Json = False) -> None:
    """Score causes and gains against planted diseases, and against launches labelled by experiment.

    Exit code 3 if nothing could be scored or measured. A missed target is not an error; the table
    shows it.
    """
    _validate("diagnosis", folder, measure, write, as_json)


@app.command()
def prediction(folder: Folder = None, measure: Measure = False, write: Write = None, as_json: Json = False) -> None:
    """Score predictions of other depths, written before those depths were measured.

    Exit code 3 if nothing could be scored or measured. A missed target is not an error; the table
    shows it.
    """
    _validate("prediction", folder, measure, write, as_json)


@app.command()
def truth(
    folder: Folder = None,
    frozen: Annotated[
        bool,
        typer.Option(
            "--frozen", help="Score the frozen launches, which must not be used for tuning; each use is logged."
        ),
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Score the launches that were drawn last; each use is logged.")
    ] = False,
    write: Write = None,
    as_json: Json = False,
) -> None:
    """Score account, first cause, gain and depth against parts that were removed from the machine code.

    Exit code 3 if nothing could be scored. Frozen and fresh launches are only scored from a clean
    checkout, and each scoring is logged in scorings.jsonl.
    """
    if frozen and fresh:
        raise UsageError("--frozen and --fresh are different parts of the store", "score them one at a time")
    if frozen or fresh:
        from ncubble.analysis.validation.truth.store import LAST_DRAWN
        from ncubble.cli.commands.validate.truth import log_scoring

        log_scoring(_place("truth", folder), "frozen" if frozen else LAST_DRAWN, as_json)
    else:
        _validate("truth", folder, False, write, as_json)


def _validate(name: str, folder: Path | None, measure: bool, write: Path | None, as_json: bool) -> None:
    from ncubble.analysis.account.parts import part_color
    from ncubble.analysis.validation import page, plots
    from ncubble.analysis.validation.validations import VALIDATIONS
    from ncubble.cli.commands.validate.render import print_tables
    from ncubble.cli.terminal import emit_json

    if measure and folder is None:
        raise UsageError("--measure needs a folder", f"ncubble validate {name} FOLDER --measure")
    place = _place(name, folder)
    if measure:
        _measure(name, place)
    validation = VALIDATIONS[name]
    result = validation.score(place)
    tables, notes = validation.tables(result), validation.notes(result)
    if as_json:
        emit_json(result)
    else:
        print_tables(tables, notes)
    if write is not None:
        figures = validation.plots(result, part_color)
        page.write(write, result, page.blocks(result, tables, notes))
        plots.save(figures, write)


def _place(name: str, folder: Path | None) -> Path:
    from ncubble.recordings import VALIDATION

    place = VALIDATION / name if folder is None else folder
    if folder is None and not place.is_dir():
        raise UsageError(
            "the recordings are part of the repository, not of the package",
            f"clone the repository, then: ncubble validate {name} CHECKOUT/recordings/validation/{name}",
        )
    return place


def _measure(name: str, folder: Path) -> None:
    import importlib

    importlib.import_module(f"ncubble.cli.commands.validate.{name}").measure(folder)
