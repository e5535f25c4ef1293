"""What the gate says of the measured regressions, beside what was expected of them before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path, PurePath

from readme_tables import table
from regression_moves import Line, Moves, Side, moves, side_of
from regression_plan import NEAR, Place, Regression

from ncubble.analysis.baseline import record
from ncubble.analysis.gate_result import CheckOptions, KernelVerdict
from ncubble.analysis.regress import check
from ncubble.analysis.repeats import collect
from ncubble.analysis.report import Report, open_reports
from ncubble.errors import MeasurementError, NcubbleError

HEAD = ("regression", "kernel", "tensor % before → after", "cycles, %", "verdict", "grew most, points", "at line")
EXPECTED = ("expected part", "right")
SHOWN = 3


@dataclass(frozen=True)
class Judged:
    """One regression with the gate's verdict and what moved. ``part`` and ``line`` say whether the part that grew most,
    and the line where it did, were among those expected (``line`` None: the part has none)."""

    regression: Regression
    verdict: KernelVerdict
    before: Side
    after: Side
    moved: Moves
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
    moved = moves(was, now)
    part = bool(moved.parts) and moved.parts[0][0] in regression.parts
    files = {PurePath(name).name: text for report in after for name, text in report.files.items()}
    line = expected_at(moved.line, regression.where, files) if moved.line else None
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


def expected_at(line: Line, where: Iterable[Place], files: dict[str, str]) -> bool:
    """Whether ``line`` lies within ``NEAR`` lines of one of ``where``, in the sources (by file name) of the report."""
    places = [place for place in where if place.file == line.file]
    numbers = [number for place in places for number in place.lines(files.get(place.file, ""))]
    return any(abs(line.number - number) <= NEAR for number in numbers)


def row(judged: Judged) -> list[str]:
    """One row of the table."""
    regression, moved = judged.regression, judged.moved
    tensor = [side.parts.get("tensor_busy", 0.0) for side in (judged.before, judged.after)]
    change = 100.0 * (judged.after.cycles / judged.before.cycles - 1.0)
    parts = ", ".join(f"`{name}` {points:+.1f}" for name, points in moved.parts[:SHOWN] if points >= 0.05)
    at = (
        f"{moved.line.file}:{moved.line.number} ({moved.at_line:+.1f}) `{_cell(moved.line.text)}`"
        if moved.line
        else "–"
    )
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
