"""The commits between two revisions, as ``git bisect`` goes through them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ncubble.errors import UsageError
from ncubble.profiling.revisions.worktree import Checkout, git, git_text, last_words

MOST = 20_000
"""Maximum commits of a search: ancestors are stored as the bits of one integer per commit."""
_FORMAT = "%H%n%P%n%an%n%aI%n%s"


@dataclass(frozen=True)
class Commit:
    """A commit: hash, hashes of its parents, author, author date (ISO 8601) and subject."""

    sha: str
    parents: tuple[str, ...]
    author: str
    date: str
    subject: str

    @property
    def short(self) -> str:
        """The first characters of its hash."""
        return self.sha[:12]


def commits_between(checkout: Checkout, good: str, bad: str, *, first_parent: bool = False) -> list[Commit]:
    """The commits that ``bad`` has and ``good`` has not (both hashes), no parent behind its child,
    ``bad`` the last. With ``first_parent`` merges are one step: what they brought in is left out,
    and each commit has one parent at most.

    Raises UsageError where ``good`` is not an ancestor of ``bad``, or there are too many.
    """
    if good == bad:
        raise UsageError(f"--bisect: both ends are commit {good[:12]}", "use an older GOOD, or a newer BAD")
    if git(checkout.root, "merge-base", "--is-ancestor", good, bad).returncode:
        base = git_text(checkout.root, "merge-base", good, bad)
        remedy = (
            (f"use an older commit as GOOD, such as the merge base {base[:12]}") if base else "use an ancestor as GOOD"
        )
        raise UsageError(f"--bisect: {good[:12]} is not an ancestor of {bad[:12]}", remedy)
    more = ["--first-parent"] if first_parent else []
    done = git(
        checkout.root, "log", "-z", "--topo-order", "--reverse", f"--format={_FORMAT}", *more, f"{good}..{bad}", "--"
    )
    if done.returncode:
        raise UsageError(f"--bisect: git cannot list {good[:12]}..{bad[:12]}: {last_words(done)}", "check the clone")
    commits = [_commit(item, first_parent) for item in done.stdout.split("\0") if item]
    if len(commits) > MOST:
        raise UsageError(
            f"--bisect: {len(commits)} commits, more than {MOST}", "use a more recent GOOD, or --first-parent"
        )
    return commits


def _commit(text: str, first_parent: bool) -> Commit:
    sha, parents, author, date, subject = text.split("\n", 4)
    hashes = tuple(parents.split())
    return Commit(sha, hashes[:1] if first_parent else hashes, author, date, subject.strip("\n"))


def parents_among(commits: Sequence[Commit]) -> dict[str, tuple[str, ...]]:
    """The parents of each commit that are among ``commits``, by hash."""
    there = {commit.sha for commit in commits}
    return {commit.sha: tuple(parent for parent in commit.parents if parent in there) for commit in commits}
