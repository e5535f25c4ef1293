"""Two revisions of a source tree, measured in turns (``ncubble check --against REV``): the other
one checked out beside the user's for a while, where programs of each run, and the order in which
they take turns. The user's checkout, index and stash are never written."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling import processes
from ncubble.profiling.scratch import abandoned, scratch
from ncubble.profiling.subject import Place

PREFIX = "ncubble-against-"
"""Prefix of the temporary folders in which revisions are checked out."""
_SETTINGS = ("--no-optional-locks", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
_LOCATION = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_NAMESPACE")
"""Variables set inside git hooks; with them git would use another index and tree than the named
ones."""
_GITLINK = "160000"
_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


class CheckoutError(MeasurementError):
    """This machine cannot check a revision out: no space, no folder, no git. It says nothing of the
    revision."""


@dataclass(frozen=True)
class Checkout:
    """The user's working tree: its root, its commit, the paths that differ from that, and those
    that git does not know (ignored ones left out)."""

    root: Path
    sha: str
    changed: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()

    def place_of(self, folder: Path) -> Path:
        """``folder`` relative to the root. Raises UsageError where it lies elsewhere."""
        try:
            return folder.resolve().relative_to(self.root)
        except ValueError as error:
            raise UsageError(f"{folder}: not in {self.root}", "name a folder of one repository") from error

    def resolve(self, revision: str) -> str:
        """The commit that ``revision`` names; raises UsageError with the remedy that fits the
        clone."""
        name = f"{revision}^{{commit}}"
        done = None if revision.startswith("-") or not revision else git(self.root, "rev-parse", "--verify", name)
        if done is not None and done.returncode == 0:
            return done.stdout.strip()
        message = f"--against {revision}: no such revision in {self.root}"
        if git_text(self.root, "rev-parse", "--is-shallow-repository") == "true":
            remedy = "this clone is shallow: `git fetch --unshallow` (in GitHub Actions: fetch-depth: 0)"
            raise UsageError(message, remedy)
        raise UsageError(message, "use a branch, tag or commit of this clone; `git fetch` gets those of a remote")

    def holds(self, sha: str, path: Path) -> bool:
        """Whether the commit ``sha`` has a file or folder at ``path``, relative to the root."""
        name = "" if path == Path() else path.as_posix()
        return git(self.root, "cat-file", "-e", f"{sha}:{name}").returncode == 0


def checkout_of(folder: Path) -> Checkout:
    """The working tree around ``folder``; raises UsageError where there is none, MeasurementError
    without git."""
    done = git(folder, "rev-parse", "--show-toplevel")
    root = done.stdout.rstrip("\n")
    if done.returncode or not root:
        why = last_words(done) or "no working tree"
        raise UsageError(
            f"{folder}: not in a git checkout ({why})",
            "run the command inside the checkout whose revisions are compared",
        )
    sha = git_text(Path(root), "rev-parse", "--verify", "--quiet", "HEAD")
    listed = git_text(Path(root), "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
    states = [(item[:2] == "??", item[3:]) for item in listed.split("\0") if item]
    changed, untracked = (tuple(name for new, name in states if new == wanted) for wanted in (False, True))
    return Checkout(Path(root), sha, changed, untracked)


@contextmanager
def worktree(checkout: Checkout, sha: str) -> Iterator[Path]:
    """A detached checkout of the commit ``sha`` in the folder for temporary files, gone when the
    block ends.

    Submodules that the user's tree has checked out are there, too, at the commits of ``sha``. What
    a killed process left is removed first. Raises UsageError where a submodule's clone lacks its
    commit, CheckoutError where git cannot write the files.
    """
    parent = Path(tempfile.gettempdir()).resolve()
    for left in abandoned(parent, PREFIX):
        _forget_all(left.work)
    with ExitStack() as stack:
        try:
            work = stack.enter_context(scratch(parent, PREFIX, {"tree": f"{checkout.root} at {sha}"}))
        except OSError as error:
            raise CheckoutError(
                f"{parent}: cannot create a folder there ({error.strerror})", "set TMPDIR to a writable folder"
            ) from error
        added: list[tuple[Path, Path]] = []
        try:
            _add(checkout.root, sha, work / "tree", added)
            yield work / "tree"
        finally:
            with _undisturbed():
                _remove(added)


def _add(repository: Path, sha: str, tree: Path, added: list[tuple[Path, Path]]) -> None:
    """Check ``sha`` out at ``tree`` with its submodules; notes what is to be removed before it is
    made."""
    added.append((repository, tree))
    done = git(repository, "worktree", "add", "--detach", "--quiet", str(tree), sha)
    if done.returncode:
        raise CheckoutError(
            f"git could not check {sha[:12]} of {repository} out into {tree}: {last_words(done)}",
            "set TMPDIR to a folder with space, or try `git worktree add` manually",
        )
    for path, commit in _submodules(tree):
        clone = repository / path
        if not (clone / ".git").exists():
            continue  # the user's tree lacks it, too
        if git(clone, "cat-file", "-e", f"{commit}^{{commit}}").returncode:
            raise UsageError(
                f"submodule {path} is at {commit[:12]} in {sha[:12]}, which its clone lacks", f"git -C {path} fetch"
            )
        _add(clone, commit, tree / path, added)


def _submodules(tree: Path) -> list[tuple[str, str]]:
    """Path and commit of every submodule of what is checked out at ``tree``."""
    rows = (row.partition("\t") for row in git_text(tree, "ls-tree", "-r", "-z", "HEAD").split("\0"))
    return [(path, facts.split()[2]) for facts, _, path in rows if facts.startswith(_GITLINK)]


def _remove(added: list[tuple[Path, Path]]) -> None:
    for repository, tree in reversed(added):
        done = git(repository, "worktree", "remove", "--force", "--force", str(tree))
        if done.returncode:
            _forget(tree / ".git")
            shutil.rmtree(tree, ignore_errors=True)


def _forget_all(work: Path) -> None:
    """Remove what repositories note of the worktrees below ``work``, before these are deleted."""
    for folder, names, files in os.walk(work):
        names[:] = [name for name in names if name != ".git"]
        if ".git" in files:
            _forget(Path(folder) / ".git")


def _forget(link: Path) -> None:
    """The same for one worktree, by its file ``.git``: only where the repository's note names this
    very file.

    ``git worktree prune`` would also drop the user's own worktrees on a disk that is not mounted
    now.
    """
    with suppress(OSError, UnicodeDecodeError):
        admin = Path(link.read_text(encoding="utf-8").removeprefix("gitdir:").strip())
        named = (admin / "gitdir").read_text(encoding="utf-8").strip()
        if admin.parent.name == "worktrees" and Path(named) == link:
            shutil.rmtree(admin)
            admin.parent.rmdir()  # git does the same after removing the last one


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals that end a program wait until the block is done; what it starts is not reached by
    them either."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What git says in ``folder``; raises MeasurementError where there is no git, UsageError where
    no such folder."""
    env = {name: value for name, value in os.environ.items() if name not in _LOCATION}
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder", "check the path")
    command = ["git", *_SETTINGS, "-C", str(folder), *arguments]
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            env=env,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except FileNotFoundError as error:
        raise CheckoutError("git was not found", "install git and put it on PATH") from error


def git_text(folder: Path, *arguments: str) -> str:
    """The same without what ends lines; empty where git fails."""
    done = git(folder, *arguments)
    return done.stdout.strip("\n") if done.returncode == 0 else ""


def last_words(done: subprocess.CompletedProcess[str]) -> str:
    """Why git failed, in its words."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return lines[0].removeprefix("fatal: ") if lines else ""


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
