"""The costs by which gemm_ws chooses its tile are those that the committed times give, and choose
well among them."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, astuple
from typing import Any

import pytest

from benchmarks.kernels.shapes import drawn
from benchmarks.kernels.tiles import LONG, MODELS, RESULTS, SMS, fit, label, lost
from ncubble.kernels.catalog.gemm_tiles import FITTED, OWN, best_tile


@pytest.fixture(scope="module")
def measured() -> list[dict[str, Any]]:
    shapes: list[dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8"))["shapes"]
    return shapes


def test_the_times_are_of_the_tuning_draw_and_of_no_other(measured: list[dict[str, Any]]) -> None:
    assert [row["shape"] for row in measured] == [*drawn("tuning"), *LONG]
    scored = drawn("test")
    assert all(row["shape"] not in scored for row in measured)


def test_the_costs_are_fitted_to_the_committed_times(measured: list[dict[str, Any]]) -> None:
    assert astuple(fit(measured[: -len(LONG)])) == pytest.approx(astuple(FITTED), rel=0.05), asdict(FITTED)


def test_the_choice_is_good_for_shapes_that_no_cost_was_fitted_to(measured: list[dict[str, Any]]) -> None:
    assert lost(measured[-len(LONG) :], FITTED) < 1.03


def test_the_choice_is_near_the_fastest_tile_and_far_from_always_the_same(measured: list[dict[str, Any]]) -> None:
    lost, saved = [], []
    for row in measured:
        chosen = row["us"].get(label(best_tile(**row["shape"], sms=SMS)))
        if chosen is not None:  # a tile that was added after the measurement has no time
            lost.append(chosen / min(row["us"].values()))
            saved.append(row["us"][label(OWN)] / chosen)
    assert len(lost) >= 40
    assert statistics.geometric_mean(lost) < 1.03
    assert statistics.geometric_mean(saved) > 1.15


def test_of_few_and_of_ragged_rows_the_chosen_tile_is_near_the_fastest() -> None:
    rows: list[dict[str, Any]] = json.loads(MODELS.read_text(encoding="utf-8"))["shapes"]
    assert all(row["shape"] not in drawn("models") for row in rows)
    losses = []
    for row in rows:
        chosen = row["us"].get(label(best_tile(**row["shape"], sms=SMS)))
        if chosen is not None:
            losses.append(chosen / min(row["us"].values()))
    assert len(losses) >= 25
    assert statistics.geometric_mean(losses) < 1.02
