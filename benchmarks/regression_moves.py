"""Which part of the account grew between two runs, and at which line. Pure over what reports hold.

Growth is in percent of the cycles before: what a part takes of the launches after, times how many times as long they
take, less what it took before. So the growth of all parts sums to that of the cycles, and a part that takes as long as
before has not moved, however much longer the whole takes. Lines are told by file name and text: numbers shift with an
edit above, and the sources of two commits lie in two folders.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePath

from ncubble.analysis.account import account
from ncubble.analysis.report import Report
from ncubble.errors import MeasurementError

BUSY = ("tensor_busy", "unit_busy")


@dataclass(frozen=True)
class Line:
    """A source line as a report has it; ``text`` is stripped, and empty where the report carries no source."""

    file: str
    number: int
    text: str

    @property
    def key(self) -> tuple[str, str]:
        """What stays when lines above it come or go."""
        return self.file, self.text or str(self.number)


@dataclass
class Side:
    """Mean over the launches of some reports: ``cycles``, ``parts`` in percent of them, and ``places``, for every part
    the percent that each line holds."""

    launches: int = 0
    cycles: float = 0.0
    parts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    places: dict[str, dict[tuple[str, str], float]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(float))
    )
    lines: dict[tuple[str, str], Line] = field(default_factory=dict)


@dataclass(frozen=True)
class Moves:
    """``parts``: growth in percent of the cycles before, largest first; ``line``: where the first of them grew most
    (None where samples do not tell, as of tails), and ``at_line``, by how much."""

    parts: tuple[tuple[str, float], ...]
    line: Line | None
    at_line: float


def side_of(reports: Iterable[Report]) -> Side:
    """All launches of ``reports`` as one side; raises MeasurementError where there is none, or one has no account."""
    side = Side()
    for report in reports:
        for launch in report.launches["launch"]:
            _add(side, report, int(launch))
    if not side.launches:
        raise MeasurementError("nothing measured: no launch", "profile the kernel first")
    side.cycles /= side.launches
    for part in side.parts:
        side.parts[part] /= side.launches
    for shares in side.places.values():
        for key in shares:
            shares[key] /= side.launches
    return side


def _add(side: Side, report: Report, launch: int) -> None:
    found = account(report, launch)
    if found is None:
        raise MeasurementError(f"{report.path}: launch {launch} has no account", "profile with the default sets")
    side.launches += 1
    side.cycles += float(report.identity(launch)["cycles"])
    source, texts = report.source_of(launch), {name: text.splitlines() for name, text in report.files.items()}
    lines = [_line(file, int(number), texts) for file, number in zip(source["file"], source["line"], strict=True)]
    side.lines |= {line.key: line for line in lines}
    for part, pct in found.parts.items():
        side.parts[part] += pct
        if found.weights is None or part not in found.weights or not (total := float(found.weights[part].sum())):
            continue
        for line, weight in zip(lines, found.weights[part].tolist(), strict=True):
            side.places[part][line.key] += pct * weight / total


def _line(file: str, number: int, texts: dict[str, list[str]]) -> Line:
    text = texts.get(file, [])
    return Line(PurePath(file).name, number, text[number - 1].strip() if 0 < number <= len(text) else "")


def moves(before: Side, after: Side) -> Moves:
    """What grew from ``before`` to ``after``; busy parts are left out, as more work is no bubble."""
    longer = after.cycles / before.cycles if before.cycles else math.nan
    names = [name for name in {**before.parts, **after.parts} if name not in BUSY]
    grown = {name: after.parts.get(name, 0.0) * longer - before.parts.get(name, 0.0) for name in names}
    parts = tuple(sorted(grown.items(), key=lambda item: -item[1]))
    first = parts[0][0] if parts else ""
    now, then = after.places.get(first, {}), before.places.get(first, {})
    by_line = {key: share * longer - then.get(key, 0.0) for key, share in now.items()}
    where = max(by_line, key=lambda key: by_line[key], default=None)
    return Moves(parts, after.lines[where] if where else None, by_line[where] if where else math.nan)
