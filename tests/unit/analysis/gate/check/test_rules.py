"""The language of limits: what it says, what it refuses, and which limits hold for a kernel."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ncubble.analysis.account.parts import PARTS, WORK
from ncubble.analysis.gate.check.rules import (
    KINDS,
    GateRule,
    GateRules,
    Override,
    from_threshold,
    parse,
    parse_all,
    relative_pct,
)
from ncubble.analysis.gate.noise.metrics import BY_NAME, METRICS
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
    assert limit.kind in KINDS and limit.of_part == (limit.metric in PARTS)


@settings(max_examples=60, deadline=None)
@given(NAMES, st.floats(min_value=1.0, max_value=99.0))
def test_the_text_of_a_limit_keeps_every_digit_of_its_value(name: str, value: float) -> None:
    better = BY_NAME[name].better if name in BY_NAME else "higher" if name in WORK else "lower"
    sign = "<=" if better == "lower" else ">="
    assert parse(parse(f"{name} {sign} {value!r}").text).value == value


def test_every_form_that_a_remedy_offers_is_accepted() -> None:
    for name in (*BY_NAME, *PARTS):
        with pytest.raises(UsageError) as raised:
            parse(f"{name} wrong%")
        forms = raised.value.remedy.removeprefix("write ").split(" or ")
        assert [parse(form.strip("'")).metric for form in forms] == [name] * len(forms)


def test_the_older_form_is_a_relative_limit_and_nothing_else() -> None:
    assert from_threshold("cycles=3") == parse("cycles 3%")
    for text in ("cycles", "cycles=", "cycles=>=3", "tensor_elapsed_pct=>=3", "cycles=nan", "dram_pct=1", "x=1"):
        with pytest.raises(UsageError):
            from_threshold(text)


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


def test_an_override_matches_the_full_name_of_a_foreign_kernel() -> None:
    limits = GateRules((), (Override(r"gemm<128", rules("cycles 4%")),))
    assert texts(limits, "gemm grid (1, 1, 1)", "void ns::gemm<128, 4>(float*)") == {"cycles 4%"}
    assert texts(limits, "gemm grid (1, 1, 1)", "void ns::gemm<64, 4>(float*)") == set()


def test_off_drops_all_earlier_rules_of_its_metric_and_a_relative_limit_ends_it() -> None:
    cycles = BY_NAME["cycles"]
    off = GateRules(rules("cycles 2%", "cycles <= 100", "cycles off"))
    assert texts(off) == {"cycles off"} and relative_pct(cycles, off.of(LABEL)) is None
    absolute = off.plus(rules("cycles <= 50"))
    assert texts(absolute) == {"cycles off", "cycles <= 50"} and relative_pct(cycles, absolute.of(LABEL)) is None
    again = absolute.plus(rules("cycles 7%"))
    assert texts(again) == {"cycles 7%", "cycles <= 50"} and relative_pct(cycles, again.of(LABEL)) == 7.0


def test_without_a_relative_rule_the_ordinary_limit_holds() -> None:
    for metric in METRICS:
        assert relative_pct(metric, {}) == metric.limit_pct
    assert relative_pct(BY_NAME["cycles"], GateRules(rules("cycles <= 100")).of(LABEL)) == BY_NAME["cycles"].limit_pct


def test_the_command_line_has_the_last_word() -> None:
    table = GateRules(rules("cycles 2%"), (Override("gemm", rules("cycles 4%", "data_wait +2")),))
    assert texts(table.plus(rules("cycles 9%"))) == {"cycles 9%", "data_wait +2"}
    assert table.plus(()) is table


def test_overrides_that_match_no_kernel_are_named() -> None:
    limits = GateRules((), tuple(Override(match, rules("cycles 4%")) for match in ("gemm", "old_name", "ns::wide<8>")))
    limits = limits.plus(rules("cycles 9%"))
    assert limits.unused([LABEL]) == ("old_name", "ns::wide<8>")
    assert limits.unused([LABEL, "wide"], ["ns::wide<8>"]) == ("old_name",)
    assert limits.unused([]) == ("gemm", "old_name", "ns::wide<8>")


@pytest.mark.parametrize("match", ["(", "[", "*", "(?P<x", "a{99999999999}"])
def test_what_is_no_regular_expression_is_refused(match: str) -> None:
    with pytest.raises(UsageError, match="not a regular expression"):
        Override(match, rules("cycles 4%"))
