"""What a search says: the first bad candidates, the proof, and all that was judged."""

from __future__ import annotations

from dataclasses import dataclass, field

from ncubble.analysis.gate.bisect.judging import Aim, CandidateJudgement
from ncubble.analysis.gate.check.result import GateResult


@dataclass(frozen=True)
class Candidate:
    """A commit or a compiler: its full name (a hash, a version), what is shown for it; for a commit
    subject, author and author date, for a compiler its path."""

    name: str
    short: str
    subject: str = ""
    author: str = ""
    date: str = ""
    path: str = ""

    @property
    def words(self) -> str:
        """What is shown for it, with its subject."""
        return f"{self.short} {self.subject}".strip()


@dataclass(frozen=True)
class Judged:
    """A candidate with its judgement (``verdict`` also ``skipped``) after ``rounds`` processes of
    each side; 0 where none ran."""

    candidate: Candidate
    judgement: CandidateJudgement
    rounds: int = 0


@dataclass(frozen=True)
class BisectResult:
    """The answer of a search.

    ``kind``: commit or nvcc. ``gate``: the comparison that the answer rests on, of the culprit with
    its parent (``against`` is that) where this is ``confirmed``, else of BAD with GOOD. ``aim`` is
    None where BAD was not a regression; then nothing was searched. ``suspects``: the first bad one,
    or all that may be. ``confirmed`` is None where the step was not measured.
    """

    kind: str
    good: Candidate
    bad: Candidate
    number: int
    gate: GateResult
    aim: Aim | None = None
    against: Candidate | None = None
    suspects: tuple[Candidate, ...] = ()
    confirmed: bool | None = None
    step: CandidateJudgement | None = None
    judged: tuple[Judged, ...] = ()
    notes: tuple[str, ...] = ()
    folder: str = ""
    more: tuple[Aim, ...] = field(default=())

    @property
    def culprit(self) -> Candidate | None:
        """The one that is named; None where several cannot be told apart, or nothing regressed."""
        return self.suspects[0] if len(self.suspects) == 1 else None

    @property
    def verdict(self) -> str:
        """``named``, ``several`` (not told apart), ``no_regression`` or ``not_judged``."""
        if self.aim is not None:
            return "named" if self.culprit else "several"
        return "no_regression" if self.gate.exit_code == 0 else "not_judged"

    @property
    def exit_code(self) -> int:
        """1: a regression was proven, whether it could be named or not; else that of the gate."""
        return 1 if self.aim is not None else self.gate.exit_code
