"""Numbers and verdicts of checks in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from ncubble.analysis.account.palette import VERDICT_STYLES, VerdictStyle
from ncubble.analysis.history.checked import CheckedKernel
from ncubble.text.values import NOT_COLLECTED, duration, number

METRIC_WORDS = {
    "tensor_elapsed_pct": "tensor pipe active",
    "cycles": "elapsed SM cycles",
    "duration_ns": "duration",
    "dram_pct": "DRAM throughput",
}
_PAST = {"pass": "passed"}
_SHA = re.compile(r"[0-9a-f]{7,64}")


def style_of(verdict: str) -> VerdictStyle:
    """How a verdict is shown; an unknown one by its own name."""
    known = VERDICT_STYLES.get(verdict)
    plain = VERDICT_STYLES["info"]
    return known or VerdictStyle(verdict.replace("_", " ")[:40] or "unknown", plain.color, plain.symbol, plain.sign)


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
    scattered, count = number(sd), number(n)
    scale, digits = {"ns": (1e-3, 2), "cycle": (1.0, 0)}.get(str(unit), (1.0, 2))
    around = "" if scattered is None else f" ± {scattered * scale:,.{digits}f}{' µs' if unit == 'ns' else ''}"
    return f"{amount(mean, unit)}{around}{f' (n = {count:.0f})' if count else ''}"


def change(value: Any) -> str:
    """A change in percent of the baseline with its sign, or ``not compared``."""
    known = number(value)
    return "not compared" if known is None else f"{known:+.2f} %"


def fails(row: Mapping[Any, Any]) -> str:
    """The value beyond which a metric fails, with the change that it stands for; empty where it is
    not gated."""
    at, loss = number(row["threshold"]), number(row["decision_pct"])
    if at is None or loss is None:
        return ""
    below = row["better"] == "higher"
    return f"{'below' if below else 'above'} {amount(at, row['unit'])} ({'-' if below else '+'}{loss:.2f} %)"


def commit(row: Mapping[Any, Any]) -> str:
    """The commit of what was measured, shortened, else that of the checkout in which it was
    checked."""
    own, here = _short(row["git_sha"]), _short(row["checked_sha"])
    if own:
        return f"{own}{' with changes' if row['git_dirty'] is True else ''}"
    return f"checked at {here}" if here else NOT_COLLECTED


def short_sha(text: Any) -> str:
    """The first ten digits of a commit, or as many of the text; empty without one."""
    return _short(text)


def _short(value: Any) -> str:
    if not isinstance(value, str) or not value:
        return ""
    return ", ".join(one[:10] if _SHA.fullmatch(one) else one[:40] for one in value.split(", ")[:3])


def when(time: Any) -> str:
    """A time as ``2026-11-21 14:03 UTC``, or ``not collected``."""
    return NOT_COLLECTED if time is None or pd.isna(time) else f"{time:%Y-%m-%d %H:%M} UTC"


def reason_of(row: Mapping[Any, Any]) -> str:
    """Why the verdict is no number, in one line; empty where it is one."""
    texts = (row["reason"], row["kernel_reason"] if row["verdict"] != "info" else None)
    return next((text for text in texts if isinstance(text, str) and text), "")


def sentence(subject: CheckedKernel, row: Mapping[Any, Any] | None) -> str:
    """The last check in one sentence. ``row`` is that of the shown metric, if it was measured."""
    word = _PAST.get(subject.verdict) or style_of(subject.verdict).label
    head = f"{word[:1].upper()}{word[1:]} at the last check, {when(subject.checked)}"
    if row is None or number(row["mean"]) is None:
        return f"{head}: {subject.reason or 'no value was measured'}."
    name, unit = metric_words(str(row["metric"])), row["unit"]
    said = f"{head}: {name} {amount(row['mean'], unit)} against {amount(row['baseline_mean'], unit)} of the baseline"
    moved = f", {change(row['change_pct'])}" if number(row["change_pct"]) is not None else ""
    limit = f"; fails {fails(row)}" if fails(row) else "; shown only, not gated" if row["verdict"] == "info" else ""
    return f"{said}{moved}{limit}."
