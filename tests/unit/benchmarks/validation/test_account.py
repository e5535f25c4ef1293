"""The truth that ablations tell, the naive account, and their scores: on fabricated cycles, and one
recorded run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.validation.__main__ import main
from benchmarks.validation.account import (
    Pair,
    account_tables,
    errors,
    fold,
    naive_account,
    score_account,
    scores,
    truth,
)
from ncubble.analysis.account.parts import PARTS as ACCOUNT_PARTS
from ncubble.analysis.account.shares import PART_OF, removed
from ncubble.errors import ReportError
from ncubble.kernels.catalog import ablation
from ncubble.profiling.runs import Run
from tests.helpers.validation_folders import COST, RUN, account_folder, cell, measured

LOOP = ("wait", "copy", "sync", "smem")


def test_parts_are_removed_as_the_kernels_are_built() -> None:
    words = {*ablation.VARIANTS, "copy_sync_epilogue", "copy_epilogue", "none"}
    assert {word: removed(word) for word in words} == {word: ablation.removed({"ablate": word}) for word in words}
    assert set(PART_OF) == set(ablation.PARTS) and set(PART_OF.values()) < set(ACCOUNT_PARTS)


def test_parts_that_do_not_overlap_cost_what_vanishes_with_each() -> None:
    found = truth(measured(), busy_pct=50.0)
    expected = {PART_OF[part]: pct for part, pct in COST.items()} | {"tail": 1.5, "rest": 100 - 50 - 45 - 1.5}
    assert found.parts == pytest.approx(expected)
    assert found.cycles == pytest.approx(1000.0) and found.spread_pct == pytest.approx(2.0)
    assert found.alone["copy"] == pytest.approx(25.0), "without copies there is no wait"
    assert found.excluded == {}


def test_time_that_vanishes_with_either_part_is_shared() -> None:
    variants = measured()
    for word in ablation.VARIANTS:  # a barrier costs 6 points less where there are no copies
        if {"sync", "copy"} <= removed(word):
            variants[word] = cell(sum(COST[part] for part in removed(word)) - 6.0)
    found = truth(variants, busy_pct=50.0)
    assert found.parts["sync_wait"] == pytest.approx(8.0 - 2.0), "it goes after the copy in 4 of 12 orders"
    assert found.parts["copy_cost"] == pytest.approx(20.0 - 4.0)
    assert found.overlaps["copy_sync"] == pytest.approx(-6.0) and found.overlaps["wait_smem"] == pytest.approx(0.0)
    assert sum(found.parts[PART_OF[part]] for part in LOOP) == pytest.approx(43.0 - 6.0)


@given(st.lists(st.floats(0.0, 60.0), min_size=11, max_size=11))
def test_shares_of_the_loop_sum_to_what_vanishes_with_all_of_it(vanished: list[float]) -> None:
    words = [word for word in ablation.VARIANTS if word not in ("epilogue", "all")]
    variants = measured() | {word: cell(pct) for word, pct in zip(words, vanished, strict=True)}
    found = truth(variants, busy_pct=50.0)
    assert sum(found.parts[PART_OF[part]] for part in LOOP) == pytest.approx(variants_gone(variants), abs=1e-9)


def variants_gone(variants: Mapping[str, Any]) -> float:
    return 100.0 - sum(variants["copy_sync_smem"]["cycles"]) / 20.0


def test_the_epilogue_is_the_mean_of_first_and_last_removed() -> None:
    found = truth({**measured(), "epilogue": cell(6.0)}, busy_pct=50.0)
    assert found.parts["epilogue"] == pytest.approx((6.0 + 2.0) / 2)


def test_plain_copies_have_no_wait_of_their_own() -> None:
    words = [word for word in ablation.VARIANTS if "wait" not in word]
    found = truth(measured(words), busy_pct=50.0)
    assert found.parts["data_wait+copy_cost"] == pytest.approx(25.0)
    assert not {"data_wait", "copy_cost"} & set(found.parts)
    assert found.parts["smem_wait"] == pytest.approx(10.0)


def test_where_sets_are_missing_parts_are_taken_away_in_a_fixed_order() -> None:
    variants = measured(("wait", "copy", "epilogue", "wait_sync", "copy_sync", "copy_sync_epilogue"))
    variants["wait_sync"] = cell(3.0)
    found = truth(variants, busy_pct=50.0)
    assert found.parts["sync_wait"] == pytest.approx(8.0), (
        "as it goes last: not from what vanishes with it and the wait"
    )
    assert "smem_wait" not in found.parts
    assert found.parts["rest"] == pytest.approx(100 - 50 - 35 - 1.5)


def test_a_variant_that_did_other_work_counts_for_nothing() -> None:
    variants = measured()
    found = truth({**variants, "tail": cell(1.5, products=900.0)}, busy_pct=50.0)
    assert "900" in found.excluded["tail"] and "tail" not in found.alone
    assert "tail" not in found.parts and found.parts["rest"] == pytest.approx(5.0)
    uncounted = {**variants["tail"], "products": None}
    assert "not counted" in truth({**variants, "tail": uncounted}, busy_pct=50.0).excluded["tail"]


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        ("none", "whole kernel"),
        ("all", "copy and epilogue and smem and sync and wait"),
        ("epilogue", "without epilogue"),
        ("copy_sync_smem", "separate data_wait, copy_cost, sync_wait, smem_wait"),
    ],
)
def test_a_truth_that_lacks_a_variant_says_which(lost: str, message: str) -> None:
    variants = measured()
    del variants[lost]
    with pytest.raises(ReportError, match=message):
        truth(variants, busy_pct=50.0)


def test_a_truth_that_lacks_a_variant_says_why_that_counts_for_nothing() -> None:
    with pytest.raises(ReportError, match="without epilogue; epilogue executed 900 products, not 1000"):
        truth({**measured(), "epilogue": cell(2.0, products=900.0)}, busy_pct=50.0)


def test_stall_names_alone_share_out_all_idle_time() -> None:
    samples = {"long_scoreboard": 30.0, "barrier": 10.0, "membar": 10.0, "wait": 50.0, "selected": 900.0}
    found = naive_account(samples, busy_pct=20.0)
    expected = {"data_wait": 24.0, "sync_wait": 16.0, "issue": 40.0}
    assert {part: pct for part, pct in found.items() if pct} == pytest.approx(expected)
    assert naive_account({"selected": 5.0}, busy_pct=20.0)["issue"] == 80.0


def test_what_no_variant_removes_is_the_rest_of_every_account() -> None:
    words = [word for word in ablation.VARIANTS if "wait" not in word]
    parts = {"tensor_busy": 50.0, "data_wait": 10.0, "copy_cost": 9.0, "ramp": 4.0, "tail": 2.0, "issue": 25.0}
    found = fold(parts, truth(measured(words), busy_pct=50.0))
    assert found["data_wait+copy_cost"] == 19.0 and found["tail"] == 2.0 and found["smem_wait"] == 0.0
    assert found["rest"] == pytest.approx(29.0)


def test_errors_name_the_worst_part_of_the_worst_case() -> None:
    pairs = [
        Pair("a", "dev", "data_wait", truth=10.0, account=12.0, naive=18.0),
        Pair("a", "dev", "tail", truth=2.0, account=-1.0, naive=0.0),
        Pair("b", "test", "data_wait", truth=20.0, account=20.0, naive=21.0),
    ]
    found = errors(pairs)
    assert found["mean_abs"] == pytest.approx(5 / 3) and found["bias"] == pytest.approx(-1 / 3)
    assert found["worst"] == {"case": "a", "part": "tail", "error": -3.0} and found["worst_abs"] == 3.0
    assert found["naive_mean_abs"] == pytest.approx(11 / 3) and found["ratio"] == pytest.approx(5 / 11)
    by_split = scores(pairs)
    assert by_split["dev"]["cases"] == by_split["test"]["cases"] == 1 and by_split["all"]["cases"] == 2
    assert by_split["test"]["targets"]["ratio"] == {"limit": 0.5, "met": True}
    again = scores([*pairs, Pair("c", "second", "tail", truth=1.0, account=2.0, naive=3.0)])
    assert again["second"]["cases"] == 1 and again["test"] == by_split["test"], "sets that were kept apart stay apart"
    assert by_split["dev"]["overall"]["mean_abs"] == 2.5 and list(by_split["dev"]["parts"]) == ["data_wait", "tail"]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    return account_folder(tmp_path)


def test_a_recording_is_scored_and_what_cannot_be_is_named(recorded: Path) -> None:
    result = score_account(recorded)
    (case,) = result["cases"]
    assert list(result["unscored"]) == ["k/lost"] and "whole/two" in result["unscored"]["k/lost"]
    for side in ("account", "naive"):
        assert sum(case[side].values()) + case["busy_pct"] == pytest.approx(100.0)
    assert case["truth"]["copy_cost"] == pytest.approx(20.0)
    manifest = Run.load(RUN).manifest
    assert result["commits"] == [manifest.git["sha"]] and result["days"] == [manifest.started[:10]]
    assert not {"git", "started"} & set(result), "no commit made all runs"
    assert result["scores"]["all"]["cases"] == 1 and "test" not in result["scores"]
    tables = {table.name: table for table in account_tables(result)}
    assert [row[0] for row in tables["scores"].rows] == ["fitted", "all"]
    for table in tables.values():
        assert {len(row) for row in table.rows} == {len(table.header)}, table.name


def test_the_command_prints_tables_or_json(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["account", "--folder", str(recorded)]) == 0
    shown = capsys.readouterr().out
    assert "Absolute error over all parts" in shown and "note: k/lost: not scored" in shown
    assert main(["account", "--folder", str(recorded), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scores"]["all"]["cases"] == 1


@pytest.mark.parametrize(("arguments", "code"), [(["--folder", "nowhere"], 3), (["--measure"], 2)])
def test_nothing_to_score_and_nowhere_to_measure_end_with_an_error(
    arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["account", *arguments]) == code
    assert "remedy: " in capsys.readouterr().err
