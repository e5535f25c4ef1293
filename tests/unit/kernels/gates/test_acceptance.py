"""Gates of a kernel: what is verified, what is too much, what is compared, and how the command
ends."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from ncubble.api import kernels
from ncubble.chips import load_chips
from ncubble.cli import main as cli
from ncubble.errors import GateError, MeasurementError, UsageError, VerificationError
from ncubble.kernels.catalog import sdpa
from ncubble.kernels.run.bench import Timing
from ncubble.kernels.run.device import occupancy
from ncubble.kernels.run.gates import compare_markdown, gates_of, run_acceptance
from ncubble.kernels.run.session import KernelOutcome, execute
from ncubble.kernels.run.verify import Verification
from ncubble.kernels.spec.spec import Gates
from ncubble.profiling.processes import MARKS
from tests.helpers.fake_gpu import FakeGpu
from tests.helpers.gate_counters import Counted

NAME = "sdpa_fp8_stage_c_wmma"
GOOD = Verification(max_abs_error=0.001, bad=0, checked=100, nonfinite=0, total=100)
BUILD = {"registers": 64, "spill_B": 0, "smem_static_B": 33920, "smem_dynamic_B": 0}


def timing(p50):
    return Timing(500, p50, p50 * 1.1, p50 * 1.01, 0.5, p50 * 0.9, {"sm_mhz": 1700})


class Runs:
    """Stands in for ``execute``: right and in time, unless told otherwise for the candidate."""

    def __init__(self, verification=GOOD, build=None, times=(20.0, 15.0), capability="9.0"):
        self.requests, self.times = [], times
        self.verification, self.build = verification, {**BUILD, **(build or {})}
        self.capability = capability

    def __call__(self, request):
        self.requests.append(request)
        candidate = request.parameters["use_cp_async"] == 1
        verification = self.verification if candidate else GOOD
        facts = {
            "kernel": {"name": NAME},
            "build": self.build if candidate else BUILD,
            "device": {"name": "H200", "compute_capability": self.capability, "driver": "580"},
            "clocks": {},
        }
        timed = request.iterations and verification.passed
        return KernelOutcome(
            request.case(), request.seed, facts, verification, timing(self.times[candidate]) if timed else None, None
        )


def evaluate(**told):
    return run_acceptance(NAME, gates_of(NAME), run=Runs(**told))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"timed": "large"}, "timed='large' must be one of: small"),
        ({"seeds": ()}, "seed"),
        ({"iterations": 0}, "iteration"),
    ],
)
def test_gates_that_could_not_be_evaluated_are_refused(changes, complaint):
    known = {"baseline": {}, "candidate": {}, "shapes": {"small": {"n": 1}}, "timed": "small"}
    with pytest.raises(UsageError, match=complaint):
        Gates(**{**known, **changes})


def test_both_paths_are_verified_on_every_shape_and_seed_and_timed_once():
    runs = Runs()
    outcome = run_acceptance(NAME, gates_of(NAME), run=runs)
    seen = [(r.parameters["use_cp_async"], r.shape["s"], r.seed) for r in runs.requests]
    assert seen == [(path, s, seed) for path in (0, 1) for s in (100, 512) for seed in (0, 1, 2)]
    assert [r.iterations for r in runs.requests if r.iterations] == [500, 500]
    assert outcome.correct and outcome.affordable and outcome.target_met
    assert outcome.gain_pct == pytest.approx(25.0)
    outcome.require()


def test_the_limits_are_those_of_the_specification():
    gates = gates_of(NAME)
    assert gates.shapes["mission"] == {"b": 1, "h": 8, "s": 512, "d": 64}
    assert (gates.seeds, gates.max_abs_error, gates.max_bad_pct, gates.iterations) == ((0, 1, 2), 0.06, 1.0, 500)
    assert (gates.max_registers, gates.max_spill_B, gates.max_smem_B) == (128, 0, 65536)
    assert (gates.min_occupancy_pct, gates.target_gain_pct, gates.timed) == (50.0, 10.0, "mission")


@pytest.mark.parametrize(
    "found",
    [
        replace(GOOD, max_abs_error=0.061),
        replace(GOOD, bad=2),
        replace(GOOD, nonfinite=1),
        replace(GOOD, overrun=("out",)),
        replace(GOOD, checked=0),
        replace(GOOD, max_abs_error=float("inf")),
    ],
    ids=str,
)
def test_a_wrong_path_fails_and_is_named_with_the_command_that_repeats_it(found):
    outcome = evaluate(verification=found)
    with pytest.raises(VerificationError, match="6 of 12") as error:
        outcome.require()
    assert f"verify {NAME} -p use_cp_async=1 --shape b=1,h=2,s=100,d=64 --seed 0" in error.value.remedy


def test_few_bad_elements_pass_the_gate_though_they_would_fail_a_verification():
    outcome = evaluate(verification=replace(GOOD, bad=1, max_abs_error=0.06))
    assert outcome.correct
    outcome.require()


def test_a_wrong_path_has_no_time_to_compare():
    outcome = evaluate(verification=replace(GOOD, bad=50))
    assert outcome.gain_pct is None and outcome.target_met is None
    assert "**Overall: failed.** Not timed" in compare_markdown(outcome)
    assert "| p50, µs | 20.00 | n/a | n/a |" in compare_markdown(outcome)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        ({"registers": 129}, "129 registers"),
        ({"spill_B": 4}, "4 bytes spilled"),
        ({"spill_B": None}, "the number of spilled bytes is not known"),
        ({"smem_dynamic_B": 40000}, "73920 bytes of shared memory"),
        ({"registers": 65}, "occupancy 37.5 %"),
    ],
)
def test_a_path_that_takes_too_much_fails_by_name(build, words):
    outcome = evaluate(build=build)
    assert outcome.correct and not outcome.affordable
    with pytest.raises(GateError, match=words) as error:
        outcome.require()
    assert "candidate" in str(error.value) and "baseline" not in str(error.value)


def test_a_missed_target_fails_by_name():
    outcome = evaluate(times=(20.0, 18.5))
    assert outcome.target_met is False and outcome.to_json()["passed"] is False
    with pytest.raises(GateError, match=r"saves 7.5 % of the baseline's time; required: 10 %"):
        outcome.require()
    text = compare_markdown(outcome)
    assert "| p50, µs | 20.00 | 18.50 | -7.5 % | -10 % | FAILED |" in text
    assert "the target of 10 % is missed" in text


def test_a_kernel_without_gates_is_refused_with_those_that_have():
    with pytest.raises(UsageError, match="tiled_matmul has no gates") as error:
        gates_of("tiled_matmul")
    assert NAME in error.value.remedy


def test_a_device_whose_occupancy_is_unknown_is_no_pass():
    with pytest.raises(MeasurementError, match=r"7\.5"):
        evaluate(capability="7.5")


@pytest.mark.parametrize(
    ("capability", "threads", "registers", "smem", "ctas", "percent"),
    [
        ((9, 0), 256, 64, 33920, 4, 50.0),  # registers
        ((9, 0), 256, 65, 0, 3, 37.5),  # a warp's registers come in portions of 256
        ((9, 0), 256, 32, 60 * 1024, 3, 37.5),  # shared memory, and 1 KB of it for the system
        ((9, 0), 32, 16, 0, 32, 50.0),  # CTAs
        ((9, 0), 1024, 32, 0, 2, 100.0),  # warps
        ((8, 6), 256, 40, 0, 6, 100.0),
        ((9, 0), 1024, 72, 0, 0, 0.0),  # does not fit at all
    ],
)
def test_occupancy(capability, threads, registers, smem, ctas, percent):
    found = occupancy(capability, threads, registers, smem)
    assert (found.ctas, found.percent) == (ctas, percent)


def test_every_known_device_can_be_full():
    for capability, chip in load_chips().items():
        if chip.limits:
            assert occupancy(capability, 128, 32, 0).percent == 100.0, chip


def brute_force(inputs, b, h, query):
    """One query's result, one key and one component at a time."""
    q, d = inputs["q"][b, h, query].astype(float), inputs["q"].shape[-1]
    scores = []
    for key in inputs["k"][b, h]:
        scores.append(sum(q[i] * (int(key[i]) - 128) * float(inputs["k_scale"][b, h]) for i in range(d)) / d**0.5)
    weights = [np.exp(score) for score in scores]
    values = (inputs["v"][b, h].astype(float) - 128) * float(inputs["v_scale"][b, h])
    return sum(weight * value for weight, value in zip(weights, values, strict=True)) / sum(weights)


def test_the_reference_agrees_with_attention_written_out():
    shape = {"b": 2, "h": 3, "s": 7, "d": 16}
    inputs = sdpa.draw(np.random.default_rng(5), shape)
    rows = np.array([0, 6, 7, 20, 41, 13])
    found = sdpa.attention(inputs, rows)["out"]
    for row, result in zip(rows, found, strict=True):
        b, rest = divmod(int(row), 21)
        np.testing.assert_allclose(result, brute_force(inputs, b, *divmod(rest, 7)), atol=1e-12)


def test_quantizing_uses_the_whole_range_and_errs_by_half_a_step():
    x = np.random.default_rng(1).standard_normal((1, 2, 64, 32), dtype=np.float32)
    u, scale = sdpa.quantize(x)
    assert np.abs(u.astype(int) - 128).max(axis=(2, 3)).tolist() == [[127, 127]]
    for head in range(2):
        error = np.abs(sdpa.dequant_sim_fp8(u[0, head], scale[0, head]) - x[0, head])
        assert error.max() <= 0.5001 * scale[0, head]


@pytest.fixture(autouse=True)
def no_profiler(monkeypatch):
    for mark in MARKS:
        monkeypatch.delenv(mark, raising=False)


def run_cli(monkeypatch, capsys, *argv, counted=None, **told):
    def played(name, gates, catalog, count, **more):
        return run_acceptance(name, gates, catalog, Runs(**told), count and (counted or Counted()), **more)

    monkeypatch.setattr(kernels, "run_acceptance", played)
    with pytest.raises(SystemExit) as ended:
        cli.main(["verify", NAME, "--gates", *argv])
    return ended.value.code or 0, capsys.readouterr()


@pytest.mark.parametrize(
    ("told", "code"),
    [
        ({}, 0),
        ({"times": (20.0, 20.0)}, 1),
        ({"verification": replace(GOOD, bad=5)}, 4),
        ({"build": {"registers": 200}}, 1),
        ({"build": {"registers": 200}, "verification": replace(GOOD, bad=5)}, 4),
    ],
    ids=str,
)
def test_exit_codes(monkeypatch, capsys, told, code):
    ended, said = run_cli(monkeypatch, capsys, **told)
    assert ended == code
    assert "| registers per thread |" in said.out


@pytest.mark.parametrize("mark", ["NV_COMPUTE_PROFILER_PERFWORKS_DIR", "NSYS_PROFILING_SESSION_ID"])
def test_times_below_a_profiler_are_not_judged_and_all_else_is(monkeypatch, capsys, tmp_path, mark):
    monkeypatch.setenv(mark, "1")
    slow = {"times": (20.0, 131_000.0)}
    ended, said = run_cli(monkeypatch, capsys, "--out", str(tmp_path / "kept"), **slow)
    assert ended == 0
    assert f"**Overall: passed.** Times are not judged: a profiler is active ({mark} is set)." in said.out
    assert "131000" not in said.out
    assert json.loads((tmp_path / "kept" / "perf_candidate.json").read_text())["timing"] is None
    ended, said = run_cli(monkeypatch, capsys, "--json", **slow)
    told = json.loads(said.out)
    assert told["passed"] and told["performance"]["target_met"] is None and mark in told["performance"]["untimed"]
    assert run_cli(monkeypatch, capsys, build={"registers": 200}, **slow)[0] == 1
    ended, said = run_cli(monkeypatch, capsys, verification=replace(GOOD, bad=5), **slow)
    assert ended == 4 and "**Overall: failed.**" in said.out


def test_the_folder_holds_what_was_found_even_if_it_failed(monkeypatch, capsys, tmp_path):
    target = tmp_path / "new" / "folder"
    ended, said = run_cli(monkeypatch, capsys, "--out", str(target), verification=replace(GOOD, bad=5))
    assert ended == 4
    assert {path.name for path in target.iterdir()} == {
        *("correctness_summary.json", "perf_baseline.json", "perf_candidate.json", "build_meta.json", "COMPARE.md"),
        "counters.json",
    }
    assert (target / "COMPARE.md").read_text(encoding="utf-8") == said.out
    summary = json.loads((target / "correctness_summary.json").read_text())
    assert summary["passed"] is False
    assert [check["passed"] for check in summary["checks"]] == [True] * 6 + [False] * 6
    assert json.loads((target / "perf_candidate.json").read_text())["timing"] is None
    meta = json.loads((target / "build_meta.json").read_text())
    assert {"git", "device", "build", "started", "clocks"} <= set(meta)
    assert meta["build"]["candidate"]["registers"] == 64


def test_a_folder_that_holds_something_is_refused_before_anything_runs(monkeypatch, capsys, tmp_path):
    (tmp_path / "old.json").write_text("{}")
    ended, said = run_cli(monkeypatch, capsys, "--out", str(tmp_path))
    assert ended == 2
    assert "old.json" in said.err and said.out == ""


def test_json_is_one_object(monkeypatch, capsys):
    ended, said = run_cli(monkeypatch, capsys, "--json")
    found = json.loads(said.out)
    assert ended == 0
    assert found["passed"] is True and found["performance"]["target_met"] is True
    assert len(found["correctness"]) == 12
    assert found["build_meta"]["device"]["name"] == "H200"


def test_shape_seed_and_launches_of_the_command_take_the_place_of_the_specs():
    runs = Runs()
    outcome = run_acceptance(NAME, gates_of(NAME).asked({"s": 96}, 7, 50), run=runs)
    assert [(request.shape, request.seed, request.iterations) for request in runs.requests] == [
        ({"b": 1, "h": 8, "s": 96, "d": 64}, 7, 50)
    ] * 2
    assert outcome.gates.timed == "given" and "50 launches each at given (b=1, h=8, s=96, d=64)" in compare_markdown(
        outcome
    )
    assert gates_of(NAME).asked({}, None, None) == gates_of(NAME)


def test_the_command_hands_them_on(monkeypatch, capsys):
    ended, said = run_cli(monkeypatch, capsys, "--json", "--shape", "s=96", "--seed", "7", "--iterations", "50")
    found = json.loads(said.out)
    assert ended == 0 and found["gates"]["iterations"] == 50
    assert [(check["shape"], check["seed"]) for check in found["correctness"]] == [("given", 7)] * 2


def test_parameters_of_the_paths_cannot_be_chosen(monkeypatch, capsys):
    ended, said = run_cli(monkeypatch, capsys, "-p", "use_cp_async=1")
    assert ended == 2 and "-p" in said.err


def compare(capsys, *folders):
    with pytest.raises(SystemExit) as ended:
        cli.main(["compare", *map(str, folders)])
    return ended.value.code or 0, capsys.readouterr()


def test_two_results_are_compared(monkeypatch, capsys, tmp_path):
    run_cli(monkeypatch, capsys, "--out", str(tmp_path / "then"))
    run_cli(monkeypatch, capsys, "--out", str(tmp_path / "now"), times=(20.0, 12.0), build={"registers": 72})
    ended, said = compare(capsys, tmp_path / "then", tmp_path / "now")
    assert ended == 0 and said.out.startswith(f"# {NAME}: then against now")
    assert "| baseline: p50, µs | 20.00 | 20.00 | +0.0 % |" in said.out
    assert "| candidate: p50, µs | 15.00 | 12.00 | -20.0 % |" in said.out
    assert "| candidate: registers | 64 | 72 |  |" in said.out and "baseline: registers" not in said.out


def test_results_of_other_sizes_or_damaged_ones_are_not_compared(monkeypatch, capsys, tmp_path):
    run_cli(monkeypatch, capsys, "--out", str(tmp_path / "then"))
    run_cli(monkeypatch, capsys, "--out", str(tmp_path / "now"), "--shape", "s=96")
    ended, said = compare(capsys, tmp_path / "then", tmp_path / "now")
    assert ended == 2 and "sizes of the baseline differ" in said.err
    for text, why in (("{", "cannot be read"), ("[]", "expected `object`"), ("{}", "`timing`")):
        (tmp_path / "now" / "perf_baseline.json").write_text(text, encoding="utf-8")
        ended, said = compare(capsys, tmp_path / "then", tmp_path / "now")
        assert ended == 3 and "perf_baseline.json" in said.err and why in said.err


def test_a_folder_without_gates_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["verify", NAME, "--out", "x"])
    assert ended.value.code == 2
    assert "--gates" in capsys.readouterr().err


@pytest.mark.usefixtures("compiler")
def test_from_start_to_end_on_a_gpu_of_host_memory():
    outcome = run_acceptance(NAME, gates_of(NAME), run=lambda request: execute(replace(request, iterations=0), FakeGpu))
    outcome.require()
    assert {item.path for item in outcome.resources} == {"baseline", "candidate"}
    assert len(outcome.checks) == 12
