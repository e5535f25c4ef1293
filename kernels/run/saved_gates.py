"""What ``ncubble verify NAME --gates --out DIR`` wrote, read again, and two of them compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ncubble.errors import ReportError, UsageError
from ncubble.records import Number, typed

T = TypeVar("T")

META, CHECKED, COUNTED = "build_meta.json", "correctness_summary.json", "counters.json"
PATHS = ("baseline", "candidate")
SIDES = ("parameters", "sizes", "iterations")
"""Settings that must be equal for times of a path to be comparable."""
REMEDY = "use a folder written by verify --gates --out"


@dataclass(frozen=True)
class SavedMeta:
    """What was built, and on which device (``build_meta.json``)."""

    kernel: str
    device: dict[str, Any]
    started: str
    build: dict[str, dict[str, Any]]
    git: dict[str, Any] | None = None


@dataclass(frozen=True)
class SavedTiming:
    """The times of a path."""

    p50_us: Number


@dataclass(frozen=True)
class SavedTimes:
    """A path: what was timed (``perf_PATH.json``); no ``timing`` where it was wrong."""

    timing: SavedTiming | None
    parameters: dict[str, Any]
    sizes: Any
    iterations: Any


@dataclass(frozen=True)
class SavedCheck:
    """One verification of a path."""

    path: str
    passed: bool


@dataclass(frozen=True)
class SavedChecks:
    """``correctness_summary.json``."""

    checks: list[SavedCheck]


@dataclass(frozen=True)
class SavedCounter:
    """A counter of both paths; None where it could not be read."""

    name: str
    baseline: Number | None = None
    candidate: Number | None = None

    def of(self, path: str) -> float | None:
        """Its value of a path."""
        return self.baseline if path == PATHS[0] else self.candidate


@dataclass(frozen=True)
class SavedCounters:
    """``counters.json``."""

    checks: list[SavedCounter]


@dataclass(frozen=True)
class SavedGates:
    """One folder: ``meta`` and ``checks`` as written, by path its times, and ``counted`` by the
    name of the counter: none in folders from before there were any."""

    folder: Path
    meta: SavedMeta
    checks: list[SavedCheck]
    times: Mapping[str, SavedTimes]
    counted: Mapping[str, SavedCounter]

    @classmethod
    def load(cls, folder: Path) -> SavedGates:
        """Raises ReportError where a file is missing or damaged."""
        times = {path: _read(folder / f"perf_{path}.json", SavedTimes) for path in PATHS}
        meta, checked = _read(folder / META, SavedMeta), _read(folder / CHECKED, SavedChecks)
        counted = _read(folder / COUNTED, SavedCounters).checks if (folder / COUNTED).exists() else []
        return cls(folder, meta, checked.checks, times, {check.name: check for check in counted})

    def p50_us(self, path: str) -> float | None:
        """The median time of a path; None where it was wrong, and so not timed."""
        timing = self.times[path].timing
        return None if timing is None else timing.p50_us


def is_saved(folder: Path) -> bool:
    """Whether a folder holds what gates wrote."""
    return (folder / META).is_file() and (folder / CHECKED).is_file()


def compared(then: SavedGates, now: SavedGates) -> str:
    """A Markdown table of both, for each path: what was right, median times and resources.

    Raises UsageError where kernel, GPU, parameters, sizes or launches differ: times of these do not
    compare.
    """
    if then.meta.kernel != now.meta.kernel:
        raise UsageError(f"{then.meta.kernel} and {now.meta.kernel} are two kernels", "compare results of one")
    pairs = {"GPUs": [one.meta.device.get("name") for one in (then, now)]}
    pairs |= {
        f"{side} of the {path}": [getattr(one.times[path], side) for one in (then, now)]
        for side in SIDES
        for path in PATHS
    }
    for what, (before, after) in pairs.items():
        if before != after:
            remedy = "measure both with the same command on the same GPU model"
            raise UsageError(f"{what} differ: {before} and {after}", remedy)
    rows: list[tuple[str, ...]] = [("", "then", "now", "change"), ("---", "---:", "---:", "---:")]
    for path in PATHS:
        rows += _rows(path, then, now)
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    commits = " and ".join(f"{one.meta.started[:16]} ({_commit(one)})" for one in (then, now))
    return f"# {now.meta.kernel}: {then.folder.name} against {now.folder.name}\n\n{commits}\n\n{table}\n"


def _rows(path: str, then: SavedGates, now: SavedGates) -> list[tuple[str, ...]]:
    before, after = then.p50_us(path), now.p50_us(path)
    change = f"{100.0 * (after / before - 1.0):+.1f} %" if before and after else ""
    rows: list[tuple[str, ...]] = [
        (f"{path}: verifications passed", _passed(then, path), _passed(now, path), ""),
        (f"{path}: p50, µs", *("n/a" if time is None else f"{time:.2f}" for time in (before, after)), change),
    ]
    for name in ("registers", "spill_B", "smem_static_B", "smem_dynamic_B"):
        values = [one.meta.build.get(path, {}).get(name) for one in (then, now)]
        if values[0] != values[1]:
            rows.append((f"{path}: {name}", str(values[0]), str(values[1]), ""))
    return [*rows, *_counter_rows(path, then, now)]


def _counter_rows(path: str, then: SavedGates, now: SavedGates) -> list[tuple[str, ...]]:
    """A row for each counter that one of both holds."""
    rows = []
    for name in dict.fromkeys([*then.counted, *now.counted]):
        known = [one.counted.get(name) for one in (then, now)]
        before, after = (counter.of(path) if counter else None for counter in known)
        change = f"{100.0 * (after / before - 1.0):+.1f} %" if before and after is not None else ""
        texts = ("n/a" if value is None else f"{value:.6g}" for value in (before, after))
        rows.append((f"{path}: {name}", *texts, change))
    return rows


def _passed(one: SavedGates, path: str) -> str:
    checks = [check for check in one.checks if check.path == path]
    return f"{sum(check.passed for check in checks)} of {len(checks)}"


def _commit(one: SavedGates) -> str:
    git = one.meta.git or {}
    return f"{str(git.get('sha') or 'no commit')[:12]}{', with changes' if git.get('dirty') else ''}"


def _read(file: Path, kind: type[T]) -> T:
    try:
        return typed(json.loads(file.read_text(encoding="utf-8")), kind)
    except (OSError, ValueError, RecursionError) as error:  # a wrong field raises ValueError
        raise ReportError(f"{file}: cannot be read: {error}", REMEDY) from error
