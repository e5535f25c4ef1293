"""What an experiment is: a launch, and changes of it that each take causes of lost time away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Options = Mapping[str, Any]
Kind = Literal["remove", "less", "bytes"]
BASE = "base"


@dataclass(frozen=True)
class Change:
    """The base with other ``options``, perhaps of another ``program``; ``causes`` are those that it
    takes away.

    ``beyond``: causes that it takes away as well, whose share other changes show. ``cure``: what a
    user could do, so that its saving is the gain a prediction is held against. ``evidence`` False:
    it changes more than its causes, so that it counts as a cure only. ``swap``: it is meant to run
    another kernel. ``bytes``: the bytes that it moves, as a multiple of the base's (kind
    ``bytes``). ``against``: the change that it is compared with, in place of the base.
    """

    name: str
    causes: tuple[str, ...] = ()
    options: Options = field(default_factory=dict)
    kind: Kind = "remove"
    beyond: tuple[str, ...] = ()
    cure: bool = False
    evidence: bool = True
    swap: bool = False
    bytes: float = 1.0
    program: str = ""
    against: str = ""


@dataclass(frozen=True)
class Launch:
    """One launch of one program; ``name`` is unique: EXPERIMENT.CHANGE."""

    name: str
    program: str
    options: Options


@dataclass(frozen=True)
class Experiment:
    """A launch that nobody tuned against, and its changes. ``family``: the launches of one
    process."""

    name: str
    family: str
    program: str
    options: Options
    changes: tuple[Change, ...]

    @property
    def base(self) -> Launch:
        """The launch that is labelled."""
        return Launch(f"{self.name}.{BASE}", self.program, self.options)

    def changed(self) -> Iterator[tuple[Change, Launch]]:
        """Every change with its launch."""
        for change in self.changes:
            options = {**self.options, **change.options}
            yield change, Launch(f"{self.name}.{change.name}", change.program or self.program, options)
