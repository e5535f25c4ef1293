"""Options and arguments shared by several commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer


def kernel_names(incomplete: str) -> list[str]:
    """Kernels of the shipped catalog that begin with ``incomplete``, for shell completion."""
    from ncubble.kernels.catalog.catalog import SPECS

    return sorted(spec.name for spec in SPECS if spec.name.startswith(incomplete))


Name = Annotated[
    str,
    typer.Argument(help="A catalog kernel (see: ncubble kernels).", show_default=False, autocompletion=kernel_names),
]
OptionalName = Annotated[
    str | None, typer.Argument(help="A catalog kernel (see: ncubble kernels).", autocompletion=kernel_names)
]
NameOrProgram = Annotated[
    str | None,
    typer.Argument(help="A catalog kernel; or -- CMD … for a program.", autocompletion=kernel_names),
]
Parameters = Annotated[
    list[str] | None, typer.Option("-p", metavar="KEY=VALUE", help="Parameter of the kernel, repeatable.")
]
Shape = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="KEY=VALUE", help="Size of the kernel, repeatable, or m=4096,n=4096 in one."),
]
Catalog = Annotated[
    Path | None,
    typer.Option("--catalog", metavar="DIR", help="Folder with kernels of your own; its Python files are executed."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def shape_text(shape: Sequence[str] | None) -> str:
    """The sizes of ``--shape`` as one text, ``m=4096,n=4096``; empty where none are given."""
    return ",".join(shape or ())
