"""What the gate says of the measured regressions, beside what was expected of them before.

What the table needs of the runs is small enough to commit: FOLDER holds CASE.json for the unchanged
kernel of a case, NAME.json for a regression, both as ``ncubble baseline`` writes them
(values, clocks, account with its lines), and ``lines.json``: by regression and file, the numbers of
the lines that its plan expects, as found in the sources that were profiled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path, PurePath
from statistics import fmean

from benchmarks.harness.blocks import table
from benchmarks.harness.command import REPOSITORY
from benchmarks.regressions.plan import NEAR, Place, Regression
from ncubble.analysis.gate.accounts import CodePlace, Move, moves
from ncubble.analysis.gate.baseline import Baseline, record
from ncubble.analysis.gate.baseline_file import load, save
from ncubble.analysis.gate.check import check
from ncubble.analysis.gate.metrics import BY_NAME
from ncubble.analysis.gate.repeats import Repeats, collect
from ncubble.analysis.gate.verdicts import CheckOptions
from ncubble.analysis.report.report import Report, open_reports
from ncubble.errors import MeasurementError, NcubbleError

FOLDER = REPOSITORY / "recordings" / "h200-gate" / "regressions"
LINES = "lines.json"
Lines = dict[str, list[int]]
HEAD = ("regression", "kernel", "tensor % before → after", "cycles, %", "verdict", "grew most, points", "at line")
SHOWN = 3


def keep(runs: Path, chosen: Iterable[Regression], folder: Path = FOLDER) -> list[Path]:
    """Baseline files of all ``chosen`` whose runs lie in ``runs``, and the lines expected of them,
    beside what was kept before; what was written."""
    found: dict[Path, Baseline] = {}
    kept = folder / LINES
    lines: dict[str, Lines] = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    for one in chosen:
        if (runs / one.case / one.name / "run.json").is_file():
            found[folder / f"{one.name}.json"], reports = recorded(runs / one.case / one.name)
            found[folder / f"{one.case}.json"], _ = recorded(runs / one.case / "base")
            sources = {PurePath(name).name: text for report in reports for name, text in report.files.items()}
            lines[one.name] = expected_lines(one.where, sources)
    folder.mkdir(parents=True, exist_ok=True)
    save(found.items(), force=True)
    text = [f" {json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in sorted(lines.items())]
    kept.write_text("{\n" + ",\n".join(text) + "\n}\n", encoding="utf-8")
    return [*found, kept]


@cache
def recorded(path: Path) -> tuple[Baseline, tuple[Report, ...]]:
    """A baseline of one run directory, and its reports; remembered, as several regressions share a
    base."""
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


def read(one: Regression, folder: Path) -> tuple[Baseline, Baseline, Lines]:
    """Baselines before and after, and the lines expected; raises MeasurementError where it was not measured."""
    paths = (folder / f"{one.case}.json", folder / f"{one.name}.json")
    if not all(path.is_file() for path in paths):
        raise MeasurementError(f"{one.name}: not measured", "measure it with `regressions run`, then `keep` it")
    lines: dict[str, Lines] = json.loads((folder / LINES).read_text(encoding="utf-8"))
    return load(paths[0]), load(paths[1]), lines.get(one.name, {})


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
    group.builds, group.commits = [dict(baseline.build)], [dict(baseline.git)]
    group.geometry = [dict(baseline.geometry)]
    group.reports = [dict(report) for report in baseline.reports]
    # Cached properties of a group that has reports: here they were read before.
    group.__dict__ |= {"account": baseline.account, "code": baseline.sass_sha256}
    return group


def row(regression: Regression, folder: Path) -> list[str]:
    """One row of the table: what was changed, checked against what was not, as ``ncubble`` does.

    Raises:
        MeasurementError: it was not measured, or a side has no account.
    """
    before, after, lines = read(regression, folder)
    if before.account is None or after.account is None:
        raise MeasurementError(f"{before.key.label}: no account", "profile with the default sets")
    verdict = check([repeats_of(after)], [before], CheckOptions()).kernels[0].verdict
    cycles = [fmean(side.metrics["cycles"].measured) for side in (before, after)]
    moved = moves(before.account, after.account, cycles[1] / cycles[0])
    tensor = [side.means.get("tensor_busy", 0.0) for side in (before.account, after.account)]
    place = moved[0].place if moved else None
    return [
        regression.name,
        " ".join([regression.kernel, *(text for text in regression.arguments[1:] if "=" in text)]),
        " → ".join(f"{pct:.1f}" for pct in tensor) if max(tensor) > 1.0 else "no MMA",
        f"{100.0 * (cycles[1] / cycles[0] - 1.0):+.1f}",
        verdict,
        ", ".join(f"`{one.part}` {one.points:+.1f}" for one in moved[:SHOWN] if one.points >= 0.05) or "nothing",
        f"{place.file}:{place.line} ({place.pct:+.1f})" if place else "–",
        " or ".join(f"`{part}`" for part in regression.parts),
        right(regression, moved, lines)
        if verdict == "regressed"
        else "no loss"
        if cycles[1] <= cycles[0]
        else "missed",
    ]


def right(regression: Regression, moved: tuple[Move, ...], lines: Mapping[str, Iterable[int]]) -> str:
    """Whether the part that grew most is one that was expected, and the line where it did, too."""
    if not moved or moved[0].part not in regression.parts:
        return "no"
    if moved[0].place is None:
        return "yes (no line)"
    return "yes" if expected_at(moved[0].place, lines) else "part only"


def expected_at(place: CodePlace, lines: Mapping[str, Iterable[int]]) -> bool:
    """Whether ``place`` lies within ``NEAR`` lines of one of ``lines``, numbers by file."""
    return place.line is not None and any(abs(place.line - number) <= NEAR for number in lines.get(place.file, ()))


def markdown(folder: Path, chosen: Iterable[Regression]) -> tuple[str, list[str]]:
    """The table of all ``chosen`` that were measured in ``folder``, and in words what could not be
    judged."""
    rows, failures = [], []
    for regression in chosen:
        try:
            rows.append(row(regression, folder))
        except NcubbleError as error:
            failures.append(f"{regression.name}: {error}")
    return table([*HEAD, "expected part", "right"], rows), failures
