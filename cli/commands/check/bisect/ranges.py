"""What a search goes through: commits of a repository, each in a worktree, or installed compilers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ncubble.analysis.gate.bisect.result import Candidate
from ncubble.analysis.gate.bisect.search import Candidates
from ncubble.errors import UsageError
from ncubble.profiling.revisions.commits import Commit, commits_between, parents_among
from ncubble.profiling.revisions.sides import RevisionSide, side_of
from ncubble.profiling.revisions.worktree import Checkout, checkout_of, worktree
from ncubble.profiling.subject import Place

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ncubble.cli.commands.check.options import Measuring
    from ncubble.kernels.build.compilers import NvccRelease

_RANGE = re.compile(r"(?P<good>.+?)\.\.(?P<bad>.*)")
_WRONG = "write GOOD..BAD with two revisions, or nvcc:12.8..13.0 with two versions"


class Range(Protocol):
    """What is searched: its kind (commit, nvcc), both ends, the candidates with their graph, and how one
    is made ready to run."""

    @property
    def kind(self) -> str:
        """commit or nvcc."""

    @property
    def good(self) -> Candidate:
        """The end that all are compared with; it is no candidate."""

    @property
    def candidates(self) -> Candidates:
        """The candidates with their graph, BAD the last."""

    def candidate(self, name: str) -> Candidate:
        """What is known of a candidate, or of a commit's parent beyond the range."""

    def parent(self, name: str) -> str | None:
        """What a candidate is compared with in the end; None where there is nothing before it."""

    def opened(self, name: str, letter: str) -> AbstractContextManager[RevisionSide]:
        """A side, A or B, in which ``name`` is checked out or is the compiler. Raises UsageError where it
        lacks what is to be measured."""

    def notes(self) -> Iterator[str]:
        """What is searched, and how."""


@dataclass(frozen=True)
class CommitRange:
    """The commits that BAD has and GOOD has not. ``place``: relative, where programs run."""

    checkout: Checkout
    place: Path
    good: Candidate
    candidates: Candidates
    commits: dict[str, Commit]
    first_parent: bool
    kind: str = "commit"

    @classmethod
    def of(cls, measuring: Measuring, good: str, bad: str) -> CommitRange:
        """Raises UsageError where either is no revision, or they are none of one line."""
        checkout = checkout_of(measuring.catalog or Path.cwd())
        ends = [checkout.resolve(name or "HEAD", "--bisect") for name in (good, bad)]
        place = _place(measuring, checkout)
        for name, sha in zip((good, bad or "HEAD"), ends, strict=True):
            if not checkout.holds(sha, place):
                raise UsageError(f"{place} is not in {name} ({sha[:12]})", "name revisions that have it")
        commits = commits_between(checkout, *ends, first_parent=measuring.first_parent)
        candidates = Candidates(tuple(commit.sha for commit in commits), parents_among(commits))
        named = Candidate(ends[0], ends[0][:12], f"({good})" if not ends[0].startswith(good) else "")
        known = {commit.sha: commit for commit in commits}
        return cls(checkout, place, named, candidates, known, measuring.first_parent)

    def candidate(self, name: str) -> Candidate:
        """See ``Range``."""
        commit = self.commits.get(name)
        if commit is None:
            return self.good if name == self.good.name else Candidate(name, name[:12])
        return Candidate(name, commit.short, commit.subject, commit.author, commit.date)

    def parent(self, name: str) -> str | None:
        """The first parent, also where it lies beyond the range."""
        return next(iter(self.commits[name].parents), None)

    @contextmanager
    def opened(self, name: str, letter: str) -> Iterator[RevisionSide]:
        """A worktree of the commit."""
        with worktree(self.checkout, name) as tree:
            if not self.checkout.holds(name, self.place):
                raise UsageError(f"{self.place} is not in {name[:12]}", "skip it")
            yield side_of(self.checkout, (letter, name[:12]), name, tree, self.place)

    def notes(self) -> Iterator[str]:
        """How commits are walked, and what is left out."""
        how = "first parents only" if self.first_parent else "all commits, as `git bisect` does"
        yield f"searched: {len(self.candidates.order)} commits after {self.good.words}, {how}"
        if self.checkout.changed or self.checkout.untracked:
            yield "uncommitted changes of the working tree take no part"


def _place(measuring: Measuring, checkout: Checkout) -> Path:
    if measuring.catalog is not None:
        return checkout.place_of(measuring.catalog)
    if measuring.program is not None:
        return checkout.place_of(Path.cwd())
    if not any((checkout.root / "kernels" / name).is_dir() for name in ("catalog", "specs")):  # specs: until 0.1
        raise UsageError(
            f"{checkout.root}: no checkout of ncubble, so there is no other revision of its kernels",
            "name the folder of your own kernels by --catalog DIR, or a program after --",
        )
    return Path()


@dataclass(frozen=True)
class CompilerRange:
    """Versions of nvcc. Kernels of the catalog are built in place; a program in a worktree of HEAD for
    each version."""

    measuring: Measuring
    releases: dict[str, NvccRelease]
    good: Candidate
    candidates: Candidates
    checkout: Checkout | None = None
    kind: str = "nvcc"

    @classmethod
    def of(cls, measuring: Measuring, name: str, good: str, bad: str) -> CompilerRange:
        """Raises UsageError where an end is not installed, a program has no --build, or the kernel ``name``
        is none of nvcc's."""
        from ncubble.kernels.build.compilers import releases, releases_between
        from ncubble.kernels.catalog.registry import find_spec

        if measuring.first_parent:
            raise UsageError("--first-parent is for commits", "leave it out")
        if measuring.program is not None and not measuring.build:
            raise UsageError("each compiler must build the program", "say how: --build CMD; NVCC names the compiler")
        if name and find_spec(name, measuring.catalog).language != "cuda":
            raise UsageError(f"{name} is not compiled by nvcc", "search for a CUDA C++ kernel, or among commits")
        between = releases_between(releases(measuring.nvcc), good, bad)
        known = {release.text: release for release in between}
        names = list(known)
        checkout = checkout_of(Path.cwd()) if measuring.program is not None else None
        return cls(measuring, known, Candidate(names[0], f"nvcc {names[0]}"), Candidates.in_a_row(names[1:]), checkout)

    def candidate(self, name: str) -> Candidate:
        """See ``Range``."""
        return Candidate(name, f"nvcc {name}", path=str(self.releases[name].nvcc))

    def parent(self, name: str) -> str | None:
        """The version before it."""
        names = list(self.releases)
        return names[names.index(name) - 1]

    @contextmanager
    def opened(self, name: str, letter: str) -> Iterator[RevisionSide]:
        """The catalog as it lies there, or a worktree, with the environment of the compiler."""
        env = self.releases[name].environment(os.environ)
        what = f"nvcc {name}"
        if self.checkout is None:
            folder = self.measuring.catalog.resolve() if self.measuring.catalog is not None else None
            yield RevisionSide(letter, what, None, Place(folder, env))
            return
        with worktree(self.checkout, self.checkout.sha) as tree:
            place = self.checkout.place_of(Path.cwd())
            side = side_of(self.checkout, (letter, what), self.checkout.sha, tree, place)
            merged = {**side.place.env, **env}
            yield RevisionSide(letter, what, tree, Place(side.place.folder, merged, side.place.git))

    def notes(self) -> Iterator[str]:
        """The versions, and what is left out."""
        yield f"searched: nvcc {', '.join(self.candidates.order)} after {self.good.name}"
        if self.checkout is not None and (self.checkout.changed or self.checkout.untracked):
            yield f"built is the commit {self.checkout.sha[:12]}: uncommitted changes take no part"


def range_of(measuring: Measuring, name: str) -> Range:
    """The range of ``--bisect``; ``name`` is the kernel of the catalog, empty for a program. Raises
    UsageError where it is none."""
    from ncubble.kernels.build.compilers import PREFIX

    text = measuring.bisect or ""
    compilers = text.startswith(PREFIX)
    match = _RANGE.fullmatch(text.removeprefix(PREFIX) if compilers else text)
    if match is None or match["bad"].startswith(".") or (compilers and not match["bad"]):
        raise UsageError(f"--bisect {text}: no range", _WRONG)
    if compilers:
        return CompilerRange.of(measuring, name, match["good"], match["bad"])
    if measuring.nvcc:
        raise UsageError("--nvcc is for a range of compilers", "write --bisect nvcc:12.8..13.0")
    return CommitRange.of(measuring, match["good"], match["bad"])
