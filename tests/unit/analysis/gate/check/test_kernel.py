"""What the gate says of one kernel beside its metrics: limits that were asked for, what moved, and
where it ran."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ncubble.analysis.gate.accounts.account import Account, CodePlace
from ncubble.analysis.gate.baseline import file as baseline_file
from ncubble.analysis.gate.baseline.baseline import Baseline
from ncubble.analysis.gate.baseline.repeats import Repeats
from ncubble.analysis.gate.baseline.suspicion import SuspiciousLaunch
from ncubble.analysis.gate.baseline.update import check_reason, replaced
from ncubble.analysis.gate.check.check import check
from ncubble.analysis.gate.check.result import CheckOptions, GateResult
from ncubble.analysis.gate.check.rules import GateRules, Override, parse_all
from ncubble.analysis.gate.output.output import as_json, junit, markdown
from ncubble.errors import ReportError, UsageError
from tests.helpers.gate_frames import GPU, STEADY, STEADY_CYCLES, gemm, groups, recorded, report


def account(data_wait: float, **more: Any) -> Account:
    parts = {"tensor_busy": (43.0,) * 5, "data_wait": (data_wait,) * 5, "issue": (57.0 - data_wait,) * 5}
    where = CodePlace("data_wait", "gemm.cu", 126, "loop_sync();", data_wait)
    return Account(parts, (where,), unit="tensor", **more)


def judged(now: Repeats, base: Baseline, *rules: str, **options: Any) -> GateResult:
    return check([now], [base], CheckOptions(GateRules(parse_all(rules)), **options))


def with_account(group: Repeats, found: Account) -> Repeats:
    group.__dict__["account"] = found
    return group


def slower(by: float = 1.1) -> Repeats:
    (group,) = groups(report([value / by for value in STEADY], [value * by for value in STEADY_CYCLES]))
    return group


@pytest.fixture
def base() -> Baseline:
    return replace(recorded()[0], account=account(10.0))


def test_a_regression_names_the_part_and_the_line_that_moved(base: Baseline) -> None:
    result = judged(with_account(slower(), account(20.0)), base)
    move = result.kernels[0].moved[0]
    assert (move.part, move.file, move.line) == ("data_wait", "gemm.cu", 126)
    assert move.points == pytest.approx(20 * 1.1 - 10)
    for text in (json.dumps(as_json(result)), junit(result), markdown(result)):
        assert "gemm.cu:126" in text.replace("&#58;", ":") or '"line": 126' in text


def test_without_an_account_that_is_said_instead_of_a_cause(base: Baseline) -> None:
    assert any("these launches have no bubble account" in note for note in judged(slower(), base).kernels[0].notes)
    plain = replace(base, account=None)
    assert any("the baseline has no bubble account" in note for note in judged(slower(), plain).kernels[0].notes)


def test_a_part_may_not_grow_beyond_its_limit_even_if_all_metrics_hold(base: Baseline) -> None:
    (same,) = groups(report())
    result = judged(with_account(same, account(13.0)), base, "data_wait +2")
    assert (result.exit_code, result.kernels[0].rules[0].verdict) == (1, "regressed")
    (same,) = groups(report())
    assert judged(with_account(same, account(10.1)), base, "data_wait +2").exit_code == 0


def test_growth_of_a_part_that_was_not_collected_is_not_comparable(base: Baseline) -> None:
    (same,) = groups(report())
    assert judged(same, base, "data_wait +2").exit_code == 3


@pytest.mark.parametrize("rule", ["data_wait <= 20", "data_wait +2"])
def test_launches_that_tell_a_part_do_not_stand_for_suspicious_ones_that_lost_it(base: Baseline, rule: str) -> None:
    parts = {"tensor_busy": (70.0, 70.0, None), "data_wait": (10.0, 10.0, None), "issue": (20.0, 20.0, None)}
    now = with_account(groups(report())[0], replace(account(10.0), parts=parts))
    assert judged(now, base, rule).exit_code == 0  # of a report that was made without samples
    now.__dict__["suspicious"] = (SuspiciousLaunch("run", 2, ("9 of 9 sampled instructions are not in the code",)),)
    assert judged(now, base, rule).kernels[0].rules == ()
    accepted = judged(now, base, rule, allow_suspicious=True)
    assert (accepted.exit_code, accepted.kernels[0].rules[0].verdict) == (3, "not_comparable")


def test_parts_of_another_unit_do_not_mean_the_same(base: Baseline) -> None:
    (same,) = groups(report())
    result = judged(with_account(same, replace(account(10.0), unit="lsu")), base, "data_wait +2")
    assert result.exit_code == 3 and "busiest unit" in result.kernels[0].reason


@pytest.mark.parametrize(("rule", "code"), [("tensor_elapsed_pct >= 42", 0), ("tensor_elapsed_pct >= 44", 1)])
def test_an_absolute_limit_needs_no_baseline(rule: str, code: int) -> None:
    options = CheckOptions(GateRules(parse_all([rule])), allow_new=True)
    assert check(groups(report()), [], options).exit_code == code


def test_a_missed_absolute_limit_is_a_regression_where_the_baseline_is_missing() -> None:
    options = CheckOptions(GateRules(parse_all(["tensor_elapsed_pct >= 44"])))
    assert check(groups(report()), [], options).exit_code == 1


def test_limits_of_one_kernel_leave_others_alone() -> None:
    limits = GateRules(overrides=(Override("stages=2", parse_all(["tensor_elapsed_pct >= 90"])),))
    result = check(
        groups(report(), report(kernel=gemm(2))), recorded(report(), report(kernel=gemm(2))), CheckOptions(limits)
    )
    assert [kernel.verdict for kernel in result.kernels] == ["pass", "regressed"]


def test_an_override_that_fits_no_kernel_is_named(base: Baseline) -> None:
    limits = GateRules(overrides=(Override("renamed", parse_all(["tensor_elapsed_pct >= 90"])),))
    result = check(groups(report()), [base], CheckOptions(limits))
    assert any("warning: no kernel matches 'renamed'" in note for note in result.notes)


@pytest.mark.parametrize(
    ("rule", "code"), [("duration_ns 5%", 1), ("duration_ns 30%", 0), ("duration_ns <= 1e9", 0), ("cycles 5%", 0)]
)
def test_a_relative_limit_makes_duration_decide_and_no_other_rule_does(base: Baseline, rule: str, code: int) -> None:
    (now,) = groups(report(duration_ns=320_000.0))
    assert judged(now, base, rule).exit_code == code


def test_a_regression_names_up_to_three_parts_that_grew_the_largest_first(base: Baseline) -> None:
    def of(**parts: float) -> Account:
        return Account({part: (pct,) * 5 for part, pct in parts.items()}, unit="tensor")

    before = of(tensor_busy=43.0, data_wait=10.0, smem_wait=10.0, sync_wait=10.0, issue=10.0, other=17.0)
    after = of(tensor_busy=39.0, data_wait=11.0, smem_wait=14.0, sync_wait=9.2, issue=12.0, other=14.8)
    found = judged(with_account(slower(), after), replace(base, account=before)).kernels[0]
    assert [move.part for move in found.moved] == ["smem_wait", "issue", "data_wait"]
    little = of(tensor_busy=39.0, data_wait=9.3, smem_wait=9.4, sync_wait=19.2, issue=9.3, other=13.8)
    found = judged(with_account(slower(), little), replace(base, account=before)).kernels[0]
    assert [(move.part, round(move.points, 2)) for move in found.moved] == [("sync_wait", 11.12), ("smem_wait", 0.34)]
    assert judged(with_account(slower(1.0), after), replace(base, account=before)).kernels[0].moved == ()


def test_a_cause_that_is_doubtful_or_of_another_unit_says_so(base: Baseline) -> None:
    known = judged(with_account(slower(), account(20.0)), base).kernels[0]
    assert not any("cause" in note or "less certain" in note for note in known.notes)
    another = judged(with_account(slower(), account(20.0, overlap="phases")), base).kernels[0]
    assert another.moved and any("less certain than usual" in note for note in another.notes)
    other_unit = judged(with_account(slower(), replace(account(20.0), unit="lsu")), base).kernels[0]
    assert not other_unit.moved
    assert any("no cause is named: the baseline's account counts idle" in note for note in other_unit.notes)


def test_the_same_machine_code_is_told_and_other_or_unknown_code_is_not(base: Baseline) -> None:
    def notes(then: str, now: str) -> tuple[str, ...]:
        (group,) = groups(report())
        group.__dict__["code"] = now
        return judged(group, replace(base, sass_sha256=then)).kernels[0].notes

    assert notes("a", "a") == ("the machine code is the same as the baseline's: the machine or the data differs",)
    for then, now in (("a", "b"), ("a", ""), ("", "a"), ("", "")):
        assert notes(then, now) == ()


@pytest.mark.parametrize("change", [{"counter": "sm__cycles_elapsed.sum"}, {"unit": "s"}, {"better": "higher"}])
def test_a_metric_that_is_defined_otherwise_is_not_compared(base: Baseline, change: dict[str, Any]) -> None:
    def with_metric(name: str) -> Baseline:
        return replace(base, metrics={**base.metrics, name: replace(base.metrics[name], **change)})

    (same,) = groups(report())
    gated = judged(same, with_metric("cycles"))
    assert gated.exit_code == 3 and "cycles is defined differently here" in gated.kernels[0].reason
    shown = judged(same, with_metric("duration_ns")).kernels[0]
    duration = next(metric for metric in shown.metrics if metric.name == "duration_ns")
    assert (shown.verdict, duration.verdict) == ("pass", "info") and "is defined differently here" in duration.reason


def test_one_value_of_a_baseline_allows_no_comparison(base: Baseline) -> None:
    lone = replace(base.metrics["cycles"], values=(500_000.0, None, None, None, None), mean=500_000.0, sd=None)
    found = judged(groups(report())[0], replace(base, metrics={"cycles": lone}))
    assert found.exit_code == 3 and "the baseline's 1 values do not allow a comparison" in found.kernels[0].reason
    two = replace(lone, values=(500_000.0, 500_100.0, None, None, None))
    assert judged(groups(report())[0], replace(base, metrics={"cycles": two})).exit_code == 0


def test_a_limit_asked_for_what_the_baseline_lacks_is_not_comparable(base: Baseline) -> None:
    bare = replace(base, metrics={"cycles": base.metrics["cycles"]})
    (same,) = groups(report())
    assert judged(same, bare, "duration_ns 5%").exit_code == 3


def test_runs_gpus_and_clocks_survive_the_file(tmp_path: Path, base: Baseline) -> None:
    baseline_file.save([(tmp_path / "b.json", base)])
    again = baseline_file.load(tmp_path / "b.json")
    assert again.sample("cycles") == base.sample("cycles")
    assert set(again.sample("cycles").gpus) == {GPU}
    assert again.account == base.account


@pytest.mark.parametrize(
    ("member", "value", "says"),
    [
        ("launches", {"run": [0, 0, 0, 0, 7], "sm_clock_hz": [1.0] * 5}, "launches.run"),
        ("launches", {"run": [0] * 4, "sm_clock_hz": [1.0] * 4}, "launches.run"),
        ("launches", {"run": [0] * 5, "sm_clock_hz": [1.0]}, "launches.sm_clock_hz"),
        ("account", {"parts": {"issue": [50.0]}}, "account"),
        ("history", ["because"], r"history\[0\]"),
    ],
)
def test_a_wrong_member_is_named(tmp_path: Path, base: Baseline, member: str, value: Any, says: str) -> None:
    path = tmp_path / "b.json"
    baseline_file.save([(path, base)])
    path.write_text(json.dumps(json.loads(path.read_text()) | {member: value}))
    with pytest.raises(ReportError, match=says):
        baseline_file.load(path)


def test_a_baseline_of_the_first_schema_is_read_as_of_an_unknown_gpu(tmp_path: Path, base: Baseline) -> None:
    path = tmp_path / "b.json"
    baseline_file.save([(path, base)])
    old = json.loads(path.read_text()) | {"schema": 1}
    path.write_text(json.dumps({key: old[key] for key in old if key not in ("launches", "account", "history")}))
    found = baseline_file.load(path)
    assert set(found.sample("cycles").gpus) == {""}
    kernel = check(groups(report()), [found], CheckOptions()).kernels[0]
    assert kernel.verdict == "pass" and any(" GPU " in note for note in kernel.notes)


def test_an_update_keeps_what_it_replaces_and_why(base: Baseline) -> None:
    twice = replaced(replaced(base, base, "first"), base, "second")
    assert [entry["because"] for entry in twice.history] == ["second", "first"]
    assert twice.history[0]["mean_sd_n"]["tensor_elapsed_pct"][2] == 5


def test_an_update_refuses_another_kernel(base: Baseline) -> None:
    (other,) = recorded(report(kernel=gemm(2)))
    with pytest.raises(UsageError, match=r"stages=3 .* but the runs are of tensor_core_gemm stages=2"):
        replaced(base, other, "wrong file")


def test_a_stale_override_fails_where_everything_must_be_judged(base: Baseline) -> None:
    limits = GateRules(overrides=(Override("renamed", parse_all(["tensor_elapsed_pct >= 90"])),))
    assert check(groups(report()), [base], CheckOptions(limits, require_all=True)).exit_code == 3


def test_a_quick_run_names_no_cause(base: Baseline) -> None:
    coarse = Account({"tensor_busy": (43.0,) * 5, "idle": (57.0,) * 5}, unit="tensor")
    kernel = judged(with_account(slower(), coarse), base).kernels[0]
    assert not kernel.moved and any("no cause is named" in note for note in kernel.notes)


@pytest.mark.parametrize("reason", ["", "  ", "two\nlines", "x" * 501])
def test_a_reason_that_says_nothing_is_refused(reason: str) -> None:
    with pytest.raises(UsageError, match="--because"):
        check_reason(reason)
