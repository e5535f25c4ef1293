"""Damage reports at random and see what becomes of each: with ``ncubble report``, and on its page.

    python -m benchmarks.reports.fuzz [--structural|--values] [--count 2000] [--seed 1] [--sources FOLDER] [--json FILE]
        [--keep FOLDER]

Bytes are damaged (``mutations``), or with ``--structural`` fields and pieces of the file (``structure``), or with
``--values`` several values at once (``values``; only the verdict is compared, where it differs by more than 1 %).

Every mutant goes through ``ncubble report`` with and without ``--json`` (real processes) and, where
it opens, onto the dashboard's page of each launch. The answer is one of

    detected   an error names the file
    labelled   something else is shown than of the intact report, each such launch with a ``suspicious:`` warning
    same       what is shown is what the intact report shows, to the last digit
    silent     something else is shown without a word
    crashed    a traceback, no answer, or two answers that disagree; hung: no end in time

Ends with 1 if anything crashed or hung, a truncation passed, or a damaged field named another cause
without a label.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
import zstandard

from benchmarks.harness import limited
from benchmarks.harness import shown as shown_values
from benchmarks.harness.shown import Shown
from benchmarks.reports import structure, values
from benchmarks.reports.mutations import Mutant, mutants
from ncubble.analysis.report.report import Report
from ncubble.profiling.runs import Run, find_runs
from ncubble.recordings import REPEATS, ROOT

Damage = Callable[[range, int, Sequence[bytes]], list[Mutant]]
FEW = tuple(
    ROOT / name
    for name in (
        *("gemm_tma/stages2", "gemm_ws/default", "tensor_core_gemm/stages1", "triton_gemm/stages1"),
        *("stream_pipeline/default", "numba_tiled_matmul"),
    )
)
"""What is damaged by fields, beside a report of five launches."""
BATCH = 50
TIME_LIMIT_S = 30
WHOLE_LIMIT_S = 1200.0


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant. ``sections`` show something else, ``visible`` are those of them that do so at three
    digits. ``where`` is the damaged field; ``causes`` are other named causes than of the intact report, without a
    label."""

    number: int
    source: str
    kind: str
    answer: str
    why: str = ""
    sections: tuple[str, ...] = ()
    visible: tuple[str, ...] = ()
    where: str = ""
    causes: str = ""

    @property
    def bad(self) -> bool:
        """A crash, a hang, a truncation that was not detected, another cause without a label."""
        truncated = self.kind.startswith("truncate") and self.answer != "detected"
        return self.answer in ("crashed", "hung") or truncated or bool(self.where and self.causes)


@dataclass(frozen=True)
class Source:
    """An intact report: where it is from, plain bytes, what ncubble shows of it."""

    name: str
    data: bytes
    shown: dict[int, Shown]


def plain_bytes(path: Path) -> bytes:
    data = path.read_bytes()
    return zstandard.ZstdDecompressor().stream_reader(data).read() if path.suffix == ".ncu-repz" else data


def load_sources(paths: Sequence[Path], folder: Path) -> list[Source]:
    """The intact reports at or below ``paths``, read as bare files in ``folder``. Those that do not
    open are left out."""
    named = {}
    for number, path in enumerate(find_runs(paths)):
        copy = folder / f"original-{number:04d}.ncu-rep"
        copy.write_bytes(plain_bytes(Run.load(path).report))
        named[copy] = str(path)
    shown, failures = shown_values.show(list(named))
    for where, error in failures.items():
        print(f"left out: {where}: {error}", file=sys.stderr)
    kept = [path for path in named if path in shown]
    assert kept, f"nothing at {paths} opens"
    return [Source(named[path], path.read_bytes(), shown[path]) for path in kept]


def fuzz(
    sources: Sequence[Source], count: int, seed: int, batch: int = BATCH, damage: Damage = mutants
) -> Iterator[tuple[Mutant, Outcome]]:
    """What becomes of mutants 0 to ``count`` of ``seed``, one after the other."""
    plain = [source.data for source in sources]
    for start in range(0, count, batch):
        damaged = damage(range(start, min(start + batch, count)), seed, plain)
        with tempfile.TemporaryDirectory() as folder:
            yield from zip(damaged, judge(damaged, sources, Path(folder)), strict=True)


def judge(damaged: Sequence[Mutant], sources: Sequence[Source], folder: Path) -> Iterator[Outcome]:
    """Write ``damaged`` reports into ``folder`` and put them through everything."""
    reports = folder / "reports"
    reports.mkdir()
    paths = [reports / one.name for one in damaged]
    for path, one in zip(paths, damaged, strict=True):
        path.write_bytes(one.data)
    answers = Answers.of(reports, paths, folder / "cache")
    for one, path in zip(damaged, paths, strict=True):
        source = sources[one.source]
        kind = f"{one.kind} of {one.flips}" if one.flips else one.kind
        kind += ", in the zstd form" if one.packed else ""
        told = answers.about(path, source)
        yield Outcome(one.number, source.name, kind, *told, where=one.where, causes=answers.causes(path, source))


@dataclass(frozen=True)
class Answers:
    """All that ncubble says about the reports of a folder."""

    problem: str
    launches: dict[str, list[dict[str, Any]]]
    errors: dict[str, str]
    shown: dict[Path, dict[int, Shown]]
    failures: dict[str, str]

    @classmethod
    def of(cls, reports: Path, paths: Sequence[Path], cache: Path) -> Answers:
        """Ask the command line about the folder, twice, then show the pages of what opened."""
        try:
            told = limited.run(["report", reports, "--json"], cache, TIME_LIMIT_S, WHOLE_LIMIT_S)
            answer = json.loads(told.stdout or "{}")
            errors = {one["report"]: one["error"] for one in answer.get("errors", [])}
            opened = [path for path in paths if str(path) not in errors]
            printed = limited.run(["report", *opened, "--details"], cache, TIME_LIMIT_S, WHOLE_LIMIT_S)
        except subprocess.TimeoutExpired:
            return cls("hung", {}, {}, {}, {})
        problem = _problem(told) or (opened and _problem(printed)) or ""
        launches: dict[str, list[dict[str, Any]]] = {}
        for launch in answer.get("launches", []):
            launches.setdefault(launch["report"], []).append(launch)
        with patch.dict(os.environ, limited.environment(cache)):
            shown, failures = shown_values.show(opened)
        return cls(problem, launches, errors, shown, failures)

    def about(self, path: Path, source: Source) -> tuple[str, str, tuple[str, ...], tuple[str, ...]]:
        """The outcome of one report: name, why, changed sections, and those that differ visibly."""
        name = str(path)
        if self.problem:
            return ("hung" if self.problem == "hung" else "crashed"), self.problem, (), ()
        if name in self.errors:
            return "detected", self.errors[name].replace(name, "FILE"), (), ()
        shown = self.shown.get(path, {})
        crashes = [one.crash for one in shown.values() if one.crash]
        crashes += [error for where, error in self.failures.items() if where.startswith(name)]
        if not shown or [one.verdict | {"measured": None} for one in shown.values()] != self.launches.get(name):
            crashes.append("the command line and the page show different launches, or none")
        if crashes:
            return "crashed", crashes[0], (), ()
        return compared(shown, source.shown)

    def causes(self, path: Path, source: Source) -> str:
        """The named causes of intact report and mutant where they differ and nothing labels it."""
        shown = self.shown.get(path, {})
        pairs = [(_cause(source.shown.get(n)), _cause(new)) for n, new in shown.items() if not new.labelled]
        return "; ".join(f"{old} -> {new}" for old, new in pairs if old != new)


def _cause(shown: Shown | None) -> str:
    return str(shown.verdict["cause"] if shown else "no launch")


def _problem(ended: subprocess.CompletedProcess[str]) -> str:
    """What a command said that failed by itself, or its exit status if it said nothing; or empty."""
    failed = ended.returncode not in (0, 3) or "Traceback" in ended.stderr or "unexpected" in ended.stderr
    return ended.stderr or f"exit status {ended.returncode}" if failed else ""


def compared(found: dict[int, Shown], intact: dict[int, Shown]) -> tuple[str, str, tuple[str, ...], tuple[str, ...]]:
    """The outcome of a report that opened: ``same``, ``labelled`` or ``silent``, and the sections
    that changed."""
    sections: dict[str, None] = {}
    visible: dict[str, None] = {}
    labelled = True
    for launch in sorted({*found, *intact}):
        new, old = found.get(launch), intact.get(launch)
        if new is None or old is None:
            titles, seen = ["launches"], ["launches"]
        else:
            titles = shown_values.changed(new, old)
            both = [t for t in titles if t in new.sections and t in old.sections]
            same = [t for t in both if shown_values.coarse(new.sections[t]) == shown_values.coarse(old.sections[t])]
            seen = [title for title in titles if title not in same]
        labelled &= not titles or (new is not None and new.labelled)
        sections.update(dict.fromkeys(titles))
        visible.update(dict.fromkeys(seen))
    name = "same" if not sections else "labelled" if labelled else "silent"
    return name, "", tuple(sections), tuple(visible)


def forged(paths: Sequence[Path], count: int, seed: int) -> Iterator[Outcome]:
    """What becomes of mutants 0 to ``count`` of ``seed`` of the values of the first launch at each of
    ``paths``."""
    sources = [values.Source.of(Report.open(path)) for path in paths]
    for number in range(count):
        source, one = values.draw(number, seed, sources)
        shown = values.verdict_of(source.report, one.tables)
        new = values.changes(shown, source.shown) if shown else []
        answer = "detected" if not shown else "labelled" if shown["integrity"] != "ok" else "silent" if new else "same"
        yield Outcome(number, str(source.report.path), one.kind, answer, "", tuple(new), (), f"{one.kind}, {one.where}")


def table(outcomes: Sequence[Outcome]) -> str:
    """Answers by kind of damage, and what the silent ones show differently."""
    frame = pd.DataFrame([asdict(one) for one in outcomes])
    counts = pd.crosstab(frame["kind"], frame["answer"], margins=True, margins_name="all")
    silent = frame[frame["answer"] == "silent"]
    shown = sorted(f"{one.where or one.kind}: {', '.join(one.sections)}" for one in silent.itertuples())
    seen = sum(map(bool, silent["visible"]))
    share = f"{len(silent)} of {len(frame)} silent ({100 * len(silent) / len(frame):.1f} %), {seen} to the eye"
    return "\n".join([counts.to_string(), share, *shown])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sources", type=Path, action="append", help="reports to damage (else recordings)")
    parser.add_argument("--structural", action="store_true", help="damage fields, not bytes")
    parser.add_argument("--values", action="store_true", help="change values, not bytes")
    parser.add_argument("--json", type=Path, help="write every outcome there")
    parser.add_argument("--keep", type=Path, help="keep silent and crashed mutants in this folder")
    given = parser.parse_args()
    begun, outcomes = time.monotonic(), []
    few = [*FEW, REPEATS / "tensor_core_gemm" / "stages1"]
    if given.values:
        outcomes = list(forged(given.sources or few, given.count, given.seed))
        silent = [one.where for one in outcomes if one.answer == "silent"]
        print(f"{given.count} mutants, seed {given.seed}\n{table(outcomes)}\n{values.table(silent, given.count)}")
        return 0
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, NCUBBLE_CACHE=f"{folder}/cache"):
        sources = load_sources(given.sources or (few if given.structural else [ROOT]), Path(folder))
    damage = structure.mutants if given.structural else mutants
    for one, outcome in fuzz(sources, given.count, given.seed, damage=damage):
        outcomes.append(outcome)
        if given.keep and outcome.answer in ("silent", "crashed", "hung"):
            given.keep.mkdir(parents=True, exist_ok=True)
            (given.keep / one.name).write_bytes(one.data)
        if len(outcomes) % BATCH == 0:
            print(f"{len(outcomes)} of {given.count}, {time.monotonic() - begun:.0f} s", file=sys.stderr)
    print(f"{given.count} mutants of {len(sources)} reports, seed {given.seed}\n{table(outcomes)}")
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in outcomes], indent=1))
    return int(any(one.bad for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
