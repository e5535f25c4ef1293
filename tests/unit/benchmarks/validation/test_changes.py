"""Scores of advice against changes that were made."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.changes import plan
from benchmarks.changes.families import FAMILIES, MORE
from benchmarks.validation.changes import Base, changes_tables, nothing, score, twice_the_tile
from ncubble.analysis.changes.change import Change


def base(advice: list[Change], name: str = "bad", **gains: float | None) -> Base:
    """A base with measured changes: ``stages3=20.0``; None: it gave other results."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for key, gain in gains.items():
        kind, value = key.rstrip("0123456789"), int(key[len(key.rstrip("0123456789")) :])
        rows[kind, value] = {"outcome": "differs" if gain is None else "ok", "gain_pct": gain, "before": 64}
    return Base("h100", "gemm", name, {"num_stages": 2}, SimpleNamespace(changes=advice), rows)  # type: ignore[arg-type]


def follow(one: Base) -> list[Change]:
    return one.verdict.changes


def test_loss_is_what_the_best_change_gains_beyond_the_one_that_is_followed() -> None:
    right = base([Change(kind="stages", after=3, gain_pct=18.0, low=10.0, high=25.0)], stages3=20.0, warps8=5.0)
    harmful = base([Change(kind="warps", after=8, gain_pct=10.0)], stages3=20.0, warps8=-15.0)
    result = score([right, harmful], follow)
    assert (result["loss_mean"], result["loss_worst"]) == (pytest.approx(17.5), pytest.approx(35.0))
    assert result["near_pct"] == pytest.approx(50.0)
    assert result["inside_pct"] == 100.0
    assert result["with_figure_pct"] == 100.0


def test_advice_that_no_configuration_follows_counts_as_nothing_and_is_listed() -> None:
    result = score([base([Change(kind="stages", after=7, gain_pct=9.0)], stages3=20.0)], follow)
    assert result["loss_mean"] == pytest.approx(20.0)
    assert result["not_made"] == ["gemm bad: stages 7"]


def test_other_results_are_not_followed() -> None:
    result = score([base([Change(kind="stages", after=3)], stages3=None, warps8=4.0)], follow)
    assert result["loss_mean"] == pytest.approx(4.0)


def test_nothing_is_right_where_nothing_gains_and_a_promise_is_not() -> None:
    tuned = [
        base([Change(kind="none")], stages3=-5.0),
        base([Change(kind="stages", after=3, gain_pct=9.0)], stages3=-5.0),
    ]
    assert score(tuned, follow)["none_pct"] == pytest.approx(50.0)
    assert score(tuned, nothing)["loss_mean"] == pytest.approx(0.0)


def test_twice_the_tile_is_a_value_of_the_base() -> None:
    assert score([base([], tile_n128=-30.0)], twice_the_tile)["loss_mean"] == pytest.approx(30.0)


def test_sides_hold_whole_families_and_forty_percent_are_frozen() -> None:
    sides = plan.split()
    first = {family.name for family in FAMILIES}
    assert set(sides) == first | {family.name for family in MORE}
    frozen = {name for name, side in sides.items() if side == "frozen"}
    assert frozen <= first, "what was added later is learned from"
    assert 0.4 * len(first) <= len(frozen) <= 0.5 * len(first)


def test_the_committed_scores_are_better_than_every_constant_answer(repository: Path) -> None:
    # That they are those of the store, ``test_page`` shows.
    result = json.loads((repository / "docs/validation/changes.json").read_text(encoding="utf-8"))
    own = result["answers"]["changes"]
    assert own["bases"] >= 50
    constants = [answer["loss_mean"] for name, answer in result["answers"].items() if name.startswith("always")]
    assert own["loss_mean"] < min(constants)
    assert {table.name for table in changes_tables(result)} == {"targets", "answers", "thirds", "scorings"}
