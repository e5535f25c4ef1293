"""``ncubble skill``: instructions for agents, as a file."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from ncubble.cli.terminal import refuse_foreign, write_text

MARK = "name: ncubble"


def skill(
    install: Annotated[
        Path | None, typer.Option("--install", metavar="DIR", help="Write DIR/ncubble/SKILL.md instead of printing it.")
    ] = None,
) -> None:
    """Print or install instructions for agents: which question to ask when."""
    text = files("ncubble.cli.commands.mcp").joinpath("SKILL.md").read_text(encoding="utf-8")
    if install is None:
        typer.echo(text, nl=False)
        return
    file = install / "ncubble" / "SKILL.md"
    refuse_foreign(file, MARK)
    write_text(file, text)
    typer.echo(f"written: {file}")
