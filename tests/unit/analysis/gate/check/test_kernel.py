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
    assert any("these launches hold no bubble account" in note for note in judged(slower(), base).kernels[0].notes)
    plain = replace(base, account=None)
    assert any("the baseline holds no bubble account" in note for note in judged(slower(), plain).kernels[0].notes)


def test_a_part_may_not_grow_beyond_its_limit_even_if_all_metrics_hold(base: Baseline) -> None:
    (same,) = groups(report())
    result = judged(with_account(same, account(13.0)), base, "data_wait +2")
    assert (result.exit_code, result.kernels[0].rules[0].verdict) == (1, "regressed")
    (same,) = groups(report())
    assert judged(with_account(same, account(10.1)), base, "data_wait +2").exit_code == 0


def test_growth_of_a_part_that_was_not_collected_is_not_comparable(base: Baseline) -> None:
    (same,) = groups(report())
    assert judged(same, base, "data_wait +2").exit_code == 3


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
    with pytest.raises(UsageError, match=r"stages=3 .* and the runs are of tensor_core_gemm stages=2"):
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
