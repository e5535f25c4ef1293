"""A baseline out of its JSON object, with every field checked. Every error names the file and the
field."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from ncubble.analysis.gate.accounts.account import Account
from ncubble.analysis.gate.baseline.baseline import FEWEST_REPEATS, SCHEMA, Baseline, BaselineMetric, Launches
from ncubble.analysis.gate.noise.noise import mean_sd
from ncubble.errors import ReportError
from ncubble.records import WrongFieldError, typed
from ncubble.text.values import current_name, renamed_keys

SMALLEST = 1e-6
"""Minimum mean of a gated metric: below it, a change in percent overflows."""
REMEDY = "restore the file from version control, or record it again with `ncubble baseline record --force`"


def parse(origin: Path, raw: Any) -> Baseline:
    """The baseline that the object ``raw`` describes. Raises ReportError naming ``origin`` and the
    wrong field."""
    schema = raw.get("schema") if isinstance(raw, dict) else None
    if type(schema) is int and schema > SCHEMA:
        raise ReportError(f"{origin}: baseline schema {schema} is newer than {SCHEMA}", "upgrade ncubble")
    try:
        baseline = replace(typed(_plain(raw), Baseline), path=str(origin))
        _check(baseline)
    except WrongFieldError as error:
        raise ReportError(f"{origin}: not a usable baseline: {error}", REMEDY) from error
    if baseline.schema == 1:  # which lacked these fields
        return replace(baseline, launches=Launches(), account=None, sass_sha256="", history=())
    return baseline


def _plain(raw: Any) -> Any:
    """``raw`` with current names of metrics, and the places of its account as ``CodePlace`` has
    them: what stands there, and whether it is SASS."""
    if isinstance(raw, dict) and isinstance(raw.get("metrics"), dict):
        raw = {**raw, "metrics": {current_name(name): metric for name, metric in raw["metrics"].items()}}
    if isinstance(raw, dict) and isinstance(raw.get("history"), list):
        raw = {**raw, "history": [_replaced(entry) for entry in raw["history"]]}
    account = raw.get("account") if isinstance(raw, dict) else None
    if not isinstance(account, dict) or not isinstance(account.get("places"), list):
        return raw
    places = [
        {"file": "", "line": None, **place, **({"text": place["sass"], "sass": True} if "sass" in place else {})}
        if isinstance(place, dict)
        else place
        for place in account["places"]
    ]
    return {**raw, "account": {**account, "places": places}}


def _replaced(entry: Any) -> Any:
    """An entry of ``history`` with current names of metrics."""
    if not isinstance(entry, dict) or not isinstance(entry.get("mean_sd_n"), dict):
        return entry
    return {**entry, "mean_sd_n": renamed_keys(entry["mean_sd_n"])}


def _check(baseline: Baseline) -> None:
    """What types do not say. Raises WrongFieldError."""
    for name in ("build", "geometry", "git"):
        _refuse_nan(getattr(baseline, name), name)
    for name in ("parameters", "shape"):
        _refuse_nan(getattr(baseline.key, name), f"key.{name}")
    for name, metric in baseline.metrics.items():
        _check_metric(metric, f"metrics.{name}", baseline.repeats)
    for index, report in enumerate(baseline.reports):
        typed(report, dict[str, str], f"reports[{index}]")
    if baseline.schema > 1:
        _check_launches(baseline)
        if baseline.account is not None:
            _check_account(baseline.account)


def _refuse_nan(value: Any, name: str) -> None:
    """Free members may hold whatever is JSON, which NaN is not."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise WrongFieldError(name, "contains NaN or infinity") from error


def _check_metric(metric: BaselineMetric, name: str, repeats: int) -> None:
    known = metric.measured
    if metric.gated and metric.better == "neutral":
        raise WrongFieldError(f"{name}.better", "is neutral, so the metric cannot be gated")
    if not 1 <= len(known) <= repeats or (metric.gated and len(known) < FEWEST_REPEATS):
        raise WrongFieldError(f"{name}.values", f"has {len(known)} values for {repeats} repeats")
    if len(metric.values) > repeats:
        raise WrongFieldError(f"{name}.values", f"has {len(metric.values)} values for {repeats} repeats")
    mean, sd = mean_sd(known)
    if metric.gated and mean < SMALLEST:
        raise WrongFieldError(f"{name}.values", f"have a mean of {mean:g}: a relative loss is undefined")
    for member, stated, actual in (("mean", metric.mean, mean), ("sd", metric.sd, sd)):
        alike = stated is not None and math.isclose(stated, actual, rel_tol=1e-6, abs_tol=1e-9 * abs(mean))
        if math.isfinite(actual) and not alike:
            raise WrongFieldError(f"{name}.{member}", f"is {stated!r}, but the values give {actual!r}")


def _check_launches(baseline: Baseline) -> None:
    launches, reports = baseline.launches, len(baseline.reports)
    if len(launches.run) != baseline.repeats or not all(0 <= index < reports for index in launches.run):
        raise WrongFieldError("launches.run", f"is not {baseline.repeats} numbers of reports below {reports}")
    if (clocks := len(launches.sm_clock_hz)) != len(launches.run):
        raise WrongFieldError("launches.sm_clock_hz", f"has {clocks} clocks for {len(launches.run)} launches")


def _check_account(account: Account) -> None:
    if not account.parts or len({len(values) for values in account.parts.values()}) > 1:
        raise WrongFieldError("account.parts", "has no parts, or parts with different numbers of values")
    for index, launch in enumerate(zip(*account.parts.values(), strict=True)):
        known = [value for value in launch if value is not None]
        if known and (len(known) < len(launch) or abs(math.fsum(known) - 100.0) > 0.05):
            raise WrongFieldError("account.parts", f"of launch {index} do not sum to 100")
