"""What the gate says of the measured regressions, beside what was expected of them before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from benchmarks.readme_tables import table
from benchmarks.regressions.kept import read, repeats_of
from benchmarks.regressions.plan import NEAR, Regression
from ncubble.analysis.gate.accounts import Account, CodePlace, Move, moves
from ncubble.analysis.gate.baseline import Baseline
from ncubble.analysis.gate.check import check
from ncubble.analysis.gate.verdicts import CheckOptions, KernelVerdict
from ncubble.errors import MeasurementError, NcubbleError

HEAD = ("regression", "kernel", "tensor % before → after", "cycles, %", "verdict", "grew most, points", "at line")
EXPECTED = ("expected part", "right")
SHOWN = 3


@dataclass(frozen=True)
class Side:
    """The account of a run, and the mean of its cycles."""

    account: Account
    cycles: float


@dataclass(frozen=True)
class Judged:
    """One regression with the gate's verdict and what moved. ``part`` and ``line`` say whether the
    part that grew most, and the line where it did, were among those expected (``line`` None: the
    part has none)."""

    regression: Regression
    verdict: KernelVerdict
    before: Side
    after: Side
    moved: tuple[Move, ...]
    part: bool
    line: bool | None

    @property
    def right(self) -> str:
        """In words, for the table."""
        if self.verdict.verdict != "regressed":
            return "no loss" if self.after.cycles <= self.before.cycles else "missed"
        if not self.part:
            return "no"
        return {True: "yes", False: "part only", None: "yes (no line)"}[self.line]


def judge(regression: Regression, folder: Path) -> Judged:
    """Checks what was changed against a baseline of what was not, as ``ncubble`` does, by runs or
    kept files.

    Raises:
        MeasurementError: a run is missing or damaged, or has no account.
    """
    before, after, lines = read(regression, folder)
    result = check([repeats_of(after)], [before], CheckOptions())
    was, now = side_of(before), side_of(after)
    moved = moves(was.account, now.account, now.cycles / was.cycles)
    part = bool(moved) and moved[0].part in regression.parts
    line = expected_at(moved[0].place, lines) if moved and moved[0].place else None
    return Judged(regression, result.kernels[0], was, now, moved, part, line)


def side_of(baseline: Baseline) -> Side:
    """One side; raises MeasurementError where it has no account."""
    if baseline.account is None:
        raise MeasurementError(f"{baseline.key.label}: no account", "profile with the default sets")
    return Side(baseline.account, fmean(baseline.metrics["cycles"].measured))


def expected_at(place: CodePlace, lines: Mapping[str, Iterable[int]]) -> bool:
    """Whether ``place`` lies within ``NEAR`` lines of one of ``lines``, numbers by file."""
    return place.line is not None and any(abs(place.line - number) <= NEAR for number in lines.get(place.file, ()))


def row(judged: Judged) -> list[str]:
    """One row of the table."""
    regression, moved = judged.regression, judged.moved
    tensor = [side.account.means.get("tensor_busy", 0.0) for side in (judged.before, judged.after)]
    change = 100.0 * (judged.after.cycles / judged.before.cycles - 1.0)
    parts = ", ".join(f"`{one.part}` {one.points:+.1f}" for one in moved[:SHOWN] if one.points >= 0.05)
    place = moved[0].place if moved else None
    at = f"{place.file}:{place.line} ({place.pct:+.1f}) `{_cell(place.text)}`" if place else "–"
    return [
        regression.name,
        " ".join([regression.kernel, *(text for text in regression.arguments[1:] if "=" in text)]),
        " → ".join(f"{pct:.1f}" for pct in tensor) if max(tensor) > 1.0 else "no MMA",
        f"{change:+.1f}",
        judged.verdict.verdict + (f": {judged.verdict.reason}" if judged.verdict.verdict not in _PLAIN else ""),
        parts or "nothing",
        at,
        " or ".join(f"`{part}`" for part in regression.parts),
        judged.right,
    ]


_PLAIN = ("pass", "improved", "regressed")


def _cell(text: str) -> str:
    """Source text within a cell of a Markdown table."""
    return text[:60].replace("|", "\\|").replace("`", "'")


def markdown(folder: Path, chosen: Iterable[Regression]) -> tuple[str, list[str]]:
    """The table of all ``chosen`` that were measured in ``folder``, and in words what could not be
    judged."""
    rows, failures = [], []
    for regression in chosen:
        try:
            rows.append(row(judge(regression, folder)))
        except NcubbleError as error:
            failures.append(f"{regression.name}: {error}")
    return table([*HEAD, *EXPECTED], rows), failures
