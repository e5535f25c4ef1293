"""The check: verdicts, refusals and exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ncubble.analysis.gate import baseline_file
from ncubble.analysis.gate.accounts import Account, CodePlace
from ncubble.analysis.gate.baseline import Baseline
from ncubble.analysis.gate.check import check, one_gpu
from ncubble.analysis.gate.output import as_json, headline, junit, markdown
from ncubble.analysis.gate.repeats import Repeats, SuspiciousLaunch
from ncubble.analysis.gate.rules import GateRules, Override, parse_all
from ncubble.analysis.gate.verdicts import CheckOptions, GateResult
from ncubble.errors import ReportError
from tests.helpers.gate_frames import (
    CYCLES,
    GPU,
    STEADY,
    STEADY_CYCLES,
    TENSOR,
    TENSOR_ACTIVE,
    FakeReport,
    gemm,
    groups,
    recorded,
    report,
)


def judged(*now: FakeReport, base: Any = None, errors: Any = (), **options: Any) -> GateResult:
    return check(groups(*now), recorded() if base is None else base, CheckOptions(**options), errors)


def scaled(factor: float, values: tuple[float, ...] = STEADY) -> list[float]:
    return [value * factor for value in values]


def test_the_same_numbers_pass() -> None:
    result = judged(report())
    assert (result.verdict, result.exit_code) == ("pass", 0)
    (kernel,) = result.kernels
    assert [metric.verdict for metric in kernel.metrics] == ["pass", "pass", "info", "info"]
    assert (kernel.reason, kernel.notes, kernel.moved) == ("", (), ())


@pytest.mark.parametrize(
    ("tensor", "cycles", "verdict", "code"),
    [
        (0.98, 1.0, "regressed", 1),
        (1.0, 1.04, "regressed", 1),
        (1.04, 1.04, "regressed", 1),
        (1.04, 0.96, "improved", 0),
        (0.999, 1.002, "pass", 0),
        (0.97, 1.0, "regressed", 1),
    ],
)
def test_any_gated_loss_fails_and_gains_do_not(tensor: float, cycles: float, verdict: str, code: int) -> None:
    result = judged(report(scaled(tensor), scaled(cycles, STEADY_CYCLES)))
    assert (result.verdict, result.exit_code) == (verdict, code)


def test_one_new_launch_is_enough_and_finds_a_loss_of_two_percent() -> None:
    assert judged(report([43.0])).exit_code == 0
    assert judged(report([42.14])).exit_code == 1


def test_unknown_and_other_gpus_are_declared_weak_unless_they_are_said_to_be_the_same() -> None:
    for device, said in (({}, "GPU not named"), ({"uuid": "GPU-other"}, "on another GPU of this model")):
        found = judged(report(scaled(0.992), manifest={"device": device}))
        assert found.exit_code == 0
        assert any(said in note for note in found.kernels[0].notes)
    assert judged(report(scaled(0.992), manifest={"device": {}}), same_gpu=True).exit_code == 1


def test_another_clock_is_noted_and_time_is_not_compared() -> None:
    kernel = judged(report(sm_clock_hz=1.4e9)).kernels[0]
    duration = next(metric for metric in kernel.metrics if metric.name == "duration_ns")
    assert kernel.verdict == "pass"
    assert "clock differs by -20.0 %" in duration.reason
    assert duration.comparison is None
    assert any("clock" in note for note in kernel.notes)


def test_values_that_are_missing_or_impossible_are_not_measured() -> None:
    nan = [float("nan")] * 5
    for counters in ({}, {TENSOR: nan, CYCLES: nan}, {TENSOR: [-4.0] * 5, CYCLES: [0.0] * 5}):
        result = judged(report(counters=counters))
        assert (result.verdict, result.exit_code) == ("nothing_measured", 3)
    assert "impossible" in judged(report(counters={TENSOR: [900.0] * 5, CYCLES: STEADY_CYCLES})).kernels[0].reason


def test_a_gated_metric_that_vanished_is_never_passed_over() -> None:
    result = judged(report(counters={CYCLES: STEADY_CYCLES}))
    assert result.exit_code == 3
    assert TENSOR in result.kernels[0].reason


def test_another_definition_of_a_metric_is_not_compared() -> None:
    result = judged(report(counters={TENSOR_ACTIVE: STEADY, CYCLES: STEADY_CYCLES}))
    assert result.exit_code == 3
    assert TENSOR in result.kernels[0].reason
    assert TENSOR_ACTIVE in result.kernels[0].reason


def test_reports_without_the_counter_beside_others_are_told() -> None:
    kernel = judged(report(), report([float("nan")] * 5)).kernels[0]
    assert kernel.verdict == "pass"
    assert any("5 of 10 launches lack it" in note for note in kernel.notes)


def test_a_baseline_of_another_gpu_is_refused_by_name() -> None:
    result = judged(report(device="NVIDIA H100 PCIe"))
    assert (result.verdict, result.exit_code) == ("not_comparable", 3)
    assert "different GPU" in result.kernels[0].reason
    assert "NVIDIA H200" in result.kernels[0].reason
    assert "NVIDIA H100 PCIe" in result.kernels[0].reason
    assert judged(report(device="NVIDIA H100 PCIe"), allow_new=True).exit_code == 3


@pytest.mark.parametrize(("version", "code"), [("2025.9.0", 0), ("2024.3.1", 3), ("", 0)])
def test_another_major_version_of_ncu_is_refused(version: str, code: int) -> None:
    result = judged(report(ncu_version=version))
    assert result.exit_code == code
    assert not code or version in result.kernels[0].reason


def test_a_kernel_without_baseline_is_no_pass_and_the_nearest_is_named() -> None:
    result = judged(report(kernel=gemm(1)))
    assert (result.verdict, result.exit_code) == ("not_comparable", 3)
    assert "stages=3" in result.kernels[0].reason


def test_new_kernels_may_be_allowed_but_alone_they_measure_nothing() -> None:
    both = judged(report(), report(kernel=gemm(1)), allow_new=True)
    assert (both.exit_code, len(both.unrecorded)) == (0, 1)
    assert judged(report(kernel=gemm(1)), allow_new=True).verdict == "nothing_measured"


def test_one_named_baseline_file_judges_other_parameters_too() -> None:
    slower = report(scaled(0.76), kernel=gemm(1))
    result = judged(slower, exact=False)
    assert (result.verdict, result.exit_code) == ("regressed", 1)
    assert "stages=3" in result.kernels[0].notes[0]


def test_a_named_baseline_file_without_launches_is_no_pass() -> None:
    result = judged(report(kernel={"name": "softmax", "function": "gemm"}), exact=False, allow_new=True)
    assert (result.verdict, result.exit_code) == ("nothing_measured", 3)


def test_unmeasured_baselines_are_listed_and_fail_when_all_are_required() -> None:
    base = recorded(report(), report(kernel=gemm(2)), report(device="NVIDIA B200"))
    some = judged(report(), base=base)
    assert (some.exit_code, len(some.unmeasured)) == (0, 1)
    every = judged(report(), base=base, require_all=True)
    assert [kernel.verdict for kernel in every.kernels] == ["pass", "nothing_measured"]
    assert (every.verdict, every.exit_code) == ("not_comparable", 3)  # something was measured, just not everything


def test_an_unreadable_input_is_no_pass_but_hides_no_regression() -> None:
    broken = [("x.ncu-rep", "damaged")]
    assert judged(report(), errors=broken).exit_code == 3
    assert judged(report(scaled(0.9)), report(kernel=gemm(9)), errors=broken).exit_code == 1


WILD = (43.0, 44.5, 41.6, 43.0, 42.5)
ELSEWHERE = {"device": {"uuid": "GPU-other"}}


@pytest.mark.parametrize(
    ("now", "base", "words"),
    [
        (
            report([42.0]),
            WILD,
            "but one launch of such a noisy kernel is inconclusive: profile with",
        ),
        (
            report([42.0, 43.5]),
            WILD,
            "its repeats scatter: no loss could be distinguished from that. Profile more repeats, or",
        ),
        (
            report([43.0, 43.4, 42.6, 43.0, 42.5], manifest=ELSEWHERE),
            STEADY,
            "its repeats scatter: only a loss beyond 3.4 % would count. Profile more repeats, or raise the limit",
        ),
        (
            report([42.53], manifest=ELSEWHERE),
            STEADY,
            "but GPUs of one model differ: only a loss beyond 1.3 % would count. Record the baseline on this GPU, or",
        ),
        (
            report(STEADY, scaled(1.03, STEADY_CYCLES), sm_clock_hz=1.75e9 * 1.03, manifest=ELSEWHERE),
            STEADY,
            "cycles changed by +3.00 %, but the SM clock differs, which may explain it: only a loss beyond 4.1 % would "
            "count. Compare on one GPU with --against REV, or raise the limit of 2 %",
        ),
    ],
)
def test_what_cannot_be_decided_says_why_and_what_to_do(now: FakeReport, base: tuple[float, ...], words: str) -> None:
    result = judged(now, base=recorded(report(base)))
    (kernel,) = result.kernels
    assert result.exit_code == 3 and words in kernel.reason
    metric = kernel.reason.split()[0]
    assert not any(f"a loss of {metric} " in note for note in kernel.notes)  # weakness is said of what passed


def test_a_kernel_without_tensor_work_passes_by_its_cycles() -> None:
    base = recorded(report([0.0] * 5))
    assert judged(report([0.0] * 5), base=base).exit_code == 0
    assert judged(report([0.0] * 5, scaled(1.05, STEADY_CYCLES)), base=base).exit_code == 1


def test_a_tensor_kernel_that_lost_its_tensor_work_regressed() -> None:
    metric = judged(report([0.0] * 5)).kernels[0].metrics[0]
    assert metric.verdict == "regressed"
    assert metric.comparison is not None
    assert metric.comparison.change_pct == pytest.approx(-100)


def test_checking_the_baselines_own_reports_measures_nothing() -> None:
    same = report(key="one")
    alone = judged(same, base=recorded(same))
    assert (alone.verdict, alone.exit_code) == ("nothing_measured", 3)
    beside = judged(same, report(key="two"), base=recorded(same))
    assert beside.exit_code == 0 and any("5 launches are left out" in note for note in beside.kernels[0].notes)


def test_what_changed_is_told_in_either_direction_and_nothing_that_did_not() -> None:
    def made(driver: str, registers: float, **build: Any) -> FakeReport:
        return report(manifest={"device": {"uuid": GPU, "driver": driver}, "build": build}, registers=registers)

    old, new = made("570.1", 128.0, compiler="nvcc 12.8"), made("580.2", 168.0, compiler="nvcc 13.0")
    (there,) = judged(new, base=recorded(old)).kernels[0].notes
    (back,) = judged(old, base=recorded(new)).kernels[0].notes
    assert there == (
        "changed since the baseline: driver 570.1 -> 580.2; compiler nvcc 12.8 -> nvcc 13.0; registers 128 -> 168"
    )
    assert back.endswith("driver 580.2 -> 570.1; compiler nvcc 13.0 -> nvcc 12.8; registers 168 -> 128")
    assert judged(made("", 128.0), base=recorded(old)).kernels[0].notes == ()  # unknown is not changed


def test_a_filter_leaves_the_baselines_of_other_kernels_alone() -> None:
    both = recorded(report(), report(kernel=gemm(2)))
    assert judged(report(), base=both, require_all=True).exit_code == 3
    assert judged(report(), base=both, require_all=True, kernel="stages=3").exit_code == 0


def test_no_word_makes_two_named_gpus_one() -> None:
    unnamed, other = ({"device": device} for device in ({}, {"uuid": "GPU-other"}))
    lost = report(scaled(0.992), manifest=unnamed), report(scaled(0.992), manifest=other)
    assert judged(*lost, same_gpu=True).exit_code == 0
    assert one_gpu(["a", ""], ["a"], True) and not one_gpu(["a", ""], ["a"], False)
    assert not one_gpu(["a", ""], ["b"], True)


def test_launches_of_two_builds_are_no_repeats_of_each_other() -> None:
    old, new = ({"build": {"code_sha256": name}} for name in ("a", "b"))
    assert judged(report(manifest=old), report(manifest=old), base=recorded(report(manifest=old))).exit_code == 0
    result = judged(report(manifest=old), report(scaled(0.985), manifest=new))
    assert (result.verdict, result.exit_code) == ("not_comparable", 3)
    assert "2 builds" in result.kernels[0].reason


def account(data_wait: float, **more: Any) -> Account:
    parts = {"tensor_busy": (43.0,) * 5, "data_wait": (data_wait,) * 5, "issue": (57.0 - data_wait,) * 5}
    where = CodePlace("data_wait", "gemm.cu", 126, "loop_sync();", data_wait)
    return Account(parts, (where,), unit="tensor", **more)


def held(now: Repeats, base: Baseline, *rules: str, **options: Any) -> GateResult:
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
    result = held(with_account(slower(), account(20.0)), base)
    move = result.kernels[0].moved[0]
    assert (move.part, move.file, move.line) == ("data_wait", "gemm.cu", 126)
    assert move.points == pytest.approx(20 * 1.1 - 10)
    for text in (json.dumps(as_json(result)), junit(result), markdown(result)):
        assert "gemm.cu:126" in text.replace("&#58;", ":") or '"line": 126' in text


def test_without_an_account_that_is_said_instead_of_a_cause(base: Baseline) -> None:
    assert any("these launches have no bubble account" in note for note in held(slower(), base).kernels[0].notes)
    plain = replace(base, account=None)
    assert any("the baseline has no bubble account" in note for note in held(slower(), plain).kernels[0].notes)


def test_a_part_may_not_grow_beyond_its_limit_even_if_all_metrics_hold(base: Baseline) -> None:
    (same,) = groups(report())
    result = held(with_account(same, account(13.0)), base, "data_wait +2")
    assert (result.exit_code, result.kernels[0].rules[0].verdict) == (1, "regressed")
    (same,) = groups(report())
    assert held(with_account(same, account(10.1)), base, "data_wait +2").exit_code == 0


@pytest.mark.parametrize("rule", ["data_wait <= 20", "data_wait +2"])
def test_launches_that_tell_a_part_do_not_stand_for_suspicious_ones_that_lost_it(base: Baseline, rule: str) -> None:
    parts = {"tensor_busy": (70.0, 70.0, None), "data_wait": (10.0, 10.0, None), "issue": (20.0, 20.0, None)}
    now = with_account(groups(report())[0], replace(account(10.0), parts=parts))
    assert held(now, base, rule).exit_code == 0  # of a report that was made without samples
    now.__dict__["suspicious"] = (SuspiciousLaunch("run", 2, ("9 of 9 sampled instructions are not in the code",)),)
    assert held(now, base, rule).kernels[0].rules == ()
    accepted = held(now, base, rule, allow_suspicious=True)
    assert (accepted.exit_code, accepted.kernels[0].rules[0].verdict) == (3, "not_comparable")


def test_parts_of_another_unit_do_not_mean_the_same(base: Baseline) -> None:
    (same,) = groups(report())
    result = held(with_account(same, replace(account(10.0), unit="lsu")), base, "data_wait +2")
    assert result.exit_code == 3 and "busiest unit" in result.kernels[0].reason


def test_an_absolute_limit_is_not_told_from_a_report_that_lacks_launches_of_the_metric() -> None:
    damaged = report([43.0, 43.0, float("nan"), 43.0, 43.0])
    found = judged(damaged, base=[], allow_new=True, rules=GateRules(parse_all(["tensor_elapsed_pct >= 40"])))
    (kernel,) = found.kernels
    assert (found.exit_code, kernel.verdict) == (3, "not_comparable") and "1 of 5 launches lack" in kernel.reason


@pytest.mark.parametrize(("rule", "code"), [("tensor_elapsed_pct >= 42", 0), ("tensor_elapsed_pct >= 44", 1)])
def test_an_absolute_limit_needs_no_baseline(rule: str, code: int) -> None:
    options = CheckOptions(GateRules(parse_all([rule])), allow_new=True)
    result = check(groups(report()), [], options)
    assert result.exit_code == code and ("limit broken" in headline(result)) == (code == 1)
    assert ('failure type="limit_broken"' in junit(result)) == (code == 1)
    assert as_json(result)["verdict"] == ("limit_broken" if code else "pass")
    assert check(groups(report()), [], CheckOptions(options.rules)).exit_code == (code or 3)


def test_limits_of_one_kernel_leave_others_alone() -> None:
    limits = GateRules(overrides=(Override("stages=2", parse_all(["tensor_elapsed_pct >= 90"])),))
    result = check(
        groups(report(), report(kernel=gemm(2))), recorded(report(), report(kernel=gemm(2))), CheckOptions(limits)
    )
    assert [kernel.verdict for kernel in result.kernels] == ["pass", "limit_broken"]


def test_an_override_that_fits_no_kernel_is_named(base: Baseline) -> None:
    limits = GateRules(overrides=(Override("renamed", parse_all(["tensor_elapsed_pct >= 90"])),))
    result = check(groups(report()), [base], CheckOptions(limits))
    assert any("warning: no kernel matches 'renamed'" in note for note in result.notes)
    assert check(groups(report()), [base], CheckOptions(limits, require_all=True)).exit_code == 3


@pytest.mark.parametrize(
    ("rule", "code"), [("duration_ns 5%", 1), ("duration_ns 30%", 0), ("duration_ns <= 1e9", 0), ("cycles 5%", 0)]
)
def test_a_relative_limit_makes_duration_decide_and_no_other_rule_does(base: Baseline, rule: str, code: int) -> None:
    (now,) = groups(report(duration_ns=320_000.0))
    assert held(now, base, rule).exit_code == code


def test_a_regression_names_up_to_three_parts_that_grew_the_largest_first(base: Baseline) -> None:
    def of(**parts: float) -> Account:
        return Account({part: (pct,) * 5 for part, pct in parts.items()}, unit="tensor")

    before = of(tensor_busy=43.0, data_wait=10.0, smem_wait=10.0, sync_wait=10.0, issue=10.0, other=17.0)
    after = of(tensor_busy=39.0, data_wait=11.0, smem_wait=14.0, sync_wait=9.2, issue=12.0, other=14.8)
    found = held(with_account(slower(), after), replace(base, account=before)).kernels[0]
    assert [move.part for move in found.moved] == ["smem_wait", "issue", "data_wait"]
    little = of(tensor_busy=39.0, data_wait=9.3, smem_wait=9.4, sync_wait=19.2, issue=9.3, other=13.8)
    found = held(with_account(slower(), little), replace(base, account=before)).kernels[0]
    assert [(move.part, round(move.points, 2)) for move in found.moved] == [("sync_wait", 11.12), ("smem_wait", 0.34)]
    assert held(with_account(slower(1.0), after), replace(base, account=before)).kernels[0].moved == ()


def test_a_cause_that_is_doubtful_or_of_another_unit_says_so(base: Baseline) -> None:
    known = held(with_account(slower(), account(20.0)), base).kernels[0]
    assert not any("cause" in note or "less certain" in note for note in known.notes)
    another = held(with_account(slower(), account(20.0, overlap="phases")), base).kernels[0]
    assert another.moved and any("less certain than usual" in note for note in another.notes)
    other_unit = held(with_account(slower(), replace(account(20.0), unit="lsu")), base).kernels[0]
    assert not other_unit.moved
    assert any("no cause is named: the baseline's account counts idle" in note for note in other_unit.notes)


def test_the_same_machine_code_is_told_and_other_or_unknown_code_is_not(base: Baseline) -> None:
    def notes(then: str, now: str) -> tuple[str, ...]:
        (group,) = groups(report())
        group.__dict__["code"] = now
        return held(group, replace(base, sass_sha256=then)).kernels[0].notes

    assert notes("a", "a") == (
        "the machine code is the same as the baseline's: only noise, machine and data can differ",
    )
    for then, now in (("a", "b"), ("a", ""), ("", "a"), ("", "")):
        assert notes(then, now) == ()


@pytest.mark.parametrize("change", [{"counter": "sm__cycles_elapsed.sum"}, {"unit": "s"}, {"better": "higher"}])
def test_a_metric_that_is_defined_otherwise_is_not_compared(base: Baseline, change: dict[str, Any]) -> None:
    def with_metric(name: str) -> Baseline:
        return replace(base, metrics={**base.metrics, name: replace(base.metrics[name], **change)})

    (same,) = groups(report())
    gated = held(same, with_metric("cycles"))
    assert gated.exit_code == 3 and "cycles is defined differently here" in gated.kernels[0].reason
    shown = held(same, with_metric("duration_ns")).kernels[0]
    duration = next(metric for metric in shown.metrics if metric.name == "duration_ns")
    assert (shown.verdict, duration.verdict) == ("pass", "info") and "is defined differently here" in duration.reason


@pytest.mark.parametrize(
    ("member", "value", "says"),
    [
        ("launches", {"run": [0, 0, 0, 0, 7], "sm_clock_hz": [1.0] * 5}, "launches.run"),
        ("launches", {"run": [0] * 4, "sm_clock_hz": [1.0] * 4}, "launches.run"),
        ("launches", {"run": [0] * 5, "sm_clock_hz": [1.0]}, "launches.sm_clock_hz"),
        ("account", {"parts": {"issue": [50.0]}}, "account"),
    ],
)
def test_a_wrong_member_is_named(tmp_path: Path, base: Baseline, member: str, value: Any, says: str) -> None:
    path = tmp_path / "b.json"
    baseline_file.save([(path, base)])
    path.write_text(json.dumps(json.loads(path.read_text()) | {member: value}))
    with pytest.raises(ReportError, match=says):
        baseline_file.load(path)


def test_a_quick_run_names_no_cause(base: Baseline) -> None:
    coarse = Account({"tensor_busy": (43.0,) * 5, "idle": (57.0,) * 5}, unit="tensor")
    kernel = held(with_account(slower(), coarse), base).kernels[0]
    assert not kernel.moved and any("no cause is named" in note for note in kernel.notes)
