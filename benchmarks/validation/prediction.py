"""Predictions of depth, joined with what was measured afterwards, and scored.

``predictions.json`` was written first: ``written`` (UTC, ISO 8601), ``git`` of the code that
predicted, and ``predictions``, each with ``family``, ``config`` (unique within it), ``split``,
``from_stages``, ``to_stages``, ``predicted`` (``tensor_elapsed_pct``, ``cycles``, ``low``,
``high``; None: not identified) and ``baselines`` (utilization by name). ``measured.json`` came
after it: ``started``, ``device``, ``ncu_version``, and ``launches``, each with ``family``,
``config``, ``stages``, ``tensor_elapsed_pct`` and ``cycles``.

A row is a prediction with ``measured_pct`` and ``measured_cycles`` at ``to_stages``, and ``today``:
what the code that runs predicts of the same profile, like ``predicted``. Errors are in
points of utilization. Rows with ``to_stages`` equal to ``from_stages`` say what was measured there
and are not scored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.validation.page import Result, Table, number, verdict
from benchmarks.validation.recorded import load, opener, unscored_notes
from ncubble.analysis.model.depths import predict_all
from ncubble.analysis.model.pipeline import pipeline_of
from ncubble.analysis.model.predict import Prediction, chosen_depth
from ncubble.errors import ReportError

PREDICTIONS, MEASURED, SECOND = "predictions.json", "measured.json", "second"
OURS, TODAY = "predicted", "today"
"""Predictions made before the measurement, and predictions of the current code from the same
profiles, to which it may have been fitted."""
FITTED = "dev"
"""The split to which the model may have been fitted; targets apply to the others."""
FLAT = 2.0
"""Minimum span of a sweep, in points, for the order of its depths to be meaningful."""
MAE_TARGET, REGRET_TARGET = 5.0, 3.0

TARGETS = {
    "mae": "mean absolute error, points",
    "regret_pct": "mean regret, % of the best utilization",
    "best_baseline_mae": "mean absolute error, compared with the best baseline's",
}
SETS = {"test": "held out", "second": "second held-out set", "dev": "fitted"}

Value = Callable[[Result], float | None]


def score_prediction(folder: Path) -> dict[str, Any]:
    """The whole result, JSON-ready, of recordings in
    ``folder``, and of those in ``folder/second``, if any, the second held-out set.

    ``git`` is the commit that predicted. Raises ReportError where files are missing or damaged,
    where no predicted depth was measured, or where the predictions were written after the
    measurement began.
    """
    origin, rows, unscored = _read(folder)
    second = None
    if (folder / SECOND / PREDICTIONS).is_file():
        second, more, missing = _read(folder / SECOND)
        rows += [{**row, "split": SECOND} for row in more]
        unscored |= missing
    return {
        "schema": 1,
        "validation": "prediction",
        **origin,
        "second": second,
        "scores": score(rows),
        "rows": rows,
        "unscored": unscored,
    }


def _read(folder: Path) -> tuple[dict[str, Any], list[Result], dict[str, str]]:
    """Where predictions and measurements of one set come from, its rows, and what was not
    measured."""
    predictions, measured = load(folder / PREDICTIONS), load(folder / MEASURED)
    written, started = (datetime.fromisoformat(text) for text in (predictions["written"], measured["started"]))
    if written.replace(microsecond=0) > started:  # the start is known to the second
        raise ReportError(
            f"{folder / PREDICTIONS}: written {predictions['written']}, after the measurement began "
            f"({measured['started']}), so nothing was predicted",
            "write predictions first, then measure: --measure into an empty folder does both",
        )
    rows, missing = join(predictions, measured)
    if not rows:
        raise ReportError(f"{folder}: no predicted depth was measured", "measure them with --measure")
    origin = {key: measured.get(key) for key in ("device", "ncu_version", "started")}
    return (
        {**origin, "git": predictions.get("git"), "written": predictions["written"]},
        _with_today(folder, rows),
        missing,
    )


def _with_today(folder: Path, rows: Sequence[Result]) -> list[Result]:
    """Rows with what the code that runs predicts: None where it was not identified then, or is not
    now, or where no profile is kept."""
    reports = opener(folder, [row["run"] for row in rows if row["predicted"] and "run" in row])

    @cache
    def sweep(run: str, launch: int, present: int) -> dict[int, Prediction | None]:
        return predict_all(pipeline_of(reports(run).launch(launch), present))

    found: list[Result] = []
    for row in rows:
        today = None
        if row["predicted"] and "run" in row:
            today = sweep(row["run"], row["launch"], row["from_stages"]).get(row["to_stages"])
        found.append({**row, TODAY: asdict(today) if today else None})
    return found


def join(predictions: Result, measured: Result) -> tuple[list[Result], dict[str, str]]:
    """A row per prediction whose depth was measured, with ``measured_pct`` and ``measured_cycles``,
    and one per profile for its own depth; and by configuration the sweeps that were not measured,
    with the reason. A single depth that is missing from a sweep does not exist."""
    launches = {(launch["family"], launch["config"], launch["stages"]): launch for launch in measured["launches"]}
    swept = {(family, config) for family, config, _ in launches}
    rows: list[Result] = []
    missing: dict[str, str] = {}
    for row in [*predictions["predictions"], *_present(predictions["predictions"])]:
        launch = launches.get((row["family"], row["config"], row["to_stages"]))
        if launch is not None:
            rows.append({**row, "measured_pct": launch["tensor_elapsed_pct"], "measured_cycles": launch["cycles"]})
        elif (row["family"], row["config"]) not in swept:
            missing[row["config"]] = "was not measured"
    return rows, missing


def _present(predictions: Sequence[Result]) -> list[Result]:
    """A row for the own depth of every profile that predictions have none for: the depth that may
    be kept."""
    profiles = {(row["family"], row["config"], row["from_stages"]): row for row in predictions}
    given = {(row["family"], row["config"], row["from_stages"], row["to_stages"]) for row in predictions}
    return [
        {**row, "to_stages": row["from_stages"], "predicted": None, "baselines": {}}
        for key, row in profiles.items()
        if (*key, row["from_stages"]) not in given
    ]


def score(rows: Sequence[Result]) -> dict[str, Any]:
    """``splits`` by name; by the same names ``families``, by theirs, and ``targets`` with limit,
    value and ``met``, of splits that nothing was fitted to.

    Each part has ``asked``, ``not_identified_pct``, and ``methods``: for ``predicted``, ``today``
    and every baseline what ``method_score`` gives, over the rows that were predicted. ``predicted``
    also has ``coverage_pct`` (of intervals) and ``mape_pct`` (of cycles).
    """
    splits = _by(rows, "split")
    scores = {name: part_score(part) for (name,), part in splits.items()}
    return {
        "splits": scores,
        "families": {
            name: {family: part_score(members) for (family,), members in _by(part, "family").items()}
            for (name,), part in splits.items()
        },
        "targets": {name: targets(part) for name, part in scores.items() if name != FITTED},
    }


def targets(part: Result) -> dict[str, dict[str, Any]]:
    """Whether a part of the score meets what was aimed at; ``met`` is None where nothing was
    predicted."""
    ours = part["methods"][OURS]
    rivals = [
        method["mae"]
        for name, method in part["methods"].items()
        if name not in (OURS, TODAY) and method["mae"] is not None
    ]
    limits = {
        "mae": (MAE_TARGET, ours["mae"]),
        "regret_pct": (REGRET_TARGET, ours["regret_pct"]),
        "best_baseline_mae": (min(rivals, default=None), ours["mae"]),
    }
    return {
        name: {"limit": limit, "value": value, "met": None if value is None or limit is None else value <= limit}
        for name, (limit, value) in limits.items()
    }


def part_score(rows: Sequence[Result]) -> dict[str, Any]:
    """The score of some rows; figures of nothing are None."""
    others = [row for row in rows if row["to_stages"] != row["from_stages"]]
    predicted = [row for row in others if row["predicted"]]
    names = sorted({name for row in others for name in row["baselines"]})
    inside = [row["predicted"]["low"] <= row["measured_pct"] <= row["predicted"]["high"] for row in predicted]
    apart = [abs(row["predicted"]["cycles"] / row["measured_cycles"] - 1.0) for row in predicted]
    ours = {
        **method_score(predicted, rows, _busy(OURS)),
        "coverage_pct": _mean([100.0 * hit for hit in inside]),
        "mape_pct": _mean([100.0 * miss for miss in apart]),
    }
    renewed = any(row.get(TODAY) for row in predicted)
    return {
        "asked": len(others),
        "not_identified_pct": 100.0 * (1.0 - len(predicted) / len(others)) if others else None,
        "methods": {
            OURS: ours,
            **({TODAY: method_score(predicted, rows, _busy(TODAY))} if renewed else {}),
            **{name: method_score(predicted, rows, _baseline(name)) for name in names},
        },
    }


def method_score(predicted: Sequence[Result], rows: Sequence[Result], value: Value) -> dict[str, Any]:
    """``n``, ``mae``, ``bias``, ``worst`` (config, depths and error), mean ``rank`` correlation
    over sweeps that span ``FLAT`` points, and mean and worst regret in percent of the best measured
    utilization, where depths are chosen by ``value``."""
    errors = [(row, pct - row["measured_pct"]) for row in predicted if (pct := value(row)) is not None]
    row, error = max(errors, key=lambda pair: abs(pair[1]), default=(None, 0.0))
    sweeps = list(_by(predicted, "family", "config", "from_stages").values())
    regrets = [lost for sweep in sweeps if (lost := regret(sweep, _measured(rows, sweep[0]), value)) is not None]
    keys = ("family", "config", "from_stages", "to_stages")
    return {
        "n": len(errors),
        "mae": _mean([abs(error) for _, error in errors]),
        "bias": _mean([error for _, error in errors]),
        "worst": {**{key: row[key] for key in keys}, "error": error} if row else None,
        "rank": _mean([rank for sweep in sweeps if (rank := rank_correlation(sweep, value)) is not None]),
        "regret_pct": _mean(regrets),
        "worst_regret_pct": max(regrets, default=None),
    }


def rank_correlation(sweep: Sequence[Result], value: Value) -> float | None:
    """Spearman's correlation of predicted and measured utilization over the depths of one sweep.

    None for fewer than three depths, or where the measured ones span less than ``FLAT`` points; 0
    where all predictions are the same.
    """
    pairs = [(pct, row["measured_pct"]) for row in sweep if (pct := value(row)) is not None]
    measured = [pct for _, pct in pairs]
    if len(pairs) < 3 or max(measured) - min(measured) < FLAT:
        return None
    ranks = pd.DataFrame(pairs).rank()
    return 0.0 if ranks[0].nunique() == 1 else float(ranks[0].corr(ranks[1]))


def regret(sweep: Sequence[Result], measured: Mapping[int, float], value: Value) -> float | None:
    """Utilization lost by the depth that predictions would choose, in percent of that of the best
    depth.

    ``measured`` is by depth and holds the present one, which may be chosen, too. None where that
    was not measured.
    """
    present = sweep[0]["from_stages"]
    predicted = {row["to_stages"]: pct for row in sweep if (pct := value(row)) is not None}
    if present not in measured or not predicted:
        return None
    predicted[present] = measured[present]
    best = max(measured[depth] for depth in predicted)
    return 100.0 * (best - measured[chosen_depth(predicted)]) / best


def _measured(rows: Iterable[Result], like: Result) -> dict[int, float]:
    """What was measured by depth, in the sweep that ``like`` belongs to."""
    same = (row for row in rows if row["family"] == like["family"] and row["config"] == like["config"])
    return {row["to_stages"]: row["measured_pct"] for row in same}


def _busy(member: str) -> Value:
    """The busy share that is predicted in ``member`` of a row."""
    return lambda row: row[member]["tensor_elapsed_pct"] if row.get(member) else None


def _baseline(name: str) -> Value:
    return lambda row: row["baselines"].get(name)


def _by(rows: Iterable[Result], *keys: str) -> dict[tuple[Any, ...], list[Result]]:
    """Rows with equal values of ``keys``, in the order of their first appearance."""
    groups: defaultdict[tuple[Any, ...], list[Result]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[key] for key in keys)].append(row)
    return groups


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def prediction_tables(result: Result) -> list[Table]:
    """Targets, and ours beside the baselines."""
    return [_targets(result["scores"]), _methods(result["scores"])]


def prediction_notes(result: Result) -> list[str]:
    """When the predictions were written, and sweeps that were not measured."""
    sets = [(SETS["test"], result), (SETS["second"], result.get("second"))]
    return [
        *(f"{name}: {_written(predicted)}" for name, predicted in sets if predicted),
        *unscored_notes(result),
    ]


def _written(predicted: Result) -> str:
    sha = (predicted.get("git") or {}).get("sha")
    by = f" by commit {str(sha)[:12]}" if sha else ""
    return f"predictions were written {predicted['written']}{by}, the measurement began {predicted['started']}"


def _known(splits: Result) -> Iterator[tuple[str, Result]]:
    """Name and score of every split that is there, in the order of ``SETS``."""
    return ((name, splits[name]) for name in SETS if name in splits)


def _targets(scores: Result) -> Table:
    rows = [
        (
            "" if place else SETS[split],
            TARGETS[name],
            number(target["value"]),
            number(target["limit"]),
            verdict(target),
        )
        for split, targets in _known(scores["targets"])
        for place, (name, target) in enumerate(targets.items())
    ]
    return Table("targets", "Targets, for held-out sweeps", ("sweeps", "", "value", "≤", ""), rows, texts=2)


def _methods(scores: Result) -> Table:
    rows = [
        (
            SETS[split] if who == OURS else "",
            "ours" if who == OURS else who.replace("_", " "),
            *_cells(method),
            *(
                number(value)
                for value in (method.get("coverage_pct"), score["not_identified_pct"] if who == OURS else None)
            ),
        )
        for split, score in _known(scores["splits"])
        for who, method in score["methods"].items()
    ]
    header = (
        *("sweeps", "method", "n", "mean error", "bias", "worst", "rank", "regret %", "worst %"),
        *("in interval %", "not identified %"),
    )
    return Table("methods", "Errors in points of utilization, if ours is identified", header, rows, texts=2)


def _cells(method: Result) -> tuple[str, ...]:
    worst = method["worst"]["error"] if method["worst"] else None
    errors = (number(value) for value in (method["mae"], method["bias"], worst))
    regrets = (number(method[name]) for name in ("regret_pct", "worst_regret_pct"))
    return (str(method["n"]), *errors, number(method["rank"], 2), *regrets)
