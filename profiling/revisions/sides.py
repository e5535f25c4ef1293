"""Two trees that are compared: where each is, what runs there, and the order in which they take
turns."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling import processes
from ncubble.profiling.revisions.worktree import Checkout
from ncubble.profiling.subject import Place

CACHE = "NCUBBLE_CACHE"
_SEARCHED = ("PYTHONPATH", "LD_LIBRARY_PATH")
_LAST_LINES = 12


@dataclass(frozen=True)
class RevisionSide:
    """One of two trees: ``name`` (A or B), what it is in words, its root, and where its programs
    run."""

    name: str
    what: str
    root: Path
    place: Place

    @property
    def folder(self) -> Path:
        """The working directory of its programs."""
        return self.place.folder or self.root


def sides(checkout: Checkout, revision: str, sha: str, tree: Path, folder: Path) -> tuple[RevisionSide, RevisionSide]:
    """A, the revision that is checked out at ``tree``, and B, the user's working tree. ``folder``:
    relative, where programs run."""
    new = Place(
        checkout.root / folder, {}, {"sha": checkout.sha, "dirty": bool(checkout.changed or checkout.untracked)}
    )
    # What A compiles goes to a cache of its own: its paths are never seen again.
    env = {CACHE: str(tree.parent / "cache"), **_moved(checkout.root, tree)}
    old = Place(tree / folder, env, {"sha": sha, "dirty": False})
    return (
        RevisionSide("A", f"{revision} ({sha[:7]})", tree, old),
        RevisionSide("B", "the working tree", checkout.root, new),
    )


def _moved(root: Path, tree: Path) -> dict[str, str]:
    """Search paths of the environment, with folders of the user's tree replaced by the other's
    where it has them."""
    moved = {}
    for name in _SEARCHED:
        entries = os.environ.get(name, "").split(os.pathsep)
        changed = os.pathsep.join(_moved_entry(Path(entry), root, tree) if entry else entry for entry in entries)
        if changed != os.environ.get(name, ""):
            moved[name] = changed
    return moved


def _moved_entry(entry: Path, root: Path, tree: Path) -> str:
    if entry.is_absolute() and entry.is_relative_to(root) and (tree / entry.relative_to(root)).exists():
        return str(tree / entry.relative_to(root))
    return str(entry)


def in_turns(pair: Sequence[RevisionSide], rounds: int) -> Iterator[tuple[int, RevisionSide]]:
    """Round and side of every process: A B, B A, A B, … so that what drifts falls on both."""
    for number in range(rounds):
        for side in pair if number % 2 == 0 else reversed(pair):
            yield number + 1, side


def refuse_fixed_paths(root: Path, words: Sequence[str], option: str) -> None:
    """Raise UsageError where a word names the user's tree: both sides would then run what lies
    there."""
    named = re.compile(rf"(?<![\w./-]){re.escape(str(root))}(?![\w.-])")
    for word in words:
        if named.search(word) or (word.startswith(os.sep) and Path(word).resolve().is_relative_to(root)):
            raise UsageError(
                f"{option}: {word} is in the working tree, so both sides would use it",
                "use a path relative to the working directory; put the folder of an interpreter on PATH",
            )


def build(side: RevisionSide, command: str, on_text: Callable[[processes.Stream, str], None]) -> None:
    """Run ``command`` (split as a shell would, without one) in the folder of ``side``; raises
    MeasurementError if it fails, UsageError where it cannot be started."""
    argv = shlex.split(command)
    last: deque[str] = deque(maxlen=_LAST_LINES)

    def hear(stream: processes.Stream, text: str) -> None:
        last.extend(text.splitlines())
        on_text(stream, text)

    try:
        status = processes.stream(argv, {**os.environ, **side.place.env}, hear, folder=side.folder)
    except UsageError as error:
        remedy = "name a program; to use a shell, write sh -c '…'"
        raise UsageError(f"build: {command} cannot be started: {error.message}", remedy) from error
    if status:
        tail = "\n".join(f"    {line}" for line in last if line.strip())
        raise MeasurementError(
            f"build: {command} ended with exit code {status} in {side.what}; its last output:\n{tail}",
            "build that revision manually to see why",
        )


def require_program(side: RevisionSide, program: Sequence[str]) -> None:
    """Raise UsageError where the first word of ``program`` is no program in the folder of
    ``side``."""
    first = program[0] if program else ""
    there = side.folder / first if os.sep in first else Path(shutil.which(first) or "")
    if not first or not os.access(there, os.X_OK) or there.is_dir():
        raise UsageError(
            f"{side.what} has no program {first!r}", "if it must be built, set build; otherwise put it on PATH"
        )
