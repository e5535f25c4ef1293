"""Gates of a kernel: what is verified, what is too much, what is compared and counted, and how the
command ends."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from ncubble.api import kernels
from ncubble.chips import load_chips
from ncubble.cli import main as cli
from ncubble.errors import GateError, MeasurementError, UsageError, VerificationError
from ncubble.kernels.build import Build, CompiledResources
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run import compiling
from ncubble.kernels.run.bench import Timing
from ncubble.kernels.run.device import occupancy
from ncubble.kernels.run.gates import LEFT_OUT, compare_markdown, gates_of, run_acceptance
from ncubble.kernels.run.session import KernelOutcome, KernelRequest, execute
from ncubble.kernels.run.verify import Verification
from ncubble.kernels.spec.spec import CounterGate, Gates
from ncubble.profiling.processes import MARKS
from tests.helpers.fake_gpu import FakeGpu
from tests.helpers.gate_counters import READ, TENSOR, THROUGHPUT, WRITTEN, Counted

NAME = "sdpa_fp8_stage_c_wmma"
MISSION = {"b": 1, "h": 8, "s": 512, "d": 64}
GOOD = Verification(max_abs_error=0.001, bad=0, checked=100, nonfinite=0, total=100)
WRONG = replace(GOOD, bad=50)
BUILD = {"registers": 64, "spill_B": 0, "smem_static_B": 33920, "smem_dynamic_B": 0}
DENIED = MeasurementError("ERR_NVGPUCTRPERM: the counters are for administrators only", "ask one")


class Runs:
    """Stands in for ``execute``: right and in time, unless told otherwise for the candidate."""

    def __init__(self, verification=GOOD, build=None, times=(20.0, 15.0), capability="9.0"):
        self.requests, self.times, self.capability = [], times, capability
        self.verification, self.build = verification, {**BUILD, **(build or {})}

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
        timing = None
        if request.iterations and verification.passed:
            p50 = self.times[candidate]
            timing = Timing(500, p50, p50 * 1.1, p50 * 1.01, 0.5, p50 * 0.9, {"sm_mhz": 1700})
        return KernelOutcome(request.case(), request.seed, facts, verification, timing, None)


def evaluate(counted=None, gates=None, **told):
    return run_acceptance(NAME, gates or gates_of(NAME), run=Runs(**told), count=counted)


@pytest.fixture
def run_cli(monkeypatch, capsys):
    """``ncubble verify --gates`` as played by ``Runs``: its exit code and what it said."""
    for mark in MARKS:
        monkeypatch.delenv(mark, raising=False)

    def run(*argv, counted=None, **told):
        def played(name, gates, catalog, count, **more):
            return run_acceptance(name, gates, catalog, Runs(**told), count and (counted or Counted()), **more)

        monkeypatch.setattr(kernels, "run_acceptance", played)
        return ended("verify", NAME, "--gates", *argv)

    def ended(*argv):
        with pytest.raises(SystemExit) as exited:
            cli.main([*map(str, argv)])
        return exited.value.code or 0, capsys.readouterr()

    run.other = ended
    return run


# What a spec may ask.


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


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"direction": "sideways"}, "'sideways' must be one of: up, down, flat"),
        ({"metrics": ()}, "needs metrics"),
        ({"tolerance_pct": -1.0}, "tolerance of 0 % or more"),
    ],
)
def test_a_counter_that_could_not_be_judged_is_refused(changes, complaint):
    known = {"name": "bytes", "metrics": ("dram__bytes.sum",), "direction": "up", "tolerance_pct": 2.0}
    with pytest.raises(UsageError, match=complaint):
        CounterGate(**{**known, **changes})


@pytest.mark.parametrize(
    ("direction", "baseline", "candidate", "holds"),
    [
        ("up", 100.0, 102.1, True),
        ("up", 100.0, 101.9, False),
        ("up", 100.0, 90.0, False),
        ("down", 100.0, 97.9, True),
        ("down", 100.0, 110.0, False),
        ("flat", 100.0, 101.9, True),
        ("flat", 100.0, 98.1, True),
        ("flat", 100.0, 102.1, False),
        ("flat", 100.0, 97.9, False),
        ("up", 0.0, 1.0, True),
        ("flat", 0.0, 1.0, False),
        ("flat", 0.0, 0.0, True),
        *[(direction, 100.0, float("nan"), False) for direction in ("up", "down", "flat")],
    ],
)
def test_a_counter_goes_its_way_beyond_the_noise_or_stays_within_it(direction, baseline, candidate, holds):
    assert CounterGate("bytes", ("dram__bytes.sum",), direction, 2.0).holds(baseline, candidate) is holds


def test_the_limits_are_those_of_the_specification():
    gates = gates_of(NAME)
    assert gates.shapes["mission"] == MISSION
    assert (gates.seeds, gates.max_abs_error, gates.max_bad_pct, gates.iterations) == ((0, 1, 2), 0.06, 1.0, 500)
    assert (gates.max_registers, gates.max_spill_B, gates.max_smem_B) == (128, 0, 65536)
    assert (gates.min_occupancy_pct, gates.target_gain_pct, gates.timed) == (50.0, 10.0, "mission")
    with pytest.raises(UsageError, match="tiled_matmul has no gates") as error:
        gates_of("tiled_matmul")
    assert NAME in error.value.remedy


# What is verified and timed.


def test_both_paths_are_verified_on_every_shape_and_seed_and_timed_once():
    runs = Runs()
    outcome = run_acceptance(NAME, gates_of(NAME), run=runs)
    seen = [(r.parameters["use_cp_async"], r.shape["s"], r.seed) for r in runs.requests]
    assert seen == [(path, s, seed) for path in (0, 1) for s in (100, 512) for seed in (0, 1, 2)]
    assert [r.iterations for r in runs.requests if r.iterations] == [500, 500]
    assert outcome.correct and outcome.affordable and outcome.target_met
    assert outcome.gain_pct == pytest.approx(25.0)
    outcome.require()


def test_named_shapes_several_seeds_and_a_parameter_of_both_paths(run_cli):
    ended, said = run_cli("--json", "-p", "small,mission,pv=scalar", "--seed", "3,5")
    found = json.loads(said.out)
    assert ended == 0
    checked = [(check["path"], check["shape"], check["seed"]) for check in found["correctness"]]
    assert checked == list(itertools.product(("baseline", "candidate"), ("small", "mission"), (3, 5)))
    assert found["gates"]["candidate"] == {"pv": "scalar", "use_cp_async": 1}
    assert gates_of(NAME).asked(["small"], (), None).timed == "small"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("-p", "small,s=96"), "-p small and sizes are two shapes"),
        (("-p", "use_cp_async=1"), "-p use_cp_async is set by the paths of the spec's gates"),
        (("--seed", "1,x"), "--seed 1,x is no number"),
    ],
)
def test_what_the_gates_cannot_take_is_named(run_cli, arguments, says):
    ended, said = run_cli(*arguments)
    assert (ended, says in said.err) == (2, True)


def test_the_name_of_a_shape_stands_for_its_sizes():
    assert KernelRequest.parse(NAME, ["mission,pv=scalar"]).shape == MISSION


def test_the_limit_of_shared_memory_is_known_before_a_launch(monkeypatch):
    built = Build(b"", CompiledResources(64, 70_000, 0), "nvcc", (), "0", True)
    monkeypatch.setattr(compiling, "build", lambda case, arch: built)
    check = compiling.compile_check(find_spec(NAME), (), "sm_90a", read=False)
    assert check.problems == ("70000 bytes of shared memory; the spec's gates allow: 65536",)


def test_shape_seed_and_launches_that_are_given_take_the_place_of_the_specs(run_cli):
    runs = Runs()
    outcome = run_acceptance(NAME, gates_of(NAME).asked({"s": 96}, [7], 50), run=runs)
    asked = [(request.shape, request.seed, request.iterations) for request in runs.requests]
    assert asked == [({**MISSION, "s": 96}, 7, 50)] * 2
    assert "50 launches each at given (b=1, h=8, s=96, d=64)" in compare_markdown(outcome)
    assert gates_of(NAME).asked({}, (), None) == gates_of(NAME)
    ended, said = run_cli("--json", "-p", "s=96", "--seed", "7")
    found = json.loads(said.out)
    assert ended == 0
    assert [(check["shape"], check["seed"]) for check in found["correctness"]] == [("given", 7)] * 2


@pytest.mark.parametrize(
    "change",
    [
        {"max_abs_error": 0.061},
        {"bad": 2},
        {"nonfinite": 1},
        {"overrun": ("out",)},
        {"checked": 0},
        {"max_abs_error": float("inf")},
    ],
    ids=str,
)
def test_a_wrong_path_fails_and_is_named_with_the_command_that_repeats_it(change):
    outcome = evaluate(verification=replace(GOOD, **change))
    with pytest.raises(VerificationError, match="6 of 12") as error:
        outcome.require()
    assert f"verify {NAME} -p use_cp_async=1 -p b=1,h=2,s=100,d=64 --seed 0" in error.value.remedy


def test_few_bad_elements_pass_the_gate_though_they_would_fail_a_verification():
    outcome = evaluate(verification=replace(GOOD, bad=1, max_abs_error=0.06))
    assert outcome.correct
    outcome.require()


def test_a_wrong_path_has_no_time_to_compare_and_is_not_counted():
    counted = Counted()
    outcome = evaluate(counted, verification=WRONG)
    assert outcome.gain_pct is None and outcome.target_met is None and counted.calls == []
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


def test_every_known_device_can_be_full_and_one_whose_limits_are_unknown_is_no_pass():
    for capability, chip in load_chips().items():
        if chip.limits:
            assert occupancy(capability, 128, 32, 0).percent == 100.0, chip
    with pytest.raises(MeasurementError, match=r"7\.5"):
        evaluate(capability="7.5")


# What is counted.


def test_both_paths_are_counted_on_the_timed_shape_and_metrics_are_added_up():
    counted = Counted()
    outcome = evaluate(counted)
    asked = [TENSOR, THROUGHPUT, READ, WRITTEN]
    assert counted.calls == [({"use_cp_async": path}, MISSION, asked) for path in (0, 1)]
    assert [(check.gate.direction, check.passed) for check in outcome.counters] == [
        ("up", True),
        ("up", True),
        ("flat", True),
    ]
    assert outcome.counters[2].baseline == 1_000_000.0
    outcome.require()
    assert "| DRAM traffic, bytes | 1,000,000 | 1,001,000 | +0.1 % | flat <=" in compare_markdown(outcome)
    assert "**Overall: passed.** +25.0 %" in compare_markdown(outcome)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tensor": 4.12}, "tensor pipe busy"),
        ({"tensor": 3.0}, "tensor pipe busy"),
        ({"throughput": 12.0}, "SM throughput"),
        ({"read": 1_200_000.0}, "DRAM traffic"),
        ({"read": 600_000.0}, "DRAM traffic"),
    ],
)
def test_a_counter_that_goes_another_way_fails_by_name(changes, words):
    outcome = evaluate(Counted(**changes))
    with pytest.raises(GateError, match=words):
        outcome.require()
    assert outcome.to_json()["passed"] is False
    text = compare_markdown(outcome)
    assert text.count("FAILED") == 1 and "**Overall: failed.** +25.0 %" in text and "is met" in text


@pytest.mark.parametrize("counted", [Counted(error=DENIED), Counted(tensor=None)])
def test_counters_that_cannot_be_read_are_no_pass_and_cost_nothing_that_was_measured(counted):
    outcome = evaluate(counted)
    assert outcome.gain_pct == pytest.approx(25.0)
    assert outcome.to_json()["passed"] is False and outcome.to_json()["counters"]["unmeasured"]
    with pytest.raises(MeasurementError, match="counters were not measured") as error:
        outcome.require()
    assert "counters=False" in error.value.remedy
    text = compare_markdown(outcome)
    assert text.count("not measured |") == 3 and "Counters were not measured: " in text


def test_counters_left_out_on_request_are_named_and_pass_and_gates_without_ask_for_none():
    outcome = evaluate(None)
    outcome.require()
    assert outcome.to_json()["passed"] is True and LEFT_OUT in compare_markdown(outcome)
    counted = Counted()
    outcome = evaluate(counted, replace(gates_of(NAME), counters=()))
    outcome.require()
    assert counted.calls == [] and "DRAM" not in compare_markdown(outcome)


# The command.


@pytest.mark.parametrize(
    ("argv", "told", "code"),
    [
        ((), {}, 0),
        ((), {"times": (20.0, 20.0)}, 1),
        ((), {"verification": WRONG}, 4),
        ((), {"build": {"registers": 200}}, 1),
        ((), {"build": {"registers": 200}, "verification": WRONG}, 4),
        ((), {"build": {"registers": 200}, "counted": Counted(error=DENIED)}, 1),
        ((), {"counted": Counted(tensor=4.0)}, 1),
        ((), {"counted": Counted(read=2e6)}, 1),
        ((), {"counted": Counted(error=DENIED)}, 3),
    ],
)
def test_the_first_gate_that_does_not_hold_decides_the_exit_code(run_cli, argv, told, code):
    ended, said = run_cli(*argv, **told)
    assert ended == code
    assert "| registers per thread |" in said.out
    assert "verification" in told or "| DRAM traffic, bytes |" in said.out


@pytest.mark.parametrize("mark", ["NV_COMPUTE_PROFILER_PERFWORKS_DIR", "NSYS_PROFILING_SESSION_ID"])
def test_times_below_a_profiler_are_not_judged_and_all_else_is(run_cli, monkeypatch, tmp_path, mark):
    monkeypatch.setenv(mark, "1")
    slow = {"times": (20.0, 131_000.0)}
    ended, said = run_cli("--out", tmp_path / "kept", **slow)
    assert ended == 0
    assert f"**Overall: passed.** Times are not judged: a profiler is active ({mark} is set)." in said.out
    assert "131000" not in said.out
    assert json.loads((tmp_path / "kept" / "perf_candidate.json").read_text())["timing"] is None
    ended, said = run_cli("--json", **slow)
    told = json.loads(said.out)
    assert told["passed"] and told["performance"]["target_met"] is None and mark in told["performance"]["untimed"]
    assert run_cli(build={"registers": 200}, **slow)[0] == 1
    ended, said = run_cli(verification=WRONG, **slow)
    assert ended == 4 and "**Overall: failed.**" in said.out


def test_the_folder_holds_what_was_found_even_if_it_failed(run_cli, tmp_path):
    target = tmp_path / "new" / "folder"
    ended, said = run_cli("--out", target, verification=WRONG)
    assert ended == 4
    names = ["correctness_summary", "counters", "perf_baseline", "perf_candidate", "build_meta"]
    assert {path.name for path in target.iterdir()} == {"COMPARE.md", *(f"{name}.json" for name in names)}
    assert (target / "COMPARE.md").read_text(encoding="utf-8") == said.out
    summary, _, _, timed, meta = (json.loads((target / f"{name}.json").read_text()) for name in names)
    assert summary["passed"] is False
    assert [check["passed"] for check in summary["checks"]] == [True] * 6 + [False] * 6
    assert timed["timing"] is None
    assert {"git", "device", "build", "started", "clocks"} <= set(meta)
    assert meta["build"]["candidate"]["registers"] == 64
    ended, said = run_cli("--out", target)
    assert ended == 2 and "not empty" in said.err and said.out == ""


def test_json_is_one_object(run_cli):
    ended, said = run_cli("--json")
    found = json.loads(said.out)
    assert ended == 0 and found["passed"] is True and found["performance"]["target_met"] is True
    assert len(found["correctness"]) == 12 and found["build_meta"]["device"]["name"] == "H200"


@pytest.mark.parametrize(
    ("argv", "named"),
    [(("--gates", "-p", "use_cp_async=1"), "-p"), (("--out", "x"), "--gates")],
)
def test_options_that_do_not_go_together_are_refused(run_cli, argv, named):
    ended, said = run_cli.other("verify", NAME, *argv)
    assert ended == 2 and named in said.err


@pytest.fixture
def saved(run_cli, tmp_path):
    """Two folders of results, the second of other counters, times and registers."""
    changed = {"times": (20.0, 12.0), "build": {"registers": 72}, "counted": Counted(read=1_400_000.0)}
    run_cli("--out", tmp_path / "then")
    run_cli("--out", tmp_path / "now", **changed)
    return tmp_path


def test_two_results_are_compared(run_cli, saved):
    kept = json.loads((saved / "now" / "counters.json").read_text())
    assert kept["passed"] is False and [check["passed"] for check in kept["checks"]] == [True, True, False]
    ended, said = run_cli.other("compare", saved / "then", saved / "now")
    assert ended == 0 and said.out.startswith(f"# {NAME}: then against now")
    assert "| baseline: p50, µs | 20.00 | 20.00 | +0.0 % |" in said.out
    assert "| candidate: p50, µs | 15.00 | 12.00 | -20.0 % |" in said.out
    assert "| candidate: registers | 64 | 72 |  |" in said.out and "baseline: registers" not in said.out
    assert "| candidate: DRAM traffic, bytes | 1.001e+06 | 1.5e+06 | +49.9 % |" in said.out
    (saved / "then" / "counters.json").unlink()  # written before there were any
    ended, said = run_cli.other("compare", saved / "then", saved / "now")
    assert ended == 0 and "| candidate: DRAM traffic, bytes | n/a | 1.5e+06 |  |" in said.out


def test_results_of_other_sizes_are_not_compared(run_cli, saved):
    run_cli("--out", saved / "small", "-p", "s=96")
    ended, said = run_cli.other("compare", saved / "then", saved / "small")
    assert ended == 2 and "sizes of the baseline differ" in said.err


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("perf_baseline.json", "{", "cannot be read"),
        ("perf_baseline.json", "[]", "expected `object`"),
        ("perf_baseline.json", "{}", "`timing`"),
        ("counters.json", '{"checks": [{"baseline": 1.0}]}', "cannot be read"),
        ("counters.json", '{"checks": ["tensor"]}', "cannot be read"),
        ("counters.json", '{"checks": {"name": "tensor"}}', "cannot be read"),
        ("counters.json", '{"checks": [{"name": "tensor", "baseline": "many"}]}', "cannot be read"),
        ("counters.json", '{"checks": [{"name": 5}]}', "cannot be read"),
        ("counters.json", "[]", "cannot be read"),
    ],
)
def test_a_damaged_file_is_an_error_that_names_it(run_cli, saved, file, text, why):
    (saved / "now" / file).write_text(text, encoding="utf-8")
    ended, said = run_cli.other("compare", saved / "then", saved / "now")
    assert ended == 3 and file in said.err and why in said.err and "remedy" in said.err


@pytest.mark.usefixtures("compiler")
def test_from_start_to_end_on_a_gpu_of_host_memory():
    outcome = run_acceptance(NAME, gates_of(NAME), run=lambda request: execute(replace(request, iterations=0), FakeGpu))
    outcome.require()
    assert {item.path for item in outcome.resources} == {"baseline", "candidate"}
    assert len(outcome.checks) == 12
