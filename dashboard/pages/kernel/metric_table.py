"""Metrics as rows of a table: values with SI prefixes, raw values, and explanations. Pure."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from ncubble.dashboard.pages.kernel.metric_words import UNEXPLAINED, explain
from ncubble.text.values import NOT_COLLECTED

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_NANO = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}
_PLAIN = ("%", "ratio", "")
_LAST = ("device__", "nvlink__", "numa__", "c2clink__", "profiler__")
"""Families that come last: they describe the machine and the profiler, not the launch."""


def metric_rows(metrics: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of ``metrics`` (metric, value, unit) of one launch, those that describe the launch
    itself first, by name.

    ``metric``, ``value`` in words, ``raw`` (None where it is not finite), ``exact`` text, ``unit``
    and ``explained``.
    """
    named = zip(metrics["metric"].astype(str), metrics["value"].tolist(), metrics["unit"].astype(str), strict=True)
    rows = [_row(name, float(value), unit) for name, value, unit in named]
    return sorted(rows, key=lambda row: (row["metric"].startswith(_LAST), row["metric"]))


def _row(name: str, value: float, unit: str) -> dict[str, Any]:
    finite = math.isfinite(value)
    return {
        "metric": name,
        "value": si(value, unit) if finite else NOT_COLLECTED,
        "raw": value if finite else None,
        "exact": f"{value:.17g} {unit}".strip() if finite else NOT_COLLECTED,
        "unit": unit,
        "explained": explain(name) or UNEXPLAINED,
    }


def si(value: float, unit: str) -> str:
    """``value`` with four significant digits and the SI prefix of its unit: ``1.755 GHz``, ``41.75
    kB``, ``34.7 %``.

    Whole numbers without a unit stay as they are; bytes count in powers of 1000.
    """
    if unit in _NANO:
        return _scaled(value * _NANO[unit] * 1e-9, "s")
    if unit in _PLAIN:
        return _plain(value, unit)
    base, _, per = unit.partition("/")
    symbol = {"byte": "B", "hz": "Hz", "hertz": "Hz"}.get(base.lower(), base)
    return _scaled(value, f"{symbol}/{per}" if per else symbol)


def _plain(value: float, unit: str) -> str:
    digits = f"{value:.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.4g}"
    return f"{digits} {unit}".strip()


def _scaled(value: float, unit: str) -> str:
    size = abs(value)
    if size == 0 or (value == int(value) and size < 1000):
        return f"{value:.0f} {unit}"
    for scale, prefix in (*_PREFIXES, *(_SMALL if unit == "s" else _SMALL[:1])):
        if size >= scale:
            return _join(value / scale, prefix, unit)
    return f"{value:.4g} {unit}" if unit != "s" else _join(value * 1e9, "n", "s")


def _join(value: float, prefix: str, unit: str) -> str:
    # ``k`` before a word such as ``inst`` or ``sector`` stands apart from it; symbols are joined.
    word = len(unit.partition("/")[0]) > 2
    return f"{value:.4g} {prefix}{' ' if word and prefix else ''}{unit}"
