"""What the gate says of the measured regressions, beside what was expected of them before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path, PurePath
from statistics import fmean

from readme_tables import table
from regression_plan import NEAR, Regression
from regression_plan import Place as Expected

from ncubble.analysis.baseline import record
from ncubble.analysis.gate_account import Account, Place, gather, of_launch
from ncubble.analysis.gate_moves import Move, moves
from ncubble.analysis.gate_result import CheckOptions, KernelVerdict
from ncubble.analysis.regress import check
from ncubble.analysis.repeats import collect
from ncubble.analysis.report import Report, open_reports
from ncubble.errors import MeasurementError, NcubbleError

HEAD = ("regression", "kernel", "tensor % before → after", "cycles, %", "verdict", "grew most, points", "at line")
EXPECTED = ("expected part", "right")
SHOWN = 3


@dataclass(frozen=True)
class Side:
    """The mean over the launches of a run."""

    account: Account
    cycles: float


@dataclass(frozen=True)
class Judged:
    """One regression with the gate's verdict and what moved. ``part`` and ``line`` say whether the part that grew most,
    and the line where it did, were among those expected (``line`` None: the part has none)."""

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
            return "missed"
        if not self.part:
            return "no"
        return {True: "yes", False: "part only", None: "yes (no line)"}[self.line]


def judge(regression: Regression, base: Path, changed: Path) -> Judged:
    """Records a baseline from ``base`` and checks ``changed`` against it, as ``ncubble`` does.

    Raises:
        MeasurementError: a run is missing or damaged, or the launches are not repeats of one kernel.
    """
    (before, was), (after, now) = measured(base), measured(changed)
    baselines = record(collect(before)[0], datetime.now(UTC).isoformat(timespec="seconds"), min_repeats=2)
    result = check(collect(after)[0], baselines, CheckOptions())
    if len(result.kernels) != 1:
        raise MeasurementError(f"{regression.name}: {len(result.kernels)} kernels, not one", "measure it again")
    moved = moves(was.account, now.account, now.cycles / was.cycles)
    part = bool(moved) and moved[0].part in regression.parts
    files = {PurePath(name).name: text for report in after for name, text in report.files.items()}
    line = expected_at(moved[0].place, regression.where, files) if moved and moved[0].place else None
    return Judged(regression, result.kernels[0], was, now, moved, part, line)


@cache
def measured(path: Path) -> tuple[list[Report], Side]:
    """The reports of one run directory, and their mean; remembered, as several regressions share a base."""
    if not (path / "run.json").is_file():
        raise MeasurementError(f"{path}: no run", "measure it with `regressions.py run`")
    reports, failures = open_reports([path])
    if failures:
        raise failures[0].error
    return list(reports), side_of(reports)


def side_of(reports: Iterable[Report]) -> Side:
    """All launches of ``reports`` as one side; raises MeasurementError where there is none, or one has no account."""
    launches = [(report, int(launch)) for report in reports for launch in report.launches["launch"]]
    each = [of_launch(report, launch) for report, launch in launches]
    if without := next((where for where, one in zip(launches, each, strict=True) if one is None), None):
        raise MeasurementError(
            f"{without[0].path}: launch {without[1]} has no account", "profile with the default sets"
        )
    account = gather(each)
    if account is None:
        raise MeasurementError("nothing measured: no launch", "profile the kernel first")
    return Side(account, fmean(float(report.identity(launch)["cycles"]) for report, launch in launches))


def expected_at(place: Place, where: Iterable[Expected], files: dict[str, str]) -> bool:
    """Whether ``place`` lies within ``NEAR`` lines of one of ``where``, in the sources (by file name) of the report."""
    expected = [one for one in where if one.file == place.file]
    numbers = [number for one in expected for number in one.lines(files.get(one.file, ""))]
    return place.line is not None and any(abs(place.line - number) <= NEAR for number in numbers)


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


def markdown(out: Path, chosen: Iterable[Regression]) -> tuple[str, list[str]]:
    """The table of all ``chosen`` that were measured in ``out``, and in words what could not be judged."""
    rows, failures = [], []
    for regression in chosen:
        try:
            rows.append(row(judge(regression, out / regression.case / "base", out / regression.case / regression.name)))
        except NcubbleError as error:
            failures.append(f"{regression.name}: {error}")
    return table([*HEAD, *EXPECTED], rows), failures
