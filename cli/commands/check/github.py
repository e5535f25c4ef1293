"""``ncubble check --github``: annotations for the runner of GitHub Actions, and the job's summary."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ncubble.analysis.gate.accounts import Move
    from ncubble.analysis.gate.verdicts import GateResult

LARGEST_SUMMARY_B = 1_000_000
"""The runner refuses a summary beyond 1 MiB as a whole."""

MOST_FILES = 200_000
"""Files of a checkout that are looked through for a name."""
_LARGEST_SOURCE_B = 8_000_000
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
    from ncubble.analysis.gate.annotations import marks
    from ncubble.analysis.gate.output import markdown

    for line in marks(result, CheckoutFiles(checkout_root()).locate):
        typer.echo(line, err=json)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        _append(Path(summary), markdown(result))


class CheckoutFiles:
    """The files of a repository, in which the sources of reports are looked for."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def locate(self, move: Move) -> tuple[str, int]:
        """Path in the repository and line of a move; an empty path if it is not sure."""
        from ncubble.analysis.gate.annotations import stated, text_of

        return self.find(*stated(move), text_of(move))

    def find(self, file: str, line: int, text: str = "") -> tuple[str, int]:
        """Path in the repository and line of what a report names; an empty path if it is not sure.

        Reports mostly name the bare file. That is the file of the repository of which exactly one has the name, and
        which has the line's ``text`` where the report holds it.
        """
        from ncubble.analysis.gate.annotations import line_near, located

        if "/" in file or "\\" in file:
            end = located(file, lambda end: (self.root / end).is_file())
            real, root = (self.root / end).resolve(), self.root.resolve()
            # The longest end may lead over a link: a reader wants the file that git tracks.
            return real.relative_to(root).as_posix() if end and real.is_relative_to(root) else end, line
        same = [path for path in self._files if path.rpartition("/")[2] == file]
        if len(same) != 1:
            return "", 0
        nearest = line_near(self._lines(same[0]), line, text)
        return (same[0], nearest) if nearest else ("", 0)

    @cached_property
    def _files(self) -> tuple[str, ...]:
        """Paths of all files: those that git tracks, else those that lie there, hidden folders left out."""
        try:
            listed = subprocess.run(
                ["git", "ls-files", "-z"], cwd=self.root, capture_output=True, check=True, timeout=30
            ).stdout
        except (OSError, subprocess.SubprocessError):
            listed = b""
        if not listed:
            return tuple(islice(_walked(self.root), MOST_FILES))
        return tuple(dict.fromkeys(os.fsdecode(path) for path in listed.split(b"\0") if path))

    def _lines(self, path: str) -> list[str]:
        place = self.root / path
        try:
            if place.stat().st_size > _LARGEST_SOURCE_B:
                return []
            return place.read_text(encoding="utf-8", errors="replace").split("\n")
        except OSError:
            return []


def _walked(root: Path) -> Iterable[str]:
    for folder, inner, files in os.walk(root):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        yield from (Path(folder, name).relative_to(root).as_posix() for name in files)


def checkout_root() -> Path:
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
