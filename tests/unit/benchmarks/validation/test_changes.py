"""Scores of advice against changes that were made."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.changes import plan
from benchmarks.changes.families import FAMILIES, MORE
from benchmarks.changes.library import ENTRIES, PRODUCTS
from benchmarks.changes.measure import Desk, pending
from benchmarks.changes.pack import rows_of
from benchmarks.changes.second import SECOND
from benchmarks.validation.changes import Base, changes_tables, nothing, score, twice_the_tile
from ncubble.analysis.changes.change import Change
from ncubble.analysis.changes.search import TIME_UP, Search
from ncubble.analysis.changes.tried import LEFT, Built, TriedChange, TriedRound
from ncubble.kernels.run.session import KernelRequest


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


def test_all_families_are_learned_from_and_what_libraries_ship_is_not() -> None:
    sides, shipped = plan.split(), list(plan.library())
    assert sorted(shipped) == sorted(ENTRIES) == sorted(name for name, side in sides.items() if side == "library")
    families = {family.name for family in (*FAMILIES, *MORE)} | set(plan.second())
    assert families == {name for name, side in sides.items() if side == "learn"}
    assert families.isdisjoint(shipped)


def test_what_is_measured_first_is_of_all_kinds_and_both_classes() -> None:
    kinds = {family.name: family.kind for family in SECOND}
    first = [kinds.get(name, "catalog") for name in plan.second()][: 2 * len({*kinds.values(), "catalog"})]
    assert sorted(first) == sorted(2 * [*{*kinds.values(), "catalog"}])
    products = {entry.name for entry in PRODUCTS}
    assert [name in products for name in plan.library()][:10] == [True, False] * 5


def test_bases_of_a_later_family_differ_and_those_of_the_catalog_are_valid() -> None:
    for name in plan.second():
        bases = plan.bases(name)
        assert (
            len({json.dumps(meta, sort_keys=True) for meta in bases.values()})
            == len(bases)
            == (2 if name.startswith(plan.CATALOG) else 4)
        )
        if name.startswith(plan.CATALOG):
            for settings in bases.values():
                KernelRequest(name.removeprefix(plan.CATALOG), settings).case()


def test_bases_that_were_stored_are_those_of_the_plan(repository: Path) -> None:
    for path in (repository / "recordings/validation/changes").glob("*/*/launches.json"):
        for name, base, meta in json.loads(path.read_text(encoding="utf-8")):
            # What a library launches is known on a GPU only.
            assert name in ENTRIES or base == plan.WELL or plan.bases(name)[base].items() <= meta.items()


def measured(base: str, *outcomes: str, after: int | str = 3, stopped: str = "no change gains 1 %") -> dict[str, Any]:
    """A base of two rounds as ``measure`` keeps it, with a change of each outcome."""
    made: dict[str, Any] = {"kind": "stages", "name": "num_stages", "before": 2, "after": after, "difference": 0.0}
    figures: dict[str, Any] = {"us": 9.0, "gain_pct": 10.0, "low": 9.0, "high": 11.0}
    built = {"registers": 128, "spilled_B": 0, "shared_B": 0}
    changes = [{**made, **figures, "built": built, "outcome": outcome} for outcome in outcomes]
    return {base: {"rounds": [{"us": 10.0, "changes": changes}] * 2, "stopped": stopped}}


def test_the_last_round_of_the_fair_base_is_the_well_tuned_one_unless_time_was_up() -> None:
    assert {row["base"] for row in rows_of("gemm", measured("fair", "ok"))} == {"fair", "well"}
    assert {row["base"] for row in rows_of("gemm", measured("fair", "ok", stopped=TIME_UP))} == {"fair"}
    assert not rows_of("gemm", measured("fair", "ok", after="async")), "advice names no words"


def test_a_round_that_the_time_cut_is_not_kept(tmp_path: Path) -> None:
    def told(*outcomes: str) -> TriedRound:
        changes = [
            TriedChange(kind="stages", name="num_stages", before=2, after=3, outcome=outcome) for outcome in outcomes
        ]
        return TriedRound(settings={}, us=10.0, sm_mhz=0, built=Built(), changes=changes)

    desk = Desk(tmp_path, 0.0)
    about = {"kernel": "gemm", "language": "triton", "device": "h100", "compared": "results"}
    desk.keep("gemm_f16", "bad", Search(rounds=[told("ok", LEFT)]), about, 1.0)
    assert desk.measured("gemm_f16") == {}
    desk.keep("gemm_f16", "fair", Search(rounds=[told("ok"), told("ok", LEFT)], stopped=TIME_UP), about, 1.0)
    assert {base: len(one["rounds"]) for base, one in desk.measured("gemm_f16").items()} == {"fair": 1}
    assert [launch[:2] for launch in pending(desk, ["gemm_f16", "gemm_tma"])] == [("gemm_f16", "fair")]


def test_the_committed_scores_are_better_than_every_constant_answer(repository: Path) -> None:
    # That they are those of the store, ``test_page`` shows.
    result = json.loads((repository / "docs/validation/changes.json").read_text(encoding="utf-8"))
    own = result["answers"]["changes"]
    assert own["bases"] >= 50
    constants = [answer["loss_mean"] for name, answer in result["answers"].items() if name.startswith("always")]
    assert own["loss_mean"] < min(constants)
    assert {table.name for table in changes_tables(result)} == {"targets", "answers", "thirds", "scorings"}
