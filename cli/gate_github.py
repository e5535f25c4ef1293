"""``ncubble check --github``: annotations for the runner of GitHub Actions, and the job's summary."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ncubble.analysis.gate_result import GateResult

LARGEST_SUMMARY_B = 1_000_000
"""The runner refuses a summary beyond 1 MiB as a whole."""

_CUT = b"\n\n(cut: the summary of a step has room for 1 MiB)\n"


@contextmanager
def quoted(active: bool) -> Iterator[None]:
    """What is printed inside is text for the runner, never a command: a kernel's name may look like one."""
    if not active:
        yield
        return
    token = f"ncubble-{secrets.token_hex(8)}"
    typer.echo(f"::stop-commands::{token}")
    try:
        yield
    finally:
        typer.echo(f"::{token}::")


def annotate(result: GateResult, json: bool) -> None:
    """Print the annotations (beside ``json``, to stderr: the runner reads both) and append to the job's summary."""
    from ncubble.analysis.gate_annotations import located, marks
    from ncubble.analysis.gate_output import markdown

    root = _root()
    for line in marks(result, lambda file: located(file, lambda end: (root / end).is_file())):
        typer.echo(line, err=json)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        _append(Path(summary), markdown(result))


def _root() -> Path:
    """The checkout around the working directory, else the workspace of the job: GitHub's paths begin there."""
    here = Path.cwd()
    checkout = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), None)
    return checkout or Path(os.environ.get("GITHUB_WORKSPACE") or here)


def _append(file: Path, text: str) -> None:
    """Add ``text`` to the summary, cut to what it takes. Where it cannot be written, that changes no verdict."""
    try:
        room = LARGEST_SUMMARY_B - (file.stat().st_size if file.exists() else 0)
        whole = text.encode()
        if len(whole) > room:
            whole = whole[: max(room - len(_CUT), 0)].rpartition(b"\n")[0] + _CUT
        with file.open("ab") as stream:
            stream.write(whole)
    except OSError as error:
        typer.echo(f"note: {file}: the job's summary was not written ({error})", err=True)
