"""The language of limits: what it says, what it refuses, and which limits hold for a kernel."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ncubble.analysis.account.parts import COARSE, PARTS
from ncubble.analysis.gate.metrics import BY_NAME
from ncubble.analysis.gate.noise import Sample, Shifts
from ncubble.analysis.gate.rule_verdicts import check_absolute, check_growth, in_baseline_time
from ncubble.analysis.gate.rules import (
    GateRule,
    GateRules,
    Override,
    parse,
    parse_all,
    relative_pct,
)
from ncubble.errors import UsageError

LABEL = "tensor_core_gemm stages=3 copy=async vec=16 m=4096 n=4096 k=4096"
NAMES = st.sampled_from([*BY_NAME, *PARTS])
RULES = st.builds(
    "{}{}{}{}{}".format,
    NAMES,
    st.sampled_from([" ", "", "  ", "\t"]),
    st.sampled_from([">=", "<=", "+", "", "=", ">", "off"]),
    st.one_of(st.floats().map(repr), st.integers().map(str), st.just("")),
    st.sampled_from(["", "%", " %", "%%"]),
)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("tensor_elapsed_pct 1%", GateRule("tensor_elapsed_pct", "relative", 1.0)),
        ("tensor_elapsed_pct >= 50", GateRule("tensor_elapsed_pct", "at_least", 50.0)),
        ("tensor_elapsed_pct>=50%", GateRule("tensor_elapsed_pct", "at_least", 50.0)),
        ("cycles <= 2.1e6", GateRule("cycles", "at_most", 2_100_000.0)),
        (" duration_ns  <=  250000 ", GateRule("duration_ns", "at_most", 250_000.0)),
        ("dram_pct <= 80", GateRule("dram_pct", "at_most", 80.0)),
        ("dram_pct >= 80", GateRule("dram_pct", "at_least", 80.0)),
        ("data_wait +2", GateRule("data_wait", "growth", 2.0)),
        ("data_wait + .5", GateRule("data_wait", "growth", 0.5)),
        ("data_wait <= 10%", GateRule("data_wait", "at_most", 10.0)),
        ("data_wait <= 0", GateRule("data_wait", "at_most", 0.0)),
        ("tensor_busy >= 40", GateRule("tensor_busy", "at_least", 40.0)),
        ("cycles off", GateRule("cycles", "off")),
    ],
)
def test_a_rule_says_metric_kind_and_value(text: str, limit: GateRule) -> None:
    assert parse(text) == limit


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("", "not a rule", "cycles 2%"),
        ("cycles > 3", "not a rule", ">="),
        ("cycles 2% off", "not a rule", "cycles off"),
        ("cycles 2", "neither a sign nor a percentage", "'cycles 2%'"),
        ("cycles", "neither a sign nor a percentage", "'cycles off'"),
        ("cycels 2%", "'cycels'; nearest: cycles", "data_wait"),
        ("sm__cycles_elapsed.max 2%", "nearest: cycles", "parts: "),
        ("cycles >= 3", "less is better for cycles: a floor makes no sense", "'cycles <= 2100000'"),
        ("tensor_elapsed_pct <= 50", "more is better for tensor_elapsed_pct: a ceiling", "'tensor_elapsed_pct >= 50'"),
        ("tensor_busy +2", "more is better for tensor_busy: a limit of its growth", "'tensor_busy >= 50'"),
        ("data_wait >= 3", "less is better for data_wait: a floor", "'data_wait +2'"),
        ("dram_pct 1%", "there is no loss", "'dram_pct <= 50'"),
        ("data_wait 2%", "limited in points of the time", "'data_wait +2'"),
        ("data_wait +2%", "without %", "'data_wait +2'"),
        ("cycles +2", "for parts of the bubble account", "'cycles 2%'"),
        ("cycles <= 3%", "cycles is not a percentage", "cycles"),
        ("cycles <=", "the number is missing", "cycles"),
        ("cycles <= 1_000", "'1_000' is not a number", "cycles"),
        ("cycles <= ٣", "is not a number", "cycles"),
        ("cycles nan%", "nan is not finite", "cycles"),
        ("cycles <= inf", "inf is not finite", "cycles"),
        ("cycles <= 1e999", "1e999 is not finite", "cycles"),
        ("cycles <= -5", "cycles can only lie between 1 and", "cycles"),
        ("cycles -2%", "not a percentage between 0 and 100", "cycles"),
        ("cycles 0%", "not a percentage between 0 and 100", "cycles"),
        ("cycles 100%", "not a percentage between 0 and 100", "cycles"),
        ("data_wait +100", "not a number of points between 0 and 100", "data_wait"),
        ("tensor_elapsed_pct >= 101", "between 0 and 100", "tensor"),
        ("tensor_elapsed_pct >= 0", "it can never fail", "tensor"),
        ("data_wait <= 100", "it can never fail", "data_wait"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_reason_and_what_to_write(text: str, message: str, remedy: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(text)
    assert message in raised.value.message and repr(text) in raised.value.message
    assert remedy in raised.value.remedy


@settings(max_examples=80, deadline=None)
@given(st.one_of(st.text(max_size=300), RULES))
@example("a" * 100_000 + "%%")
@example("cycles\x00 2%")
def test_any_text_is_a_limit_or_a_usage_error_and_a_limit_reads_back(text: str) -> None:
    try:
        limit = parse(text)
    except UsageError as error:
        assert "\n" not in error.message and error.remedy and len(error.message) < 500
        return
    assert parse(limit.text) == limit
    assert limit.of_part == (limit.metric in PARTS)


def test_every_form_that_a_remedy_offers_is_accepted() -> None:
    for name in (*BY_NAME, *PARTS):
        with pytest.raises(UsageError) as raised:
            parse(f"{name} wrong%")
        forms = raised.value.remedy.removeprefix("write ").split(" or ")
        assert [parse(form.strip("'")).metric for form in forms] == [name] * len(forms)


def rules(*texts: str) -> tuple[GateRule, ...]:
    return parse_all(texts)


def texts(limits: GateRules, label: str = LABEL, kernel: str = "") -> set[str]:
    return {limit.text for held in limits.of(label, kernel).values() for limit in held}


def test_a_later_rule_replaces_those_of_its_metric_and_kind_only() -> None:
    found = GateRules(
        rules("cycles 2%", "cycles <= 100", "cycles 3%", "data_wait +2", "data_wait <= 9", "data_wait +1")
    )
    assert texts(found) == {"cycles 3%", "cycles <= 100", "data_wait +1", "data_wait <= 9"}


def test_overrides_hold_in_order_for_the_kernels_that_they_match() -> None:
    limits = GateRules(
        rules("cycles 2%", "tensor_elapsed_pct 1%"),
        (
            Override("tensor_core_gemm", rules("cycles 4%")),
            Override("softmax", rules("cycles off")),
            Override(r"stages=3\b", rules("cycles 5%", "data_wait +2")),
        ),
    )
    assert texts(limits) == {"cycles 5%", "tensor_elapsed_pct 1%", "data_wait +2"}
    assert texts(limits, "tensor_core_gemm stages=32") == {"cycles 4%", "tensor_elapsed_pct 1%"}
    assert texts(limits, "softmax_online") == {"cycles off", "tensor_elapsed_pct 1%"}
    assert texts(limits, "copy") == {"cycles 2%", "tensor_elapsed_pct 1%"}


def test_off_drops_all_earlier_rules_of_its_metric_and_a_relative_limit_ends_it() -> None:
    cycles = BY_NAME["cycles"]
    off = GateRules(rules("cycles 2%", "cycles <= 100", "cycles off"))
    assert texts(off) == {"cycles off"} and relative_pct(cycles, off.of(LABEL)) is None
    absolute = off.plus(rules("cycles <= 50"))
    assert texts(absolute) == {"cycles off", "cycles <= 50"} and relative_pct(cycles, absolute.of(LABEL)) is None
    again = absolute.plus(rules("cycles 7%"))
    assert texts(again) == {"cycles 7%", "cycles <= 50"} and relative_pct(cycles, again.of(LABEL)) == 7.0


def test_the_command_line_has_the_last_word() -> None:
    table = GateRules(rules("cycles 2%"), (Override("gemm", rules("cycles 4%", "data_wait +2")),))
    assert texts(table.plus(rules("cycles 9%"))) == {"cycles 9%", "data_wait +2"}
    assert table.plus(()) is table


def test_overrides_that_match_no_kernel_are_named() -> None:
    limits = GateRules((), tuple(Override(match, rules("cycles 4%")) for match in ("gemm", "old_name", "ns::wide<8>")))
    limits = limits.plus(rules("cycles 9%"))
    assert limits.unused([LABEL]) == ("old_name", "ns::wide<8>")
    assert limits.unused([LABEL, "wide", "ns::wide<8>"]) == ("old_name",)
    assert limits.unused([]) == ("gemm", "old_name", "ns::wide<8>")


@pytest.mark.parametrize("match", ["(", "[", "*", "(?P<x", "a{99999999999}"])
def test_what_is_no_regular_expression_is_refused(match: str) -> None:
    with pytest.raises(UsageError, match="not a regular expression"):
        Override(match, rules("cycles 4%"))


FLOOR = parse("tensor_elapsed_pct >= 44")
CEILING = parse("cycles <= 2.1e6")
GROWTH = parse("data_wait +2")
STEADY = [20.1, 20.3, 19.9, 20.0, 20.2]
PRIOR = 0.3


def grown(points: float, before: list[float] = STEADY) -> list[float]:
    return [value + points for value in before]


@pytest.mark.parametrize(
    ("limit", "values", "verdict"),
    [
        (FLOOR, [44.0, 44.0], "pass"),
        (FLOOR, [50.0], "pass"),
        (FLOOR, [40.0, 49.0], "pass"),
        (FLOOR, [43.99, 44.0], "limit_broken"),
        (CEILING, [2.1e6], "pass"),
        (CEILING, [2.0e6, 2.3e6], "limit_broken"),
        (parse("data_wait <= 10"), [9.0, 11.5], "limit_broken"),
        (parse("data_wait <= 10"), [9.0, 10.5], "pass"),
    ],
)
def test_the_mean_alone_decides_an_absolute_limit(limit, values, verdict) -> None:
    found = check_absolute(limit, values)
    assert found.verdict == verdict and found.value == pytest.approx(np.mean(values))
    assert bool(found.reason) == (verdict != "pass")


@pytest.mark.parametrize("values", [[], [None, None], [math.nan, math.inf]])
@pytest.mark.parametrize("limit", [FLOOR, CEILING, parse("data_wait <= 10"), parse("idle <= 10")])
def test_an_absolute_limit_is_never_kept_by_measuring_nothing(limit, values) -> None:
    found = check_absolute(limit, values)
    assert (found.verdict, found.value) == ("nothing_measured", None)
    if limit.metric in COARSE:
        assert "cannot separate data_wait, copy_cost" in found.reason
    else:
        assert "profile with the default sets" in found.reason


def test_a_limit_within_the_interval_of_the_mean_is_called_near() -> None:
    near = check_absolute(FLOOR, [43.9, 44.2, 44.1])
    assert near.verdict == "pass" and "within noise of its limit" in near.note
    assert check_absolute(FLOOR, [48.9, 49.2, 49.1]).note == ""
    assert check_absolute(FLOOR, [44.01]).note == ""  # no noise is known of one launch
    assert "within noise" in check_absolute(FLOOR, [44.01], sd_prior=0.1).note


@pytest.mark.parametrize(
    ("values", "sd_prior", "note"),
    [
        ([44.1, 44.2, 44.3], None, "±0.25 (95 %) around 44.2"),  # t of 2 degrees of freedom, 4.30, by 0.1 / sqrt(3)
        ([44.2, 44.3, 44.4], None, ""),
        ([44.0, 44.2], None, "±1.3 (95 %) around 44.1"),  # t of 1, 12.7
        ([44.05, 44.15, 44.1], 0.1, "±0.12 (95 %) around 44.1"),  # t of 12 + 2, 2.14, by about 0.095 / sqrt(3)
        ([44.0, 44.0], None, "±0 (95 %) around 44"),
        ([44.1, 44.2, 44.3], 0.1, ""),  # a prior narrows the interval of few launches
        ([44.01], 0.1, "±0.22 (95 %) around 44.01"),  # t of 12, 2.18
        ([44.25], 0.1, ""),
    ],
)
def test_the_interval_of_a_mean_follows_its_scatter_and_what_is_expected(values, sd_prior, note) -> None:
    found = check_absolute(FLOOR, values, sd_prior).note
    assert found.endswith(note) and bool(found) == bool(note)


@pytest.mark.parametrize(
    ("points", "verdict"),
    [(-20, "pass"), (-2, "pass"), (0, "pass"), (0.9, "pass"), (1.1, "regressed"), (9, "regressed")],
)
def test_growth_beyond_half_of_the_limit_is_a_regression_and_shrinking_no_improvement(points, verdict) -> None:
    found = check_growth(GROWTH, STEADY, grown(points), PRIOR)
    assert found.verdict == verdict and found.value == pytest.approx(points)
    assert bool(found.reason) == (verdict != "pass")
    assert found.comparison is not None and found.comparison.decision_pct == pytest.approx(1.0)


def test_noise_that_hides_the_limit_is_not_comparable_and_no_pass() -> None:
    wild = [20.0, 28.0, 20.0, 28.0, 20.0]
    for now in (wild, grown(3, wild)):
        found = check_growth(GROWTH, STEADY, now, PRIOR)
        assert found.verdict == "not_comparable" and "Profile more repeats" in found.reason


def test_a_growth_that_may_go_unseen_is_called_weak() -> None:
    weak = check_growth(GROWTH, STEADY, STEADY, 1.0)
    assert weak.verdict == "pass" and weak.note.startswith("weak: with 5 + 5 repeats a growth of data_wait below")
    assert check_growth(GROWTH, STEADY, STEADY, PRIOR).note == ""


def test_noise_that_processes_share_is_part_of_the_test() -> None:
    runs = (Sample(tuple(STEADY), runs=("a",) * 5), Sample(tuple(grown(1.2)), runs=("b",) * 5))
    assert check_growth(GROWTH, *runs, PRIOR).verdict == "regressed"
    assert check_growth(GROWTH, *runs, PRIOR, Shifts(run_pct=0.6)).verdict == "pass"


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ([], STEADY, "no launch of the baseline has it: record the baseline again"),
        ([None] * 5, STEADY, "no launch of the baseline has it"),
        ([20.0, None], STEADY, "only one launch of the baseline has it"),
        (STEADY, [], "no account of these launches has it: profile with the default sets"),
        (STEADY, [None, math.nan], "profile with the default sets"),
        ([], [], "profile with the default sets"),
    ],
)
def test_a_part_that_one_side_lacks_is_not_comparable(before, now, said) -> None:
    found = check_growth(GROWTH, before, now, PRIOR)
    assert found.verdict == "not_comparable" and said in found.reason


def test_launches_without_the_part_are_left_out_with_what_is_known_of_them() -> None:
    now = Sample((20.0, math.nan, 20.2), runs=("a", "b", "c"), gpus=("x", "y", "z"))
    found = check_growth(GROWTH, [*STEADY, None], now, PRIOR)
    assert found.verdict == "pass"
    assert found.note == "data_wait of the baseline: 1 of 6 launches lack it; data_wait: 1 of 3 launches lack it"


def test_shares_are_counted_in_the_time_of_the_baseline() -> None:
    for unit in (100.0, 1.0):
        assert in_baseline_time([20.0, None], 0.5 * unit, unit) == (10.0, None)
    for cycles, before in ((math.nan, 1.0), (0.0, 1.0), (1.0, 0.0), (1.0, math.nan), (-1.0, 1.0), (math.inf, 1.0)):
        assert in_baseline_time([20.0], cycles, before) == (None,)
    faster = in_baseline_time([25.0] * 5, 80.0, 100.0)  # everything but this part got faster
    assert check_growth(GROWTH, [20.0] * 5, faster, PRIOR).verdict == "pass"
    slower = in_baseline_time([20.0] * 5, 120.0, 100.0)  # its share is as before, of more time
    assert check_growth(GROWTH, [20.0] * 5, slower, PRIOR).verdict == "regressed"


@pytest.mark.parametrize(("growth", "least", "most"), [(0.0, 0.0, 0.001), (2.0, 0.99, 1.0)])
def test_error_rates_at_the_noise_that_is_expected(growth: float, least: float, most: float) -> None:
    random = np.random.default_rng(20261122)
    trials = 2_000
    before = 20 + PRIOR * random.standard_normal((trials, 5))
    now = 20 + growth + PRIOR * random.standard_normal((trials, 5))
    pairs = zip(before.tolist(), now.tolist(), strict=True)
    found = sum(check_growth(GROWTH, one, other, PRIOR).verdict == "regressed" for one, other in pairs)
    assert least <= found / trials <= most
