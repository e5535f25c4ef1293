"""Joins predictions of depth with what was measured afterwards, and scores them.

``predictions.json`` was written first: ``written`` (UTC, ISO 8601), ``git`` of the code that
predicted, and ``predictions``, each with ``family``, ``config``, ``split``, ``from_stages``,
``to_stages``, ``predicted`` (``tensor_elapsed_pct``, ``cycles``, ``low``, ``high``; None: not
identified) and ``baselines`` (utilization by name). ``measured.json`` came after it: ``started``,
``device``, ``ncu_version``, and ``launches``, each with ``family``, ``config``, ``stages``,
``tensor_elapsed_pct`` and ``cycles``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ncubble.analysis.validation.prediction.score import score
from ncubble.analysis.validation.recorded import load
from ncubble.errors import ReportError

PREDICTIONS, MEASURED, SECOND = "predictions.json", "measured.json", "second"

Row = dict[str, Any]


def score_prediction(folder: Path) -> dict[str, Any]:
    """The whole result, JSON-ready (schema: docs/reference/validations.md), of recordings in
    ``folder``, and of those in ``folder/second``, if any, which were kept apart a second time.

    ``git`` is the commit that predicted. Raises ReportError where files are missing or damaged,
    where no predicted depth was measured, or where the predictions were written after the
    measurement began.
    """
    told, rows, missing = _read(folder)
    second = None
    if (folder / SECOND / PREDICTIONS).is_file():
        second, more, unscored = _read(folder / SECOND)
        rows += [{**row, "split": SECOND} for row in more]
        missing.update(unscored)
    return {
        "schema": 1,
        "validation": "prediction",
        **told,
        "second": second,
        "scores": score(rows),
        "rows": rows,
        "unscored": missing,
    }


def _read(folder: Path) -> tuple[dict[str, Any], list[Row], dict[str, str]]:
    """Where predictions and measurements of one set come from, its rows, and what was not
    measured."""
    predictions, measured = load(folder / PREDICTIONS), load(folder / MEASURED)
    if not predicted_first(predictions, measured):
        raise ReportError(
            f"{folder / PREDICTIONS}: written {predictions['written']}, after the measurement began "
            f"({measured['started']}), so that nothing was predicted",
            "write predictions first, then measure: --measure into an empty folder does both",
        )
    rows, missing = join(predictions, measured)
    if not rows:
        raise ReportError(f"{folder}: no predicted depth was measured", "measure them with --measure")
    told = {key: measured.get(key) for key in ("device", "ncu_version", "started")}
    return {**told, "git": predictions.get("git"), "written": predictions["written"]}, rows, missing


def predicted_first(predictions: Mapping[str, Any], measured: Mapping[str, Any]) -> bool:
    """Whether the predictions were written before the measurement began, of which the second is
    known."""
    written, started = (datetime.fromisoformat(text) for text in (predictions["written"], measured["started"]))
    return written.replace(microsecond=0) <= started


def join(predictions: Mapping[str, Any], measured: Mapping[str, Any]) -> tuple[list[Row], dict[str, str]]:
    """A row per prediction whose depth was measured, with ``measured_pct`` and ``measured_cycles``,
    and one per profile for its own depth; and by configuration the sweeps that were not measured,
    with the reason. A single depth that is missing from a sweep does not exist."""
    found = {(one["family"], one["config"], one["stages"]): one for one in measured["launches"]}
    swept = {(family, config) for family, config, _ in found}
    rows: list[Row] = []
    missing: dict[str, str] = {}
    for one in [*predictions["predictions"], *_present(predictions)]:
        launch = found.get((one["family"], one["config"], one["to_stages"]))
        if launch is None:
            if (one["family"], one["config"]) not in swept:
                missing[one["config"]] = "was not measured"
            continue
        rows.append({**one, "measured_pct": launch["tensor_elapsed_pct"], "measured_cycles": launch["cycles"]})
    return rows, missing


def _present(predictions: Mapping[str, Any]) -> list[Row]:
    """A row for the own depth of every profile that predictions have none for: the depth that may
    be kept."""
    given = {_key(one, one["to_stages"]) for one in predictions["predictions"]}
    profiles = {_key(one, one["from_stages"]): one for one in predictions["predictions"]}
    return [
        {**one, "to_stages": one["from_stages"], "predicted": None, "baselines": {}}
        for key, one in profiles.items()
        if key not in given
    ]


def _key(row: Mapping[str, Any], to_stages: int) -> tuple[Any, ...]:
    return row["family"], row["config"], row["from_stages"], to_stages
