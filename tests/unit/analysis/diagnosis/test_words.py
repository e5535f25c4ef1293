"""Numbers and verdicts as text."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ncubble.analysis.changes.change import Change
from ncubble.analysis.diagnosis import words
from ncubble.analysis.diagnosis.verdict import MERGE, Place
from ncubble.text import values
from tests.helpers.dashboard_frames import PARTS, verdict


@pytest.mark.parametrize(
    ("nanoseconds", "shown"),
    [
        (0.0, "0 ns"),
        (17.3, "17 ns"),
        (1500.0, "1.50 µs"),
        (64_300.0, "64.3 µs"),
        (400_123.0, "400 µs"),
        (2.5e6, "2.50 ms"),
        (64.3e9, "64.3 s"),
    ],
)
def test_a_duration_has_three_digits_and_its_unit(nanoseconds: float, shown: str) -> None:
    assert values.duration(nanoseconds) == shown


@pytest.mark.parametrize("absent", [None, math.nan, math.inf, "", "n/a", True])
def test_what_is_not_a_number_is_not_collected_and_zero_is_one(absent: object) -> None:
    assert {values.percent(absent), values.duration(absent), values.frequency(absent)} == {"not collected"}
    assert values.percent(0.0) == "0.0 %"


def test_bubbles_are_everything_but_work() -> None:
    assert words.biggest_bubble({"tensor_busy": 70.0, "data_wait": 20.0, "issue": 10.0}) == ("data_wait", 20.0)
    assert words.biggest_bubble({"tensor_busy": 100.0, "issue": 0.0}) is words.biggest_bubble(None) is None
    assert words.bubble_pct(PARTS) == pytest.approx(100.0 - 43.1)
    assert words.bubble_pct({}) is words.bubble_pct({"tensor_busy": 50.0, "issue": math.nan}) is None


def test_the_sentence_names_pipe_cause_and_cost() -> None:
    said = words.sentence(verdict("k", 400_123.0, "copy_cost"))
    assert said == (
        "The tensor pipe is busy 43.1 % of 400 µs; the loss to look at first is copy cost, "
        "21.0 % of kernel time, hottest at gemm.cu:77."
    )


def test_a_second_line_that_is_not_far_behind_is_named_too() -> None:
    places = [Place("/a/mma.hpp", 634, "LDS R1, [R2]", 5.5), Place("/b/gemm.cu", 84, "LDS R1, [R3]", 5.0)]
    account = PARTS | {"smem_wait": 19.3}

    def said(places: list[Place]) -> str:
        return words.sentence(verdict("k", 1e5, "smem_wait", account=account, where={"smem_wait": places}))

    assert said(places).endswith("smem wait, 19.3 % of kernel time, hottest at mma.hpp:634 and gemm.cu:84.")
    places[1] = replace(places[1], pct=2.0)
    assert said(places).endswith("hottest at mma.hpp:634.")
    assert said([Place(None, None, "BAR.SYNC 0x0", 6.0)]).endswith("hottest instruction BAR.SYNC 0x0.")


def test_a_kernel_without_tensor_work_names_its_busy_unit_and_its_largest_bubble() -> None:
    parts = {"unit_busy": 62.9, "issue": 37.1}
    said = words.sentence(verdict("k", 3.38e6, "no_tensor_work", unit="fma", account=parts))
    assert said == (
        "No tensor work; the FMA pipe is busy 62.9 % of 3.38 ms. Its largest bubble is issue, 37.1 % of kernel time."
    )


def test_the_sentence_of_an_unknown_verdict_claims_nothing() -> None:
    said = words.sentence(verdict("k", None, "unknown", account=None))
    assert "not collected" in said
    assert "0.0 %" not in said


@pytest.mark.parametrize("cause", ["none", "bytes", "slow_path", "no_tensor_work", "unknown"])
def test_a_cause_outside_the_account_has_its_own_sentence(cause: str) -> None:
    said = words.sentence(verdict("k", 1e5, cause))
    assert "loss to look at first" not in said
    assert said.endswith(".")


def test_no_change_known_is_saturated_only_where_the_unit_is_full() -> None:
    full = {"tensor_busy": 96.0, "issue": 4.0}
    assert words.cause_words(verdict("k", 1e5, "none", account=full)) == "saturated"
    assert words.sentence(verdict("k", 1e5, "none", account=full)).endswith(": saturated.")
    assert words.cause_words(verdict("k", 1e5, "none")) == "no change known"
    assert words.sentence(verdict("k", 1e5, "none")).endswith("; nothing is known to gain 3 %.")


def test_a_launch_that_is_too_short_for_changes_is_not_called_without_one() -> None:
    short = replace(verdict("k", 3e3, "none"), changes=[Change(kind="none", text=MERGE)])
    assert words.cause_words(short) == "launch latency"


def test_a_verdict_is_named_by_the_kind_of_its_first_change_where_that_says_more() -> None:
    kinds = {
        cause: words.kind_words(verdict("k", 1e5, cause)) for cause in ("copy_cost", "slow_path", "none", "unknown")
    }
    assert kinds == {"copy_cost": "copies", "slow_path": "", "none": "", "unknown": ""}


def test_a_long_kernel_name_keeps_both_ends() -> None:
    short = values.short_name("a" * 60 + "b" * 60, 40)
    assert len(short) == 40
    assert short.startswith("a") and short.endswith("b")


def test_links_in_messages_of_rules_become_their_text() -> None:
    said = values.plain(
        "See @section:WarpStateStats:Warp State Statistics@ and @url:the guide:https://docs.nvidia.com/x@."
    )
    assert said == "See Warp State Statistics and the guide."


def test_idle_time_that_is_not_split_is_not_called_a_share_of_itself() -> None:
    unsplit = {"unit_busy": 53.3, "idle": 46.7}
    said = words.sentence(verdict("k", 1e5, "unknown", account=unsplit, unit="dram"))
    assert said.endswith("46.7 % of the time is idle; the report lacks the counters to say what to change.")


def test_a_shell_finds_the_home_directory_in_the_command_that_tries_a_kernel() -> None:
    triton = replace(verdict("gemm", 1e6, "data_wait"), where={"data_wait": [Place("gemm.py", 7, "", 10.0)]})
    command = words.try_command(triton, ["python", "~/my work/run.py", "a b"])
    assert command == "ncubble try --kernel '^gemm$' -- python ~/'my work/run.py' 'a b'"
