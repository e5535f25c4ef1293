"""Baseline files: read with every field checked, written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ncubble.analysis.baseline import FEWEST_REPEATS, SCHEMA, Baseline, BaselineMetric
from ncubble.analysis.noise import mean_sd
from ncubble.analysis.repeats import KernelKey
from ncubble.errors import MeasurementError, NcubbleError, ReportError, UsageError

LARGEST = 1e18
"""Of a number in a baseline: nothing that is measured is larger, and its square is still a number."""
_MISSING = object()
_REMEDY = "restore the file from version control, or record it again with `ncubble baseline record --force`"


class _Reader:
    """A JSON object that is read by typed members; every error names file and field."""

    def __init__(self, origin: Path, raw: Any, field: str = "") -> None:
        self.origin, self.field = origin, field
        if not isinstance(raw, dict):
            raise self.error("is not an object")
        self.raw: dict[str, Any] = raw

    def error(self, what: str, name: str = "") -> ReportError:
        field = ".".join(part for part in (self.field, name) if part)
        return ReportError(
            f"{self.origin}: not a usable baseline: {f'field {field!r}' if field else 'the file'} {what}", _REMEDY
        )

    def get(self, name: str, kind: type, default: Any = _MISSING) -> Any:
        """Member ``name``, of exactly the type ``kind``: true is no integer."""
        value = self.raw.get(name, default)
        if value is _MISSING:
            raise self.error("is missing", name)
        if type(value) is not kind:
            raise self.error(f"is {_short(value)}, not {'an object' if kind is dict else kind.__name__}", name)
        return value

    def free(self, name: str) -> dict[str, Any]:
        """Member ``name``: an object of any content that is JSON, which NaN is not; empty where it is missing."""
        value: dict[str, Any] = self.get(name, dict, {})
        try:
            json.dumps(value, allow_nan=False)
        except ValueError as error:
            raise self.error("holds NaN or infinity", name) from error
        return value

    def child(self, name: str) -> _Reader:
        return _Reader(self.origin, self.get(name, dict), ".".join(part for part in (self.field, name) if part))

    def number(self, name: str, value: Any = _MISSING) -> float:
        value = self.raw.get(name, _MISSING) if value is _MISSING else value
        if type(value) not in (int, float) or not abs(value) <= LARGEST:
            raise self.error(f"is {_short(value)}, not a finite number up to {LARGEST:g}", name)
        return float(value)


def _short(value: Any) -> str:
    return "missing" if value is _MISSING else repr(value)[:40]


def load(path: Path) -> Baseline:
    """The baseline at ``path``. Raises UsageError (no such file) or ReportError naming the file and the wrong field."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such baseline", "record one with `ncubble baseline record RUN…`") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f"{path}: unreadable baseline ({error})", _REMEDY) from error
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{path}: not valid JSON, perhaps half-written ({error})", _REMEDY) from error
    reader = _Reader(path, raw)
    schema = reader.get("schema", int)
    if schema > SCHEMA:
        raise ReportError(f"{path}: baseline schema {schema} is newer than {SCHEMA}", "upgrade ncubble")
    if schema != SCHEMA:
        raise reader.error(f"is {schema}, not {SCHEMA}", "schema")
    return _baseline(reader)


def _baseline(reader: _Reader) -> Baseline:
    key, device = reader.child("key"), reader.child("device")
    texts = {name: key.get(name, str, "") for name in ("grid", "block", "nvtx")}
    repeats = reader.get("repeats", int)
    if repeats < FEWEST_REPEATS:
        raise reader.error(f"is {repeats}, fewer than {FEWEST_REPEATS}", "repeats")
    if not device.get("name", str):
        raise device.error("is empty", "name")
    metrics = reader.child("metrics")
    clocks = _Reader(reader.origin, reader.get("sm_clock_hz", dict, {}), "sm_clock_hz")
    return Baseline(
        key=KernelKey(key.get("kernel", str), key.free("parameters"), key.free("shape"), **texts),
        device=device.get("name", str),
        compute_capability=device.get("compute_capability", str),
        driver=device.get("driver", str, ""),
        ncu_version=reader.get("ncu_version", str),
        recorded=reader.get("recorded", str),
        repeats=repeats,
        metrics={name: _metric(metrics.child(name), repeats) for name in metrics.raw},
        sm_clock_hz={name: clocks.number(name) for name in clocks.raw},
        build=reader.free("build"),
        geometry=reader.free("geometry"),
        git=reader.free("git"),
        reports=tuple(_objects(reader, "reports")),
        path=reader.origin,
    )


def _objects(reader: _Reader, name: str) -> list[dict[str, Any]]:
    return [_Reader(reader.origin, item, f"{name}[{i}]").raw for i, item in enumerate(reader.get(name, list, []))]


def _metric(reader: _Reader, repeats: int) -> BaselineMetric:
    better, gated = reader.get("better", str), reader.get("gated", bool)
    if better not in ("higher", "lower", "neutral"):
        raise reader.error(f"is {better!r}, not higher, lower or neutral", "better")
    if gated and better == "neutral":
        raise reader.error("is neutral, so the metric cannot be gated", "better")
    values = tuple(reader.number(f"values[{i}]", value) for i, value in enumerate(reader.get("values", list)))
    if not 1 <= len(values) <= repeats or (gated and len(values) < FEWEST_REPEATS):
        raise reader.error(f"holds {len(values)} values for {repeats} repeats", "values")
    mean, sd = mean_sd(values)
    if gated and mean <= 0:
        raise reader.error(f"have a mean of {mean:g}: a relative loss cannot be told", "values")
    for name, actual in (("mean", mean), ("sd", sd)):
        if math.isfinite(actual) and not math.isclose(
            reader.number(name), actual, rel_tol=1e-6, abs_tol=1e-9 * abs(mean)
        ):
            raise reader.error(f"is {reader.raw[name]!r}, but the values say {actual!r}", name)
    return BaselineMetric(reader.get("counter", str), reader.get("unit", str), better, gated, values)


def load_store(path: Path) -> tuple[list[Baseline], list[NcubbleError]]:
    """All baselines below the directory ``path``, or the one in the file ``path``; a broken one hides no other.

    Of two files for one kernel and GPU model neither is taken: which of them holds is for a person to say.
    """
    if not path.exists():
        raise UsageError(
            f"{path}: no such baseline file or directory", "record one with `ncubble baseline record RUN…`"
        )
    baselines: list[Baseline] = []
    errors: list[NcubbleError] = []
    for file in sorted(path.rglob("*.json")) if path.is_dir() else [path]:
        try:
            baselines.append(load(file))
        except NcubbleError as error:
            errors.append(error)
    return _unique(baselines, errors), errors


def _unique(baselines: list[Baseline], errors: list[NcubbleError]) -> list[Baseline]:
    files: dict[tuple[str, str], list[Baseline]] = {}
    for item in baselines:
        files.setdefault((item.device, item.key.canonical), []).append(item)
    for rivals in files.values():
        if len(rivals) > 1:
            names = " and ".join(str(item.path) for item in rivals)
            errors.append(ReportError(f"{names}: baselines of the same kernel and GPU", "keep one of them"))
    return [rivals[0] for rivals in files.values() if len(rivals) == 1]


def save(pairs: Iterable[tuple[Path, Baseline]], *, force: bool = False) -> None:
    """Write each baseline to its path, whole or not at all. Raises UsageError if one exists and ``force`` is not given.

    Nothing is written if any of the paths exists at the start; a file that appears meanwhile is not overwritten
    either.
    """
    planned = list(pairs)
    existing = [str(path) for path, _ in planned if path.exists()]
    if existing and not force:
        raise _exists(", ".join(existing))
    for path, baseline in planned:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(
                path,
                json.dumps(_rounded(baseline.to_json()), indent=1, ensure_ascii=False, allow_nan=False) + "\n",
                force,
            )
        except FileExistsError as error:
            raise _exists(str(path)) from error
        except OSError as error:
            raise MeasurementError(
                f"{path}: could not write the baseline ({error})", "check space and permissions"
            ) from error


def _exists(what: str) -> UsageError:
    return UsageError(f"would overwrite {what}", "give --force, or choose another place with --output")


def _rounded(value: Any) -> Any:
    """NaN (the deviation of one value) as null; everything else as it is."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _write(path: Path, text: str, force: bool) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        if force:
            temporary.replace(path)
        else:
            _claim(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def _claim(temporary: Path, path: Path) -> None:
    """Give ``temporary`` the name ``path`` unless it is taken: of two recordings at once exactly one wins."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        path.touch(exist_ok=False)
        temporary.replace(path)
