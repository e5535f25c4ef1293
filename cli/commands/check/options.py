"""Options that ``ncubble check`` and ``ncubble baseline`` have in common, and their console."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 150

Kernel = Annotated[str, typer.Option("--kernel", metavar="REGEX", help="Only kernels whose name or label matches.")]
NoConfig = Annotated[bool, typer.Option("--no-config", help="Ignore the settings in pyproject.toml or ncubble.toml.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--setting", metavar="KEY=VALUE", help="One of [tool.ncubble.gate], for this call (docs/gate.md)."),
]


def console() -> Console:
    """A console as wide as the terminal, or as COLUMNS says, else PIPED_WIDTH."""
    from rich.console import Console

    piped = None if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit() else PIPED_WIDTH
    return Console(highlight=False, width=piped)
