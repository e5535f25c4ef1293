"""The history of the gate: one row per kernel, GPU model and metric of every check, so that a trend
can be read off it.

Pure: ``rows`` turns a check into rows of ``COLUMNS``; ``file`` keeps them on disk. A kernel that
could not be judged by any metric, and a check without any kernel, have one row without a metric:
nothing that was tried is missing.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

import pyarrow as pa

from ncubble.analysis.gate.noise import mean_sd
from ncubble.analysis.gate.verdicts import GateResult, KernelVerdict, MetricVerdict

SCHEMA = 2
"""Any change of ``COLUMNS`` raises it: files are merged, and an unknown column would be lost. Only
nullable columns are added: files of an older schema are read with nulls. 2: ``gpu``."""
LONGEST = 2000
"""Maximum length of a reason, note or error."""
_TEXT, _NUMBER, _COUNT, _FLAG = pa.string(), pa.float64(), pa.int32(), pa.bool_()
_TIME = pa.timestamp("us", tz="UTC")
_TEXTS, _NUMBERS = pa.list_(_TEXT), pa.list_(_NUMBER)

COLUMNS = pa.schema(
    [
        ("check", _TEXT),  # one id per check; with ``row`` it names a row wherever the file is copied to
        ("row", _COUNT),
        ("checked", _TIME),
        ("measured", _TIME),  # start of the newest run that was checked, null for bare reports
        ("gate_verdict", _TEXT),
        ("exit_code", _COUNT),
        ("gate_errors", _TEXTS),  # inputs that could not be read
        ("id", _TEXT),  # KernelKey.slug
        ("key", _TEXT),  # KernelKey.canonical
        ("label", _TEXT),
        ("kernel", _TEXT),
        ("parameters", _TEXT),  # JSON object
        ("shape", _TEXT),  # JSON object
        ("device", _TEXT),
        ("compute_capability", _TEXT),
        ("kernel_verdict", _TEXT),
        ("kernel_reason", _TEXT),
        ("notes", _TEXTS),
        ("metric", _TEXT),  # null: this kernel could not be judged
        ("counter", _TEXT),
        ("unit", _TEXT),
        ("better", _TEXT),
        ("gated", _FLAG),
        ("verdict", _TEXT),
        ("reason", _TEXT),
        ("mean", _NUMBER),
        ("sd", _NUMBER),
        ("n", _COUNT),
        ("values", _NUMBERS),
        ("baseline_mean", _NUMBER),
        ("baseline_sd", _NUMBER),
        ("baseline_n", _COUNT),
        ("baseline_recorded", _TEXT),
        ("baseline_path", _TEXT),
        ("limit_pct", _NUMBER),
        ("decision_pct", _NUMBER),  # the loss beyond which it fails if the SM clock explains none of it, in percent …
        (
            "threshold",
            _NUMBER,
        ),  # the value beyond which it fails, including what the clock may explain
        ("detectable_pct", _NUMBER),
        ("change_pct", _NUMBER),
        ("loss_pct", _NUMBER),
        ("p_value", _NUMBER),
        ("git_sha", _TEXT),  # of the runs; several are joined by ", "
        ("git_dirty", _FLAG),
        ("checked_sha", _TEXT),  # of the repository in which the check ran
        ("ncu_version", _TEXT),
        ("driver", _TEXT),
        ("gpu", _TEXTS),  # UUIDs of the GPUs; null if no manifest has them, as in all rows of schema 1
        ("sm_clock_hz", _NUMBER),
        ("reports", _TEXTS),  # content hashes, 16 hex digits each
        ("paths", _TEXTS),  # what was checked, as given
        ("ncubble", _TEXT),
    ]
)


@dataclass(frozen=True)
class Occasion:
    """When and where a check ran: ``paths`` as given, ``sha`` of the repository around the working
    directory."""

    paths: Sequence[str] = ()
    sha: str = ""
    version: str = ""
    checked: datetime = field(default_factory=lambda: datetime.now(UTC))
    nonce: str = field(default_factory=lambda: secrets.token_hex(6))

    @property
    def check(self) -> str:
        """The id of the check: begins with its time, so that ids sort by it, and is unique."""
        return f"{self.checked.astimezone(UTC):%Y%m%dT%H%M%S}-{self.nonce}"


def rows(result: GateResult, occasion: Occasion) -> list[dict[str, Any]]:
    """The rows of a check, one per kernel and metric, as dicts by name of ``COLUMNS``; never
    empty."""
    base = {
        "check": occasion.check,
        "checked": occasion.checked,
        "gate_verdict": result.verdict,
        "exit_code": result.exit_code,
        "gate_errors": [_short(f"{file}: {error}") for file, error in result.errors],
        "checked_sha": occasion.sha or None,
        "paths": list(occasion.paths),
        "ncubble": occasion.version or None,
    }
    parts = [base | part for kernel in result.kernels for part in _of_kernel(kernel)]
    if not parts:
        reason = "no kernel was checked"
        parts = [base | {"kernel_verdict": result.verdict, "verdict": result.verdict, "kernel_reason": reason}]
    return [row | {"row": number} for number, row in enumerate(parts)]


def _of_kernel(kernel: KernelVerdict) -> Iterable[dict[str, Any]]:
    key = kernel.repeats.key if kernel.repeats else kernel.baseline.key if kernel.baseline else None
    known = {
        "id": key.slug if key else None,
        "key": key.canonical if key else None,
        "label": kernel.label,
        "kernel": key.kernel if key else None,
        "parameters": json.dumps(dict(key.parameters)) if key else None,
        "shape": json.dumps(dict(key.shape)) if key else None,
        "device": kernel.device,
        "kernel_verdict": kernel.verdict,
        "kernel_reason": _short(kernel.reason) or None,
        "notes": [_short(note) for note in (*kernel.suspicions, *kernel.notes)],
        **_of_launches(kernel),
        **_of_baseline(kernel),
    }
    if not kernel.metrics:
        return [known | {"verdict": kernel.verdict, "reason": _short(kernel.reason) or None}]
    return [known | _of_metric(metric) for metric in kernel.metrics]


def _of_launches(kernel: KernelVerdict) -> dict[str, Any]:
    """Where the launches come from; empty where there are none."""
    group = kernel.repeats
    if group is None:
        return {}
    shas = sorted({str(commit.get("sha")) for commit in group.commits if commit.get("sha")})
    starts = [time for text in group.started if (time := _time(text))]
    return {
        "compute_capability": group.compute_capability or None,
        "git_sha": ", ".join(shas) or None,
        "git_dirty": any(commit.get("dirty") for commit in group.commits) if shas else None,
        "measured": max(starts, default=None),
        "ncu_version": ", ".join(sorted(group.ncu_versions)) or None,
        "driver": ", ".join(sorted(group.drivers)) or None,
        "gpu": sorted(group.gpus) or None,
        "sm_clock_hz": fmean(group.clocks_hz) if group.clocks_hz else None,
        "reports": [report["key"][:16] for report in group.reports],
    }


def _of_baseline(kernel: KernelVerdict) -> dict[str, Any]:
    if kernel.baseline is None:
        return {}
    return {"baseline_recorded": kernel.baseline.recorded, "baseline_path": kernel.baseline.path or None}


def _of_metric(metric: MetricVerdict) -> dict[str, Any]:
    before, test = metric.baseline, metric.comparison
    mean, sd = mean_sd(metric.now) if metric.now else (math.nan, math.nan)
    base_mean, base_sd = mean_sd(before.measured)
    numbers = {
        name: _finite(getattr(test, name))
        for name in ("decision_pct", "detectable_pct", "change_pct", "loss_pct", "p_value")
        if test is not None
    }
    return {
        "metric": metric.name,
        "counter": before.counter,
        "unit": before.unit,
        "better": before.better,
        "gated": before.gated,
        "verdict": metric.verdict,
        "reason": _short(metric.reason) or None,
        "mean": _finite(mean),
        "sd": _finite(sd),
        "n": len(metric.now),
        "values": [value for value in metric.now if math.isfinite(value)],
        "baseline_mean": _finite(base_mean),
        "baseline_sd": _finite(base_sd),
        "baseline_n": len(before.measured),
        "limit_pct": metric.limit_pct if before.gated else None,
        "threshold": _threshold(metric, base_mean),
        **numbers,
    }


def _threshold(metric: MetricVerdict, base_mean: float) -> float | None:
    """The value beyond which the metric fails; None where it is not gated or was not compared."""
    if metric.comparison is None or not metric.baseline.gated:
        return None
    loss = metric.comparison.threshold_pct / 100 * abs(base_mean)
    return _finite(base_mean - loss if metric.baseline.better == "higher" else base_mean + loss)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _time(text: str) -> datetime | None:
    """A time of a manifest, ISO 8601, as UTC; None for anything else."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
