"""First changes of planted waste and its opposites, and of public reports, against what they should be.

``waste``: the planted kernels of ``planted/waste.toml``, as measured. ``field``: reports of other people, which are
not part of this repository: ``field.csv`` names each with its commit, and what a first change should be. A folder
holds them as OWNER+NAME@COMMIT/PATH; what is absent is counted.

A launch is *right* where its first change is of an expected kind, of none that it must not be, and its verdict says
what it should (``says``: a regular expression over the verdict with its changes and notes, ``unit``: the busiest one);
*partly* where the expected kind stands behind another, or the verdict does not say it; else *wrong*.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.validation.page import Result, Table, number, origin
from benchmarks.validation.recorded import load, opener, origin_of
from ncubble.analysis.diagnosis.diagnose import launch_verdict
from ncubble.analysis.diagnosis.verdict import UNKNOWN, LaunchVerdict
from ncubble.analysis.diagnosis.words import change_words, sentence
from ncubble.analysis.report.report import Report
from ncubble.errors import ReportError

PLANTED = Path("planted.json")
FIELD = tuple(Path(__file__).with_name(f"field{which}.csv") for which in ("", "_blind", "_third", "_fourth", "_fifth"))
"""Reports that the rules were made with, and four sets that readers judged before they saw a verdict (the fifth by the
first of its two readers). Where no commit is named, the file lies in a folder OWNER+NAME, and its name ends in the
first eight digits of its git blob."""
RIGHT, PARTLY, WRONG = "right", "partly", "wrong"


@dataclass(frozen=True)
class Expected:
    """A launch of a report with the kinds of its first change that are right (empty: any) and that are not, what its
    verdict must say, and the unit it must name (empty: any)."""

    name: str
    report: Path
    launch: int
    kinds: Sequence[str] = ()
    never: Sequence[str] = ()
    says: str = ""
    unit: str = ""
    gain_pct: float | None = None


def score_waste(folder: Path) -> dict[str, Any]:
    """Planted waste in ``folder``. Raises ReportError where it is missing or damaged."""
    content = load(folder / PLANTED)
    expected = [_planted(folder, pair) for pair in content["pairs"]]
    runs = [str(pair["sick"]["run"]) for pair in content["pairs"]]
    return {**_scored("waste", expected), "origins": origin_of(content, folder, runs)}


def _planted(folder: Path, pair: Result) -> Expected:
    cured = pair["cured_cycles"]
    gain = 100.0 * (1.0 - cured[0] / pair["sick_cycles"][0]) if cured else None
    place, launch = folder / pair["sick"]["run"], int(pair["sick"]["launch"])
    return Expected(pair["name"], place, launch, pair["kinds"], pair.get("never", ()), gain_pct=gain)


def score_field(folder: Path) -> dict[str, Any]:
    """The public reports below ``folder``. Raises ReportError where there is none."""
    scored = _scored("field", [one for listed in FIELD for one in _field(folder, listed)])
    if not scored["launches"]:
        raise ReportError(f"{folder}: contains none of the reports that {FIELD[0].name} names", "fetch them")
    return scored


def _field(folder: Path, listed: Path) -> Iterator[Expected]:
    with listed.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            repository, commit, path = (row[name] for name in ("repository", "commit", "path"))
            place = folder / (repository.replace("/", "+") + (f"@{commit}" if commit else "")) / path
            kinds, never = row["kinds"].split(), row["never"].split()
            name = f"{repository}:{path}#{row['launch']}"
            yield Expected(name, place, int(row["launch"]), kinds, never, row["says"], row["unit"])


def _scored(name: str, expected: Sequence[Expected]) -> dict[str, Any]:
    there = [one for one in expected if one.report.exists()]
    reports = opener(Path(), [str(one.report) for one in there])
    rows = [_row(one, reports(str(one.report))) for one in there]
    counts = Counter(row["judged"] for row in rows)
    absent = [one.name for one in expected if one not in there]
    return {"schema": 1, "validation": name, "launches": rows, "absent": absent, "counts": dict(counts)}


def _row(expected: Expected, report: Report) -> dict[str, Any]:
    verdict = launch_verdict(report.launch(expected.launch))
    first = verdict.first
    return {
        "name": expected.name,
        "kinds": list(expected.kinds),
        "never": list(expected.never),
        "first": verdict.change,
        "text": change_words(first) if first else sentence(verdict),
        "gain_pct": expected.gain_pct,
        "predicted_pct": first.gain_pct if first else None,
        "judged": judged(verdict, expected),
    }


def judged(verdict: LaunchVerdict, expected: Expected) -> str:
    """``right``, ``partly`` or ``wrong``."""
    told = " ".join([sentence(verdict), *map(change_words, verdict.changes), *verdict.warnings])
    told_so = bool(re.search(expected.says, told)) and expected.unit in ("", verdict.unit)
    listed = [change.kind for change in verdict.changes] or [UNKNOWN]
    if listed[0] in expected.never:
        return WRONG
    if not expected.kinds or listed[0] in expected.kinds:
        return RIGHT if told_so else PARTLY
    return PARTLY if listed[0] == UNKNOWN or set(listed) & set(expected.kinds) else WRONG


def waste_tables(result: Result) -> list[Table]:
    """What each launch should get and gets."""
    header = ("launch", "first change", "is", "should be", "must not be", "gains %", "measured %")
    rows = [
        (
            *(row["name"], row["first"], row["judged"], " or ".join(row["kinds"]) or "any", ", ".join(row["never"])),
            *(number(row["predicted_pct"]), number(row["gain_pct"])),
        )
        for row in result["launches"]
    ]
    return [Table("launches", "First changes", header, rows, texts=5)]


def waste_notes(result: Result) -> list[str]:
    """The counts, where it comes from, and what is absent."""
    counts, absent = result["counts"], result["absent"]
    total = len(result["launches"])
    return [
        f"{', '.join(f'{counts.get(name, 0)} {name}' for name in (RIGHT, PARTLY, WRONG))}, of {total}",
        *([origin(result["origins"])] if "origins" in result else []),
        *([f"absent: {', '.join(absent)}"] if absent else []),
    ]
