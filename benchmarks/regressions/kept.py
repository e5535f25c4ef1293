"""What the table of regressions needs of their runs, small enough to commit: a baseline file of
every run.

FOLDER holds CASE.json for the unchanged kernel of a case, NAME.json for a regression, both as
``ncubble baseline record`` writes them (values, clocks, account with its lines), and
``lines.json``: by regression and file, the numbers of the lines that its plan expects, as found in
the sources that were profiled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path, PurePath

from benchmarks.harness.command import REPOSITORY
from benchmarks.regressions.plan import Place, Regression
from ncubble.analysis.gate.baseline import Baseline, record
from ncubble.analysis.gate.baseline_file import load, save
from ncubble.analysis.gate.metrics import BY_NAME
from ncubble.analysis.gate.repeats import Repeats, collect
from ncubble.analysis.report.report import Report, open_reports
from ncubble.errors import MeasurementError

FOLDER = REPOSITORY / "recordings" / "h200-gate" / "regressions"
LINES = "lines.json"
Lines = dict[str, list[int]]


def keep(runs: Path, chosen: Iterable[Regression], folder: Path = FOLDER) -> list[Path]:
    """Baseline files of all ``chosen`` whose runs lie in ``runs``, and the lines expected of them,
    beside what was kept before; what was written."""
    found: dict[Path, Baseline] = {}
    kept = folder / LINES
    lines: dict[str, Lines] = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    for one in chosen:
        if (runs / one.case / one.name / "run.json").is_file():
            before, after, lines[one.name] = from_runs(one, runs)
            found |= {folder / f"{one.case}.json": before, folder / f"{one.name}.json": after}
    save(found.items(), force=True)
    text = [f" {json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in sorted(lines.items())]
    kept.write_text("{\n" + ",\n".join(text) + "\n}\n", encoding="utf-8")
    return [*found, kept]


def read(one: Regression, folder: Path) -> tuple[Baseline, Baseline, Lines]:
    """Baselines before and after, and the lines expected, of runs or of what was kept of them.

    Raises:
        MeasurementError: it was not measured, or the launches are not repeats of one kernel.
    """
    if not (folder / LINES).is_file():
        return from_runs(one, folder)
    paths = (folder / f"{one.case}.json", folder / f"{one.name}.json")
    if not all(path.is_file() for path in paths):
        raise MeasurementError(f"{one.name}: not measured", "measure it with `regressions.py run`, then `keep` it")
    lines: dict[str, Lines] = json.loads((folder / LINES).read_text(encoding="utf-8"))
    return load(paths[0]), load(paths[1]), lines.get(one.name, {})


def from_runs(one: Regression, runs: Path) -> tuple[Baseline, Baseline, Lines]:
    """The same of the run directories below ``runs``."""
    after, reports = recorded(runs / one.case / one.name)
    sources = {PurePath(name).name: text for report in reports for name, text in report.files.items()}
    return recorded(runs / one.case / "base")[0], after, expected_lines(one.where, sources)


@cache
def recorded(path: Path) -> tuple[Baseline, tuple[Report, ...]]:
    """A baseline of one run directory, and its reports; remembered, as several regressions share a
    base."""
    if not (path / "run.json").is_file():
        raise MeasurementError(f"{path}: no run", "measure it with `regressions.py run`")
    reports, failures = open_reports([path])
    if failures:
        raise failures[0].error
    started = reports[0].run.manifest.started or datetime.now(UTC).isoformat(timespec="seconds")
    found = record(collect(reports)[0], started, min_repeats=2)
    if len(found) != 1:
        raise MeasurementError(f"{path}: {len(found)} kernels, not one", "measure it again")
    return found[0], tuple(reports)


def expected_lines(where: Iterable[Place], files: dict[str, str]) -> Lines:
    """The numbers of all lines of ``where``, by file."""
    found: Lines = {}
    for one in where:
        numbers = {*found.get(one.file, []), *one.lines(files.get(one.file, ""))}
        if numbers:
            found[one.file] = sorted(numbers)
    return found


def repeats_of(baseline: Baseline) -> Repeats:
    """The launches of a baseline as those of a check."""
    count = baseline.repeats
    group = Repeats(baseline.key, baseline.device.name, baseline.device.compute_capability, launches=count)
    for metric in baseline.metrics.values():
        lacking = [None] * (count - len(metric.values))
        group.values[metric.counter] = [
            float("nan") if value is None else value for value in (*metric.values, *lacking)
        ]
    sample = baseline.sample(next(name for name in baseline.metrics if BY_NAME[name].gated))
    group.clock_of, group.run_of, group.gpu_of = list(sample.clocks), list(sample.runs), list(sample.gpus)
    group.ncu_versions, group.drivers = {baseline.ncu_version}, {baseline.device.driver}
    group.builds, group.commits, group.geometry = (
        [dict(baseline.build)],
        [dict(baseline.git)],
        [dict(baseline.geometry)],
    )
    group.reports = [dict(report) for report in baseline.reports]
    # Cached properties of a group that has reports: here they were read before.
    group.__dict__ |= {"account": baseline.account, "code": baseline.sass_sha256}
    return group
