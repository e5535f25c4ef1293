"""What is said to have grown between two accounts: by hand, and between two recordings."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ncubble.analysis.gate.accounts.account import Account, CodePlace, gather
from ncubble.analysis.gate.accounts.moves import Move, doubtful, incomparable, moves, sentence
from ncubble.analysis.gate.accounts.places import account_of
from ncubble.analysis.report.report import Report
from ncubble.recordings import ROOT


def place(text: str, pct: float, line: int = 7, part: str = "data_wait", **more: object) -> CodePlace:
    return replace(CodePlace(part, "a.cu", line, text, pct), **more)  # type: ignore[arg-type]


def account(*places: CodePlace, **parts: float) -> Account:
    return Account({part: (pct,) for part, pct in parts.items()}, places, unit="tensor")


BEFORE = account(place("wait();", 8.0), tensor_busy=60.0, issue=30.0, data_wait=10.0)


def at(found: tuple[Move, ...]) -> CodePlace:
    """The place within ``data_wait``."""
    (move,) = [one for one in found if one.part == "data_wait"]
    assert move.place
    return move.place


def test_growth_is_counted_in_cycles_before_so_that_what_takes_as_long_has_not_moved() -> None:
    after = account(place("wait();", 40.0), place("load();", 15.0), tensor_busy=30.0, issue=15.0, data_wait=55.0)
    found = moves(BEFORE, after, 2.0)
    assert [(one.part, pytest.approx(one.points)) for one in found] == [
        ("data_wait", 100.0),
        ("tensor_busy", 0.0),
        ("issue", 0.0),
    ]
    assert at(found) == replace(place("wait();", 40.0), pct=pytest.approx(72.0))
    assert math.fsum(one.points for one in found) == pytest.approx(100.0), "that of the cycles"


def test_the_place_that_grew_most_is_named_not_the_largest() -> None:
    after = account(place("wait();", 9.0), place("load();", 6.0, 20), tensor_busy=55.0, issue=30.0, data_wait=15.0)
    assert at(moves(BEFORE, after, 1.0)) == place("load();", 6.0, 20)


def test_a_line_that_moved_is_the_same_line_and_named_where_it_is_now() -> None:
    after = account(place("wait();", 20.0, 31), tensor_busy=50.0, issue=28.0, data_wait=22.0)
    assert at(moves(BEFORE, after, 1.0)) == replace(place("wait();", 20.0, 31), pct=12.0)


def test_a_second_line_of_the_same_text_is_not_taken_for_the_first() -> None:
    before = account(place("sync();", 8.0, 7), issue=90.0, data_wait=10.0)
    now = (place("sync();", 9.0, 8, below="load();"), place("sync();", 6.0, 40, below="mma();"))
    found = at(moves(before, account(*now, issue=84.0, data_wait=16.0), 1.0))
    assert (found.line, found.pct) == (40, 6.0), "the nearer one is the one that was there"
    both = account(*(replace(one, pct=7.0) for one in now), issue=84.0, data_wait=16.0)
    grown = replace(both, places=(replace(now[0], line=90, pct=9.5), replace(now[1], pct=8.0)))
    assert at(moves(both, grown, 1.0)).below == "load();", "wherever the line has gone"


def test_without_source_on_one_side_lines_are_told_by_their_numbers() -> None:
    after = account(
        place("BAR.SYNC 0x0", 20.0, 7, sass=True), place("LDG.E R1", 9.0, 9, sass=True), issue=60.0, data_wait=40.0
    )
    before = account(place("sync();", 18.0, 7), place("load();", 1.0, 9), issue=80.0, data_wait=20.0)
    assert (at(moves(before, after, 1.0)).line, at(moves(before, after, 1.0)).pct) == (9, 8.0)
    assert at(moves(after, before, 3.0)).text == "sync();", "as it is now"


def test_instructions_without_lines_are_told_by_opcode() -> None:
    was = replace(place("@P0 LDG.E R1, [R2]", 18.0), file="", line=None, sass=True)
    now = replace(was, text="@!P1 LDG.E R9, [R4]", pct=19.0)
    new = replace(was, text="STL [R1], R2", pct=5.0)
    found = at(moves(account(was, issue=80.0, data_wait=20.0), account(now, new, issue=75.0, data_wait=25.0), 1.0))
    assert found == new


def test_a_busier_unit_is_no_cause_where_anything_else_grew() -> None:
    after = account(tensor_busy=66.0, issue=31.0, data_wait=3.0)
    assert [one.part for one in moves(BEFORE, after, 1.0)] == ["issue", "tensor_busy", "data_wait"]
    work = account(tensor_busy=66.0, issue=30.1, data_wait=3.9)
    (first, *_) = moves(BEFORE, work, 1.0)
    assert first.part == "tensor_busy"
    assert sentence(first) == "the work itself grew: tensor_busy grew by 6.0 points of the baseline's time"


def test_parts_that_one_side_cannot_split_are_merged_and_have_no_place() -> None:
    merged = {"idle": ("data_wait", "issue")}
    after = replace(account(tensor_busy=50.0, idle=50.0), merged=merged)
    found = moves(BEFORE, after, 1.0)
    assert [(one.part, one.points, one.place) for one in found] == [
        ("idle", pytest.approx(10.0), None),
        ("tensor_busy", pytest.approx(-10.0), None),
    ]
    back = moves(after, BEFORE, 1.0)
    assert [one.part for one in back] == ["tensor_busy", "idle"] and back[1].place is None


def test_a_part_whose_places_did_not_grow_has_none() -> None:
    after = account(place("wait();", 7.0), tensor_busy=55.0, issue=30.0, data_wait=15.0)
    assert moves(BEFORE, after, 1.0)[0] == Move("data_wait", pytest.approx(5.0), None)


@pytest.mark.parametrize("ratio", [math.nan, math.inf, 0.0, -1.0])
def test_without_a_ratio_of_cycles_nothing_is_said_to_have_moved(ratio: float) -> None:
    assert moves(BEFORE, BEFORE, ratio) == ()


def test_idle_time_of_different_units_is_not_compared() -> None:
    other = replace(BEFORE, unit="fma")
    assert "tensor; the current account that of fma" in incomparable(BEFORE, other)
    assert moves(BEFORE, other, 1.0) == ()
    assert incomparable(BEFORE, replace(BEFORE, unit="")) == "", "an older baseline does not say"


def test_another_rule_of_overlap_is_said() -> None:
    assert doubtful(BEFORE, BEFORE) == ""
    said = doubtful(BEFORE, replace(BEFORE, overlap="phases"))
    assert "the baseline used another rule for waits that coincide with a busy unit (none) than now (phases)" in said
    assert doubtful(replace(BEFORE, unit=""), replace(BEFORE, overlap="phases")) == "", "an older one does not say"


def test_a_sentence_names_part_points_line_and_text() -> None:
    found = Move("data_wait", 23.42, place("loop_sync(`x`);", 23.3, 191))
    assert sentence(found) == (
        "data_wait grew by 23.4 points of the baseline's time, most at a.cu:191 `loop_sync('x');` (+23.3)"
    )
    no_line = replace(found, place=replace(place("LDG.E R1", 2.0), file="", line=None, sass=True))
    assert sentence(no_line).endswith("most at `LDG.E R1` (+2.0)")
    assert sentence(Move("tail", 1.0)) == "tail grew by 1.0 points of the baseline's time"
    assert sentence(Move("tail", -1.0, place("x", 1.0))) == "tail fell by 1.0 points of the baseline's time"


def test_one_stage_of_a_recorded_kernel_waits_for_data_at_its_mbarrier() -> None:
    reports = [Report.open(ROOT / "gemm_tma" / variant) for variant in ("stages3", "stages1")]
    before, after = (gather([account_of(report.launch(0))]) for report in reports)
    assert before and after
    cycles = [report.launch(0).identity.cycles for report in reports]
    first, *_ = moves(before, after, cycles[1] / cycles[0])
    assert first.part == "data_wait" and first.points > 30.0
    assert first.place and first.place.file == "gemm_tma.cu" and "mbarrier_wait(&full" in first.place.text
    assert first.place.pct > 0.9 * first.points
    assert before.overlap == after.overlap == "asynchronous"
    assert all(abs(one.points) < 1e-9 for one in moves(before, before, 1.0))
