"""A search under way: what is measured how, what was proven, and what was judged so far."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import typer

from ncubble.analysis.gate.bisect.judging import Aim
from ncubble.analysis.gate.bisect.result import Judged
from ncubble.cli.commands.check.bisect.journal import SearchJournal
from ncubble.cli.commands.check.bisect.measuring import PairResult, ReadySide, SideBench
from ncubble.cli.commands.check.bisect.ranges import Range
from ncubble.text.markup import printable


@dataclass
class Hunt:
    """A search under way."""

    bench: SideBench
    range: Range
    journal: SearchJournal
    good: ReadySide
    proof: PairResult | None = None
    aim: Aim | None = None
    bad_launch: ReadySide | None = None
    judged: list[Judged] = field(default_factory=list)

    @property
    def bad(self) -> str:
        """The name of BAD."""
        return self.range.candidates.order[-1]

    def place(self, name: str) -> Path:
        """Where the runs of a candidate against GOOD lie."""
        return self.journal.folder / re.sub(r"[^A-Za-z0-9._-]+", "-", name[:12])


def progress(text: str) -> None:
    """Says on stderr what is done now. Subjects of commits and output of builds must not steer the terminal."""
    typer.echo(printable(text), err=True)


def steps_of(bench: SideBench) -> Iterator[int]:
    """Numbers of rounds: the first, then more by as many, up to the most."""
    rounds = bench.rounds
    while rounds < bench.most:
        yield rounds
        rounds += bench.rounds
    yield bench.most
