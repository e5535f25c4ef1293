"""A baseline out of its JSON object, with every field checked. Every error names the file and the field."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from ncubble.analysis.gate.accounts.account import Account, from_json
from ncubble.analysis.gate.baseline.baseline import FEWEST_REPEATS, SCHEMA, Baseline, BaselineMetric, Launches
from ncubble.analysis.gate.baseline.repeats import KernelKey
from ncubble.analysis.gate.noise.noise import mean_sd
from ncubble.errors import ReportError

LARGEST = 1e18
"""Of a number in a baseline: nothing that is measured is larger, and its square is still a number."""
SMALLEST = 1e-6
"""Of the mean of a gated metric: by a smaller one a change in percent is no number any more."""
REMEDY = "restore the file from version control, or record it again with `ncubble baseline record --force`"
_MISSING = object()


class Reader:
    """A JSON object that is read by typed members; every error names file and field."""

    def __init__(self, origin: Path, raw: Any, field: str = "") -> None:
        self.origin, self.field = origin, field
        if not isinstance(raw, dict):
            raise self.error("is not an object")
        self.raw: dict[str, Any] = raw

    def error(self, what: str, name: str = "") -> ReportError:
        """The error to raise of member ``name``."""
        field = ".".join(part for part in (self.field, name) if part)
        return ReportError(
            f"{self.origin}: not a usable baseline: {f'field {field!r}' if field else 'the file'} {what}", REMEDY
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

    def child(self, name: str) -> Reader:
        """Member ``name``, an object."""
        return Reader(self.origin, self.get(name, dict), ".".join(part for part in (self.field, name) if part))

    def number(self, name: str, value: Any = _MISSING) -> float:
        """Member ``name``, or ``value``, as a finite number."""
        value = self.raw.get(name, _MISSING) if value is _MISSING else value
        if type(value) not in (int, float) or not abs(value) <= LARGEST:
            raise self.error(f"is {_short(value)}, not a finite number up to {LARGEST:g}", name)
        return float(value)


def _short(value: Any) -> str:
    return "missing" if value is _MISSING else repr(value)[:40]


def parse(origin: Path, raw: Any) -> Baseline:
    """The baseline that the object ``raw`` describes. Raises ReportError naming ``origin`` and the wrong field."""
    reader = Reader(origin, raw)
    schema = reader.get("schema", int)
    if schema > SCHEMA:
        raise ReportError(f"{origin}: baseline schema {schema} is newer than {SCHEMA}", "upgrade ncubble")
    if schema < 1:
        raise reader.error(f"is {schema}, not 1 to {SCHEMA}", "schema")
    found = _baseline(reader)
    return found if schema == 1 else _with_launches(found, reader)


def _baseline(reader: Reader) -> Baseline:
    key, device = reader.child("key"), reader.child("device")
    texts = {name: key.get(name, str, "") for name in ("grid", "block", "nvtx")}
    repeats = reader.get("repeats", int)
    if repeats < FEWEST_REPEATS:
        raise reader.error(f"is {repeats}, fewer than {FEWEST_REPEATS}", "repeats")
    if not device.get("name", str):
        raise device.error("is empty", "name")
    metrics = reader.child("metrics")
    clocks = Reader(reader.origin, reader.get("sm_clock_hz", dict, {}), "sm_clock_hz")
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
        reports=tuple(_report(reader, item, i) for i, item in enumerate(_objects(reader, "reports"))),
        path=reader.origin,
    )


def _objects(reader: Reader, name: str) -> list[dict[str, Any]]:
    return [Reader(reader.origin, item, f"{name}[{i}]").raw for i, item in enumerate(reader.get(name, list, []))]


def _report(reader: Reader, raw: dict[str, Any], index: int) -> dict[str, str]:
    one = Reader(reader.origin, raw, f"reports[{index}]")
    return {name: one.get(name, str) for name in ("name", "key", "gpu") if name in raw}


def _metric(reader: Reader, repeats: int) -> BaselineMetric:
    better, gated = reader.get("better", str), reader.get("gated", bool)
    if better not in ("higher", "lower", "neutral"):
        raise reader.error(f"is {better!r}, not higher, lower or neutral", "better")
    if gated and better == "neutral":
        raise reader.error("is neutral, so the metric cannot be gated", "better")
    found = {
        i: reader.number(f"values[{i}]", value)
        for i, value in enumerate(reader.get("values", list))
        if value is not None
    }
    values = tuple(found.values())
    if not 1 <= len(values) <= repeats or (gated and len(values) < FEWEST_REPEATS):
        raise reader.error(f"holds {len(values)} values for {repeats} repeats", "values")
    mean, sd = mean_sd(values)
    if gated and mean < SMALLEST:
        raise reader.error(f"have a mean of {mean:g}: a relative loss cannot be told", "values")
    for name, actual in (("mean", mean), ("sd", sd)):
        if math.isfinite(actual) and not math.isclose(
            reader.number(name), actual, rel_tol=1e-6, abs_tol=1e-9 * abs(mean)
        ):
            raise reader.error(f"is {reader.raw[name]!r}, but the values say {actual!r}", name)
    if max(found) >= repeats:
        raise reader.error(f"holds {max(found) + 1} values for {repeats} repeats", "values")
    return BaselineMetric(reader.get("counter", str), reader.get("unit", str), better, gated, values, tuple(found))


def _with_launches(found: Baseline, reader: Reader) -> Baseline:
    """What schema 2 adds: launches, account, machine code, history."""
    launches = reader.child("launches")
    run = tuple(launches.get("run", list))
    number = len(found.reports)
    if len(run) != found.repeats or any(type(index) is not int or not 0 <= index < number for index in run):
        raise launches.error(f"is not {found.repeats} numbers of reports below {number}", "run")
    clocks = launches.get("sm_clock_hz", list)
    if len(clocks) != len(run):
        raise launches.error(f"holds {len(clocks)} clocks for {len(run)} launches", "sm_clock_hz")
    known = tuple(
        math.nan if clock is None else launches.number(f"sm_clock_hz[{i}]", clock) for i, clock in enumerate(clocks)
    )
    return replace(
        found,
        launches=Launches(run, known),
        account=_account(reader),
        code=reader.get("sass_sha256", str, ""),
        history=tuple(_objects(reader, "history")),
    )


def _account(reader: Reader) -> Account | None:
    return from_json(reader.child("account")) if "account" in reader.raw else None
