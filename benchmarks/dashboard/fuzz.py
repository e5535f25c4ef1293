"""Damaged reports in the running dashboard, a few intact ones among them.

    python -m benchmarks.dashboard.fuzz [--count 2000] [--seed 1] [--batch 250] [--sources FOLDER] [--json FILE]

For each batch the real ``ncubble dashboard`` starts on a folder of mutants and three intact
reports. When it has read them all it is asked over HTTP, as a browser asks, for the overview and
for the page of every launch that the table offers. Wanted: the server lives, answers nothing with
5xx, logs no error, never loads the native reader, names every mutant as shown or as failed, shows
the intact reports as it does without mutants, and ends in time when interrupted. Ends with 1
otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.harness import shown as shown_values
from benchmarks.harness.served import Served, find, texts
from benchmarks.reports.fuzz import TIME_LIMIT_S, Source, load_sources
from benchmarks.reports.mutations import mutants
from ncubble.recordings import ROOT

LOADING_S_PER_REPORT = 5.0
INTACT = 3


@dataclass
class Tour:
    """What one dashboard did with a folder: files shown and failed, pages, seconds, and
    problems."""

    mutants: int
    shown: int = 0
    failed: int = 0
    pages: int = 0
    loading_s: float = 0.0
    slowest_answer_s: float = 0.0
    problems: list[str] = field(default_factory=list)


def tour(sources: Sequence[Source], numbers: range, seed: int, folder: Path) -> Tour:
    """Fill ``folder`` with mutants and intact reports, show it, and look at everything."""
    reports, plain = folder / "reports", [source.data for source in sources]
    reports.mkdir()
    intact = {reports / f"intact-{number}.ncu-rep": source for number, source in enumerate(sources[:INTACT])}
    for path, source in intact.items():
        path.write_bytes(source.data)
    damaged = {reports / one.name: one.data for one in mutants(numbers, seed, plain)}
    for path, data in damaged.items():
        path.write_bytes(data)
    done = Tour(len(damaged))
    with Served(reports, folder, TIME_LIMIT_S) as dashboard:
        done.loading_s = dashboard.wait(60 + LOADING_S_PER_REPORT * len(damaged))
        _look(dashboard, list(damaged), intact, done)
        if dashboard.loads("_ncu_report"):
            done.problems.append("the server has loaded the native reader")
        done.slowest_answer_s = dashboard.slowest_s
    done.problems += dashboard.problems
    return done


def _look(dashboard: Served, damaged: Sequence[Path], intact: dict[Path, Source], done: Tour) -> None:
    overview = dashboard.page("/")
    rows = dashboard.rows()
    named = texts(find(overview, "overview-problems"), "Code")
    listed = {row["path"] for row in rows}
    for path in map(str, damaged):
        places = [where for where in named if where == path or where.startswith(f"{path}, launch ")]
        done.shown += path in listed
        done.failed += bool(places) and path not in listed
        if path not in listed and not places:
            done.problems.append(f"{path} is neither shown nor named")
    for row in rows:
        done.pages += 1
        page = dashboard.launch(row["id"])
        if Path(row["path"]) in intact:
            compare(intact[Path(row["path"])], row, page, done)
    missing = {str(path) for path in intact} - listed - set(named)
    done.problems += [f"{path} is intact but not shown" for path in sorted(missing)]


def compare(source: Source, row: dict[str, Any], page: Any, done: Tour) -> None:
    """Add a problem for each card, and for the table's row, that differs from what the intact
    report shows alone."""
    expected = {title: text for title, text in source.shown[row["launch"]].sections.items() if title != "json"}
    found = shown_values.sections(page, row)
    for title in dict.fromkeys([*expected, *found]):
        if found.get(title) != expected.get(title):
            done.problems.append(f"{row['path']}, launch {row['launch']}: {title} differs")


def main() -> int:
    parser = argparse.ArgumentParser(description="Damaged reports in the running dashboard")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=250)
    parser.add_argument("--sources", type=Path, action="append", help="reports to damage (else the shipped recordings)")
    parser.add_argument("--json", type=Path, help="write the figures of every batch there")
    given = parser.parse_args()
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell's background job would hand down that it is ignored
    begun, tours = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, NCUBBLE_CACHE=f"{folder}/cache"):
        sources = load_sources(given.sources or [ROOT], Path(folder))
    for start in range(0, given.count, given.batch):
        numbers = range(start, min(start + given.batch, given.count))
        with tempfile.TemporaryDirectory() as folder:
            tours.append(tour(sources, numbers, given.seed, Path(folder)))
        print(f"{numbers.stop} of {given.count}, {time.monotonic() - begun:.0f} s: {tours[-1]}", file=sys.stderr)
    print(table(tours))
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in tours], indent=1))
    return 1 if any(one.problems for one in tours) else 0


def table(tours: Sequence[Tour]) -> str:
    """All tours in one Markdown table, and their problems below it."""
    total = [sum(getattr(one, name) for one in tours) for name in ("mutants", "shown", "failed", "pages")]
    seconds = f"{sum(one.loading_s for one in tours):.0f} s", f"{max(one.slowest_answer_s for one in tours):.2f} s"
    problems = [problem for one in tours for problem in one.problems]
    head = "| dashboards | mutants | shown | named as failed | pages fetched | reading | slowest answer | problems |"
    cells = [len(tours), *total, *seconds, len(problems)]
    return "\n".join([head, "|" + " ---: |" * 8, f"| {' | '.join(map(str, cells))} |", *problems[:20]])


if __name__ == "__main__":
    sys.exit(main())
