"""The folder of ``ncubble verify NAME --gates --out DIR``: written, read again, and two of them
compared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncubble.errors import MeasurementError, ReportError, UsageError
from ncubble.records import Number, typed
from ncubble.text.values import finite

if TYPE_CHECKING:
    from ncubble.kernels.run.gates import AcceptanceOutcome


META, CHECKED, COUNTED = "build_meta.json", "correctness_summary.json", "counters.json"
PATHS = ("baseline", "candidate")
SIDES = ("parameters", "sizes", "iterations")
"""Settings that must be equal for times of a path to be comparable."""
REMEDY = "use a folder written by verify --gates --out"


def claim(folder: Path) -> None:
    """Creates ``folder`` before anything is measured; raises UsageError if it is not empty or
    cannot be created."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        entry = next(folder.iterdir(), None)
    except OSError as error:
        raise UsageError(f"--out {folder}: {error}", "name a folder that can be written") from error
    if entry is not None:
        raise UsageError(f"--out {folder}: not empty, it holds {entry.name}", "name a new folder")


def write(folder: Path, outcome: AcceptanceOutcome, table: str) -> None:
    """Writes verifications, times and counters of each path, provenance, and the comparison for
    people (``table``). Raises MeasurementError where that fails."""
    whole, gates = outcome.to_json(), outcome.gates
    times = whole["performance"]
    parts = {
        CHECKED: {"kernel": outcome.name, "passed": outcome.correct, "checks": whole["correctness"]},
        META: {**outcome.meta, "resources": whole["resources"]},
        COUNTED: {"kernel": outcome.name, "passed": outcome.counted, **whole["counters"]},
    }
    timed = {"shape": gates.timed, "sizes": dict(gates.shapes[gates.timed])}
    for path, parameters in gates.paths.items():
        settings = {**timed, "parameters": dict(parameters), "iterations": gates.iterations}
        parts[f"perf_{path}.json"] = {**settings, "timing": times.get(path)}
    texts = {name: json.dumps(finite(part), indent=1, ensure_ascii=False) + "\n" for name, part in parts.items()}
    try:
        for name, text in {**texts, "COMPARE.md": table}.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise MeasurementError(f"--out {folder}: cannot be written: {error}", "name a folder with space") from error


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
class SavedCounter:
    """A counter of both paths; None where it could not be read."""

    name: str
    baseline: Number | None = None
    candidate: Number | None = None


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
        checks = _read(folder / CHECKED, dict[str, Any], list[SavedCheck])
        counted = _read(folder / COUNTED, dict[str, Any], list[SavedCounter]) if (folder / COUNTED).exists() else []
        meta = _read(folder / META, SavedMeta)
        return cls(folder, meta, checks, times, {check.name: check for check in counted})

    def p50_us(self, path: str) -> float | None:
        """The median time of a path; None where it was wrong, and so not timed."""
        timing = self.times[path].timing
        return None if timing is None else timing.p50_us


def _read(file: Path, kind: Any, checks: Any = None) -> Any:
    """The content of ``file`` as ``kind``; or its member ``checks`` as that kind."""
    try:
        content: Any = typed(json.loads(file.read_text(encoding="utf-8")), kind)
        return content if checks is None else typed(content["checks"], checks, "checks")
    except KeyError as error:
        raise ReportError(f"{file}: cannot be read: it has no {error}", REMEDY) from error
    except (OSError, ValueError, RecursionError) as error:  # a wrong field raises ValueError
        raise ReportError(f"{file}: cannot be read: {error}", REMEDY) from error


def is_saved(folder: Path) -> bool:
    """Whether a folder holds what gates wrote."""
    return (folder / META).is_file() and (folder / CHECKED).is_file()


def compared(then: SavedGates, now: SavedGates) -> str:
    """A Markdown table of both, for each path: what was right, median times and resources.

    Raises UsageError where kernel, GPU, parameters, sizes or launches differ: times of these do not
    compare.
    """
    sides = (then, now)
    if then.meta.kernel != now.meta.kernel:
        raise UsageError(f"{then.meta.kernel} and {now.meta.kernel} are two kernels", "compare results of one")
    pairs = {"GPUs": [side.meta.device.get("name") for side in sides]}
    for name in SIDES:
        pairs |= {f"{name} of the {path}": [getattr(side.times[path], name) for side in sides] for path in PATHS}
    for what, (before, after) in pairs.items():
        if before != after:
            remedy = "measure both with the same command on the same GPU model"
            raise UsageError(f"{what} differ: {before} and {after}", remedy)
    rows = [("", "then", "now", "change"), ("---", "---:", "---:", "---:")]
    table = "\n".join(f"| {' | '.join(row)} |" for row in (*rows, *_rows(then, now)))
    commits = " and ".join(f"{side.meta.started[:16]} ({_commit(side)})" for side in sides)
    return f"# {now.meta.kernel}: {then.folder.name} against {now.folder.name}\n\n{commits}\n\n{table}\n"


def _rows(then: SavedGates, now: SavedGates) -> Iterator[tuple[str, ...]]:
    """For each path verifications and time, resources that differ, and each counter that one of
    both holds."""
    sides = (then, now)
    for path in PATHS:
        checks = [[check.passed for check in side.checks if check.path == path] for side in sides]
        yield f"{path}: verifications passed", *(f"{sum(passed)} of {len(passed)}" for passed in checks), ""
        yield f"{path}: p50, µs", *_changed(".2f", *(side.p50_us(path) for side in sides))
        for name in ("registers", "spill_B", "smem_static_B", "smem_dynamic_B"):
            values = [side.meta.build.get(path, {}).get(name) for side in sides]
            if values[0] != values[1]:
                yield f"{path}: {name}", *map(str, values), ""
        for name in dict.fromkeys([*then.counted, *now.counted]):
            yield f"{path}: {name}", *_changed(".6g", *(getattr(side.counted.get(name), path, None) for side in sides))


def _changed(form: str, before: float | None, after: float | None) -> tuple[str, str, str]:
    """Both values and the change as text."""
    change = f"{100.0 * (after / before - 1.0):+.1f} %" if before and after is not None else ""
    texts = ["n/a" if value is None else f"{value:{form}}" for value in (before, after)]
    return texts[0], texts[1], change


def _commit(side: SavedGates) -> str:
    git = side.meta.git or {}
    return f"{str(git.get('sha') or 'no commit')[:12]}{', with changes' if git.get('dirty') else ''}"
