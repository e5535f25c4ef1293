"""The check: verdicts, refusals and exit codes."""

from __future__ import annotations

from typing import Any

import pytest

from ncubble.analysis.gate.check.check import check
from ncubble.analysis.gate.check.kernel_rules import one_gpu
from ncubble.analysis.gate.check.result import CheckOptions, GateResult
from ncubble.analysis.gate.check.rules import GateRules, parse_all
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


def test_a_limit_of_the_user_decides() -> None:
    worse = report(scaled(0.97))
    assert judged(worse).exit_code == 1
    assert judged(worse, rules=GateRules(parse_all(["tensor_elapsed_pct 10%"]))).exit_code == 0


def test_duration_and_dram_never_decide() -> None:
    assert judged(report(duration_ns=9e9)).exit_code == 0


def test_another_clock_is_noted_and_time_is_not_compared() -> None:
    kernel = judged(report(sm_clock_hz=1.4e9)).kernels[0]
    duration = next(metric for metric in kernel.metrics if metric.name == "duration_ns")
    assert kernel.verdict == "pass"
    assert "clock differs by -20.0 %" in duration.reason
    assert duration.comparison is None
    assert any("clock" in note for note in kernel.notes)


def test_a_clock_within_five_percent_is_not_noted_and_time_is_compared() -> None:
    for clock in (1.049, 0.951):
        kernel = judged(report(sm_clock_hz=1.75e9 * clock)).kernels[0]
        duration = next(metric for metric in kernel.metrics if metric.name == "duration_ns")
        assert duration.comparison is not None and not duration.reason
        assert not any("clock" in note for note in kernel.notes)


def test_a_baseline_without_clocks_is_compared_without_a_word_on_them() -> None:
    for unknown in (float("nan"), 0.0):
        for base, now in ((unknown, 1.4e9), (1.75e9, unknown)):
            kernel = judged(report(sm_clock_hz=now), base=recorded(report(sm_clock_hz=base))).kernels[0]
            assert kernel.verdict == "pass" and not any("clock" in note for note in kernel.notes)


def test_no_launches_measure_nothing() -> None:
    result = check([], recorded(), CheckOptions())
    assert (result.verdict, result.exit_code) == ("nothing_measured", 3)


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


def test_another_compute_capability_is_refused() -> None:
    assert "9.0" in judged(report(compute_capability="10.0")).kernels[0].reason


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


def test_a_named_baseline_file_prefers_its_own_key() -> None:
    result = judged(report(), report(scaled(0.76), kernel=gemm(1)), exact=False)
    assert [kernel.verdict for kernel in result.kernels] == ["pass", "not_comparable"]


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
    assert judged(report(scaled(0.9)), errors=broken).exit_code == 1


def test_a_regression_decides_over_what_could_not_be_measured() -> None:
    result = judged(report(scaled(0.9)), report(kernel=gemm(9)))
    assert (result.verdict, result.exit_code) == ("regressed", 1)


def test_scatter_that_hides_a_loss_is_no_pass() -> None:
    result = judged(report([43.0, 43.1, 42.9, 43.0, 30.0]))
    assert (result.verdict, result.exit_code) == ("not_comparable", 3)
    assert "scatter" in result.kernels[0].reason


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
    assert beside.exit_code == 0 and any("same reports" in note for note in beside.kernels[0].notes)


def test_a_report_that_lacks_some_values_is_not_comparable() -> None:
    nan = float("nan")
    assert judged(report([43.0, nan, nan, nan, nan])).exit_code == 3


def test_another_driver_and_more_registers_are_told() -> None:
    old = recorded(report(manifest={"device": {"uuid": GPU, "driver": "570.1"}}))
    now = report(manifest={"device": {"uuid": GPU, "driver": "580.2"}}, registers=168.0)
    assert any("driver 570.1 -> 580.2; registers 128 -> 168" in note for note in judged(now, base=old).kernels[0].notes)


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


def test_long_flags_are_cut() -> None:
    short, long = ({"build": {"flags": ["-O3"] * number}} for number in (20, 21))
    (note,) = judged(report(manifest=long), base=recorded(report(manifest=short))).kernels[0].notes
    words = " ".join(["-O3"] * 20)
    assert note == f"changed since the baseline: flags {words} -> {words} …"


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
