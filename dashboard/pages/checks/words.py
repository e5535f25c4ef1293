"""Numbers and verdicts of checks in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from ncubble.analysis.account.palette import VERDICT_STYLES, VerdictStyle
from ncubble.analysis.history.checked import CheckedKernel
from ncubble.text.values import NOT_COLLECTED, duration, number, string

METRIC_WORDS = {
    "tensor_elapsed_pct": "tensor pipe active",
    "cycles": "elapsed SM cycles",
    "duration_ns": "duration",
    "dram_pct": "DRAM throughput",
}
Check = Mapping[Any, Any]
"""Row of ``history.checked.of_metric``."""
_SHA = re.compile(r"[0-9a-f]{7,64}")


def style_of(verdict: str) -> VerdictStyle:
    """How a verdict is shown; an unknown one by its own name."""
    label = verdict.replace("_", " ")[:40] or "unknown"
    return VERDICT_STYLES.get(verdict) or replace(VERDICT_STYLES["info"], label=label)


def metric_words(metric: str) -> str:
    """A metric of the gate in words; an unknown one by its name."""
    return METRIC_WORDS.get(metric, metric.replace("_", " ")[:60])


def amount(value: Any, unit: Any) -> str:
    """A mean with its unit in digits that tell a regression, or ``not collected``."""
    known = number(value)
    if known is None:
        return NOT_COLLECTED
    if unit == "ns":
        return duration(known)
    if unit == "cycle":
        return f"{known:,.0f} cycles"
    return f"{known:.2f} %" if unit == "%" else f"{known:.5g} {unit or ''}".strip()


def spread(mean: Any, sd: Any, n: Any, unit: Any) -> str:
    """Mean, standard deviation and number of repeats: ``44.98 % ± 0.04 (n = 5)``."""
    if number(mean) is None:
        return NOT_COLLECTED
    scatter, count = number(sd), number(n)
    form = {"ns": "{:,.2f} µs", "cycle": "{:,.0f}"}.get(str(unit), "{:,.2f}")
    around = "" if scatter is None else f" ± {form.format(scatter * 1e-3 if unit == 'ns' else scatter)}"
    return f"{amount(mean, unit)}{around}{f' (n = {count:.0f})' if count else ''}"


def mean_spread(row: Check) -> str:
    """What a check measured."""
    return spread(row["mean"], row["sd"], row["n"], row["unit"])


def baseline_spread(row: Check) -> str:
    """What its baseline had measured."""
    return spread(row["baseline_mean"], row["baseline_sd"], row["baseline_n"], row["unit"])


def change(value: Any) -> str:
    """A change in percent of the baseline with its sign, or ``not compared``."""
    known = number(value)
    return "not compared" if known is None else f"{known:+.2f} %"


def fails(row: Check) -> str:
    """The value beyond which a metric fails, with the change that it stands for; empty where it is
    not gated."""
    at, loss = number(row["threshold"]), number(row["decision_pct"])
    if at is None or loss is None:
        return ""
    below = row["better"] == "higher"
    return f"{'below' if below else 'above'} {amount(at, row['unit'])} ({'-' if below else '+'}{loss:.2f} %)"


def commit(row: Check) -> str:
    """The commit of what was measured, shortened, else that of the checkout in which it was
    checked."""
    if own := short_sha(row["git_sha"]):
        return f"{own}{' with changes' if row['git_dirty'] is True else ''}"
    here = short_sha(row["checked_sha"])
    return f"checked at {here}" if here else NOT_COLLECTED


def short_sha(value: Any) -> str:
    """The first ten digits of a commit, or as many of the text; empty without one."""
    texts = string(value).split(", ")[:3]
    return ", ".join(text[:10] if _SHA.fullmatch(text) else text[:40] for text in texts)


def when(time: Any) -> str:
    """A time as ``2026-11-21 14:03 UTC``, or ``not collected``."""
    return NOT_COLLECTED if time is None or pd.isna(time) else f"{time:%Y-%m-%d %H:%M} UTC"


def reason_of(row: Check) -> str:
    """Why the verdict is no number, in one line; empty where it is one."""
    return string(row["reason"]) or (string(row["kernel_reason"]) if row["verdict"] != "info" else "")


def sentence(subject: CheckedKernel, row: Check | None) -> str:
    """The last check in one sentence. ``row`` is that of the shown metric, if it was measured."""
    word = "passed" if subject.verdict == "pass" else style_of(subject.verdict).label
    head = f"{word[:1].upper()}{word[1:]} at the last check, {when(subject.checked)}"
    if row is None or number(row["mean"]) is None:
        return f"{head}: {subject.reason or 'no value was measured'}."
    measured, baseline = amount(row["mean"], row["unit"]), amount(row["baseline_mean"], row["unit"])
    moved = f", {change(row['change_pct'])}" if number(row["change_pct"]) is not None else ""
    limit = f"; fails {fails(row)}" if fails(row) else "; shown only, not gated" if row["verdict"] == "info" else ""
    return f"{head}: {metric_words(str(row['metric']))} {measured} against {baseline} of the baseline{moved}{limit}."
