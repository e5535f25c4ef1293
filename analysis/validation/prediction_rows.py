"""Joins predictions of depth with what was measured afterwards.

``predictions.json`` was written first: ``written`` (UTC, ISO 8601), ``git`` of the code that predicted, and
``predictions``, each with ``family``, ``config``, ``split``, ``from_stages``, ``to_stages``, ``predicted``
(``tensor_active_pct``, ``cycles``, ``low``, ``high``; None: not identified) and ``baselines`` (utilization by name).
``measured.json`` came after it: ``started``, ``device``, ``ncu_version``, and ``launches``, each with ``family``,
``config``, ``stages``, ``tensor_active_pct`` and ``cycles``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

Row = dict[str, Any]


def join(predictions: Mapping[str, Any], measured: Mapping[str, Any]) -> tuple[list[Row], dict[str, str]]:
    """A row per prediction whose depth was measured, with ``measured_pct`` and ``measured_cycles``; and by name those
    that were not, with the reason."""
    found = {(one["family"], one["config"], one["stages"]): one for one in measured["launches"]}
    rows: list[Row] = []
    missing: dict[str, str] = {}
    for one in predictions["predictions"]:
        launch = found.get((one["family"], one["config"], one["to_stages"]))
        if launch is None:
            missing[f"{one['family']} {one['config']}, {one['to_stages']} stages"] = "was not measured"
            continue
        rows.append({**one, "measured_pct": launch["tensor_active_pct"], "measured_cycles": launch["cycles"]})
    return rows, missing


def predicted_first(predictions: Mapping[str, Any], measured: Mapping[str, Any]) -> bool:
    """Whether the predictions were written before the measurement began. Nothing else is a prediction."""
    written, started = (datetime.fromisoformat(text) for text in (predictions["written"], measured["started"]))
    return written < started
