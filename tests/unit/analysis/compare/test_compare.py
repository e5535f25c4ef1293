"""Launches side by side: on recorded runs, and on subjects made up for one rule each."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from ncubble.analysis.compare.compare import (
    CompareResult,
    Group,
    compare_groups,
    compare_sides,
    compared_launch,
    groups,
    letter,
    match,
)
from ncubble.analysis.compare.words import amount, as_json, lines, markdown, sentences, summaries, titles
from ncubble.analysis.diagnosis.results import judge
from ncubble.analysis.report.report import Report
from ncubble.recordings import REPEATS, ROOT
from tests.helpers.compare_subjects import COARSE, FULL, MERGED, group, subject

HOSTILE = "<script>x</script>|`[a](b)\n# y"


def recorded(*paths: Path) -> CompareResult:
    def side(path: Path) -> list[Group]:
        report = Report.open(path)
        return groups(compared_launch(report.launch(verdict.launch), verdict) for verdict in judge(report)[0])

    return compare_sides([side(path) for path in paths])


def notes(one: Group, other: Group) -> str:
    return "\n".join(compare_groups([one, other]).notes)


def test_a_deeper_ring_waits_less_for_data_and_the_sentence_says_so() -> None:
    outcome = recorded(ROOT / "gemm_tma" / "stages1", ROOT / "gemm_tma" / "stages3")
    (found,) = outcome.comparisons
    assert outcome.leftovers == ()
    wait = found.row("account", "data_wait")
    assert wait and wait.changes[1] and wait.changes[1].difference < -30
    (said,) = sentences(found)
    assert "less than A" in said and "data wait falls most" in said and "tensor busy rises" in said


def test_parts_of_every_side_sum_to_100_and_their_times_to_the_duration() -> None:
    (found,) = recorded(ROOT / "gemm_tma" / "stages1", ROOT / "gemm_tma" / "stages3").comparisons
    took = found.row("launch", "duration_ns")
    assert took and took.changes[1]
    for index in (0, 1):
        shares = [row.values[index] for row in found.section("account")]
        assert math.fsum(one.mean for one in shares if one) == pytest.approx(100)
    moved = [row.changes[1] for row in found.section("time")]
    assert math.fsum(one.difference for one in moved if one) == pytest.approx(took.changes[1].difference)


def test_repeats_tell_a_slower_copy_from_noise() -> None:
    slow = REPEATS / "tensor_core_gemm" / "stages3-vec4"
    (found,) = recorded(REPEATS / "tensor_core_gemm" / "stages3", slow).comparisons
    for name in ("duration_ns", "cycles", "tensor_elapsed_pct"):
        row = found.row("launch", name)
        assert row and row.changes[1] and row.changes[1].outcome == "worse", name
        assert row.values[0] and row.values[0].n == 5
    registers = found.row("launch", "registers")
    assert registers and registers.changes[1] and registers.changes[1].outcome is None


def test_one_more_launch_of_the_same_kernel_is_within_noise() -> None:
    again = ROOT / "tensor_core_gemm" / "stages3"
    (found,) = recorded(REPEATS / "tensor_core_gemm" / "stages3", again).comparisons
    cycles = found.row("launch", "cycles")
    assert cycles and cycles.changes[1] and cycles.changes[1].outcome == "same"
    assert "which noise explains" in sentences(found)[0]
    assert any("A cannot split idle" in note for note in found.notes)


def test_a_single_first_launch_is_not_tested_and_says_so() -> None:
    found = compare_groups([group(1e5), group(2e5, 2e5)])
    row = found.row("launch", "duration_ns")
    assert row and row.changes[1] and row.changes[1].pct == pytest.approx(100) and row.changes[1].outcome is None
    assert "without repeats" in "".join(found.notes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"device": "NVIDIA A100"}, "different GPU, NVIDIA A100 against NVIDIA H200"),
        ({"ncu_version": "2024.1.0"}, "different ncu, 2024 against 2025"),
        ({"grid": "32,1,1"}, "launched as 32,1,1 × 256,1,1 against 64,1,1 × 256,1,1"),
        ({"shape": '{"m": 1}'}, 'another problem, {"m": 1} against {}'),
        ({"verdict": {"unit": "dram"}}, "counts another unit as busy, dram against tensor"),
        ({"verdict": {"warnings": ["suspicious: 3 CTAs"]}}, "B: suspicious: 3 CTAs"),
        ({"verdict": {"account": None}}, "B: no account"),
    ],
)
def test_what_else_differs_is_said(changes: dict[str, Any], said: str) -> None:
    one = group(1e5, 1e5, 1e5)
    assert said in notes(one, group(2e5, key="other", **changes))
    assert said not in notes(one, group(2e5, key="other"))


def test_the_same_measurement_on_both_sides_is_named() -> None:
    assert "B: the same measurement as A" in notes(group(1e5), group(1e5))


@pytest.mark.parametrize("changes", [{"device": "NVIDIA A100"}, {"ncu_version": "2024.1"}])
def test_other_machines_and_tools_are_shown_and_not_tested(changes: dict[str, Any]) -> None:
    first = group(1e5, 1.001e5, 0.999e5)
    row = compare_groups([first, group(2e5, **changes)]).row("launch", "duration_ns")
    assert row and row.changes[1] and row.changes[1].pct == pytest.approx(100) and row.changes[1].outcome is None
    row = compare_groups([first, group(2e5)]).row("launch", "duration_ns")
    assert row and row.changes[1] and row.changes[1].outcome == "worse"


def test_another_clock_leaves_time_untested_but_not_cycles() -> None:
    slow = Group((subject(values={"duration_ns": 2e5, "cycles": 350_000.0, "sm_clock_hz": 1.5e9}),))
    found = compare_groups([group(1e5, 1e5), slow])
    outcomes = {name: found.row("launch", name) for name in ("duration_ns", "cycles")}
    assert {name: row.changes[1].outcome for name, row in outcomes.items() if row and row.changes[1]} == {
        "duration_ns": None,
        "cycles": "worse",
    }
    assert any("SM clock differs by -14.3 %" in note for note in found.notes)


def test_accounts_are_compared_as_coarsely_as_the_coarsest() -> None:
    coarse = Group((subject(verdict={"account": dict(COARSE), "merged": MERGED}),))
    found = compare_groups([group(1e5), coarse])
    values = {row.name: [one.mean for one in row.values if one] for row in found.section("account")}
    assert values == {"tensor_busy": [50.0, 60.0], "no_cta": [5.0, 4.0], "idle": [45.0, 36.0]}
    assert any("B cannot split idle" in note and "data_wait" in note for note in found.notes)


def test_a_coarse_part_that_a_coarser_one_holds_is_folded_into_it() -> None:
    wide = {"idle": ["ramp", "tail", "wave_gap", "data_wait", "issue"]}
    one = Group((subject(verdict={"account": {"tensor_busy": 40.0, "idle": 60.0}, "merged": wide}),))
    other = Group((subject(verdict={"account": dict(COARSE), "merged": MERGED}),))
    shares = [row.values[1] for row in compare_groups([one, other]).section("account")]
    assert [value.mean for value in shares if value] == [60.0, 40.0]


def test_launches_of_one_configuration_are_repeats_and_the_same_launch_counts_once() -> None:
    found = groups([subject(), subject(launch=1), subject(), subject("copy"), subject(device="NVIDIA A100", key="x")])
    assert [len(one.subjects) for one in found] == [2, 1, 1]


def test_partners_are_found_by_label_then_kernel_and_grid_then_order() -> None:
    def kinds(*labels: str) -> list[Group]:
        return groups(subject(label=f"gemm {label}", key=label) for label in labels)

    rows, left = match([kinds("s=1", "s=2", "s=3"), kinds("s=2", "s=5")])
    named = [[one.first.label if one else None for one in row] for row in rows]
    assert named == [["gemm s=1", "gemm s=5"], ["gemm s=2", "gemm s=2"]]
    assert [(side, one.first.label) for side, one in left] == [(0, "gemm s=3")]


def test_a_grid_decides_before_order_does() -> None:
    first = groups([subject(grid="1,1,1", label="a"), subject(grid="2,1,1", label="a")])
    other = groups([subject(grid="2,1,1", label="b"), subject(grid="1,1,1", label="b")])
    rows, left = match([first, other])
    assert [[one.first.grid for one in row if one] for row in rows] == [["1,1,1"] * 2, ["2,1,1"] * 2]
    assert left == []


def test_two_kernels_alone_are_compared_though_their_names_differ() -> None:
    outcome = compare_sides([[group(1e5)], groups([subject("gemm_ws")])])
    (found,) = outcome.comparisons
    assert any("another kernel, gemm_ws against gemm" in note for note in found.notes)


def test_what_has_no_partner_says_why() -> None:
    first = groups([subject("gemm"), subject("copy"), subject("softmax")])
    outcome = compare_sides([first, groups([subject("gemm", key="o"), subject("scan"), subject("sort")])])
    assert [(one.side, one.group.first.kernel, one.reason) for one in outcome.leftovers] == [
        (0, "copy", "no launch of this kernel in B"),
        (0, "softmax", "no launch of this kernel in B"),
        (1, "scan", "no launch of this kernel in A"),
        (1, "sort", "no launch of this kernel in A"),
    ]


def test_a_side_without_the_kernel_leaves_a_gap_and_keeps_the_letters() -> None:
    first = [group(1e5), *groups([subject("a"), subject("b")])]
    outcome = compare_sides([first, groups([subject("x"), subject("y")]), [group(2e5)]])
    (found,) = outcome.comparisons
    assert found.sides[1] is None and sentences(found)[0].startswith("C takes")
    assert "B: no launch of this kernel" in found.notes
    assert [letter(0), letter(1), letter(26)] == ["A", "B", "A2"]


def test_units_that_differ_are_not_said_to_rise_or_fall() -> None:
    other = Group((subject(verdict={"unit": "dram", "account": {"unit_busy": 90.0, "issue": 10.0}}),))
    (said,) = sentences(compare_groups([group(1e5), other]))
    assert "counts dram as busy instead of tensor" in said and "falls" not in said


def test_launches_without_numbers_have_nothing_in_common() -> None:
    nothing = dict.fromkeys(("duration_ns", "cycles", "sm_clock_hz", "tensor_elapsed_pct"), math.nan)
    bare = Group((subject(values=nothing, verdict={"account": None, "unit": None}),))
    assert sentences(compare_groups([bare, bare])) == ["B and A have no measurement in common."]


@pytest.mark.parametrize(
    ("value", "unit", "sign", "text"),
    [
        (187_296.0, "ns", False, "187.3 µs"),
        (1_234_567.0, "ns", True, "+1.235 ms"),
        (-850.0, "ns", True, "-850 ns"),
        (1.5569e9, "Hz", False, "1.557 GHz"),
        (98_368.0, "B", False, "96.1 KiB"),
        (531_843.0, "cycle", False, "531,843"),
        (-0.04, "%", True, "+0.0 points"),
        (12.34, "%", False, "12.3 %"),
        (math.nan, "ns", False, "–"),
    ],
)
def test_numbers_carry_their_unit(value: float, unit: str, sign: bool, text: str) -> None:
    assert amount(value, unit, sign) == text


def test_tables_leave_out_what_no_side_speaks_of() -> None:
    quiet = {"account": {**FULL, "issue": 14.99, "other": 0.01}, "unit": "tensor"}
    found = compare_groups([group(1e5, verdict=quiet), group(1e5, verdict=quiet)])
    assert "other" not in [one.name for one in lines(found, "account")]
    assert found.row("account", "other") is not None


def test_markdown_shows_hostile_names_as_text() -> None:
    stalls = {HOSTILE: 60.0, "barrier": 40.0}
    one = Group((subject(HOSTILE, report=HOSTILE, device=HOSTILE, stalls=stalls),))
    other = Group((subject(f"other {HOSTILE}", report=HOSTILE, device="b", stalls=stalls),))
    text = markdown(compare_sides([[one], [other]]), [(HOSTILE, HOSTILE)])
    assert "<script>" not in text and "[a](b)" not in text and "\n# y" not in text
    assert all(line.count("|") in (0, 5) for line in text.splitlines())


def test_many_comparisons_are_summed_up_and_folded_away() -> None:
    sides = [groups(subject(f"k{i}", key=f"{side}{i}") for i in range(5)) for side in "ab"]
    text = markdown(compare_sides(sides))
    assert text.count("<details>") == text.count("</details>") == 5
    assert text.index("| kernel | compared |") < text.index("<details>")
    assert text.splitlines()[1] == "### ncubble compare: 5 as fast"


def test_the_head_of_markdown_says_which_side_became_slower_or_faster() -> None:
    sides = [[group(2e5)], [group(1e5)], [group(3e5)]]
    assert markdown(compare_sides(sides)).splitlines()[1] == "### ncubble compare: B is faster; C is slower"


def test_json_holds_every_row_and_no_number_that_is_none() -> None:
    first = group(1e5)
    outcome = compare_sides([[first], [group(2e5), *groups([subject("scan")])]])
    found = json.loads(json.dumps(as_json(outcome, ["a", "b"], [("f", "broken")]), allow_nan=False))
    assert found["sides"] == [{"side": "A", "path": "a"}, {"side": "B", "path": "b"}]
    (one,) = found["comparisons"]
    row = next(row for row in one["rows"] if row["name"] == "duration_ns")
    assert row["values"] == [{"n": 1, "mean": 1e5, "sd": None}, {"n": 1, "mean": 2e5, "sd": None}]
    assert row["changes"][1] == {
        "difference": 1e5,
        "pct": 100.0,
        "outcome": None,
        "decision_pct": None,
        "p_value": None,
    }
    assert {row["section"] for row in one["rows"]} == {"launch", "account", "time"}
    assert found["unmatched"][0]["kernel"] == "scan" and found["errors"] == [{"report": "f", "error": "broken"}]


def test_titles_tell_the_dimensions_in_which_sides_differ() -> None:
    sides = [group(1e5, shape=json.dumps({"m": 4096, "k": k})) for k in (1024, 4096)]
    assert titles(sides) == ["gemm k=1024", "gemm k=4096"]
    assert titles([sides[0], None, sides[0]]) == ["gemm", "", "gemm"]
    compared = compare_groups(sides)
    assert "<code>gemm k=1024</code>" in markdown(CompareResult((compared,)))
    assert [title for title, _ in summaries([compare_groups([side, side]) for side in sides])] == titles(sides)


MEASURED = {"tensor_busy": 50.0, "data_wait": 40.0, "sync_wait": -2.0, "remainder": 12.0}


def ablated(**parts: float) -> Group:
    return Group((subject(measured=MEASURED | parts),))


def test_accounts_are_measured_where_every_side_was() -> None:
    found = compare_groups([ablated(), ablated(data_wait=10.0, remainder=42.0)])
    values = {row.name: [one.mean for one in row.values if one] for row in found.section("account")}
    assert values["data_wait"] == [40.0, 10.0] and values["remainder"] == [12.0, 42.0] and "issue" not in values
    assert [line.name for line in lines(found, "account")] == ["tensor busy", "data wait", "sync wait", "remainder"]
    assert "data wait falls most, by 30.0 points (-30.0 µs), as measured" in sentences(found)[0]
    assert any("measured by ablation" in note for note in found.notes)
    text = markdown(CompareResult((found,)))
    assert "% of elapsed SM cycles, measured" in text
    assert as_json(CompareResult((found,)), [])["comparisons"][0]["measured"] is True


@pytest.mark.parametrize("other", [group(1e5), group(1e5, 1e5), Group((*ablated().subjects, subject(launch=1)))])
def test_measured_and_estimated_accounts_are_never_mixed(other: Group) -> None:
    found = compare_groups([ablated(), other])
    values = {row.name: [one.mean for one in row.values if one] for row in found.section("account")}
    assert not found.measured and values["data_wait"] == [30.0, 30.0] and "remainder" not in values
    assert any("estimates on all sides, because only A" in note for note in found.notes)
    assert "measured" not in sentences(found)[0] and "cycles, measured" not in markdown(CompareResult((found,)))


def test_parts_that_one_side_measured_together_are_joined_on_all() -> None:
    joined = {"tensor_busy": 50.0, "data_wait+copy_cost": 45.0, "remainder": 5.0}
    found = compare_groups([Group((subject(measured=joined),)), ablated(copy_cost=3.0)])
    values = {row.name: [one.mean for one in row.values if one] for row in found.section("account")}
    assert values["data_wait+copy_cost"] == [45.0, 43.0] and "data_wait" not in values
    assert any(
        "A cannot split data_wait+copy_cost: on all sides it includes data_wait, copy_cost" in n for n in found.notes
    )
