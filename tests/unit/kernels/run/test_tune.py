"""``tune``: which configurations may be chosen, what is expected of them, what the search tries and
keeps, how it goes on after an interruption, and how configurations are measured."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from dataclasses import replace

import numpy as np
import pytest

from ncubble.errors import MeasurementError, ReportError, UsageError
from ncubble.kernels.catalog.registry import SPECS, find_spec
from ncubble.kernels.run import trials as trials_module
from ncubble.kernels.run import tune as module
from ncubble.kernels.run.trials import FAILED, OK, REFUSED, WRONG, Trial, Trials
from ncubble.kernels.run.tune import (
    ELITES,
    FILE,
    Journal,
    KeptBench,
    Setting,
    TuneAdvice,
    TuneMove,
    Tuner,
    improvements,
    space_of,
    usual_budget,
)
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.spec.spec import Parameter
from tests.helpers.fake_gpu import H200, FakeGpu
from tests.helpers.tune_bench import PlayedBench, RecordedGrid, recorded_kernels, toy, toy_space

AMPERE = replace(H200, name="A100", compute_capability=(8, 0), smem_per_cta=166912, sm_count=108)


def space(name, fixed=None, start=None, shape=None, device=H200):
    return space_of(find_spec(name), shape or {}, fixed or {}, start or {}, device)


def test_the_space_holds_every_valid_combination_once_and_no_other():
    found = space("tensor_core_gemm")
    assert [axis.name for axis in found.axes] == ["stages", "copy", "vec"]
    assert len(found.cases) == 24
    assert found.settings(found.start) == {"stages": 3, "copy": "async", "vec": 16}
    assert all(case.parameters["ablate"] == "none" for case in found.cases.values())
    assert found.left_out == {}


def test_stages_that_do_not_fit_the_gpu_are_no_configurations():
    most = {
        device.name: max(
            case.parameters["stages"]
            for case in space("gemm_mma_swizzled", start={"stages": 3}, device=device).cases.values()
            if case.parameters["tile_n"] == 256 and case.parameters["tile_k"] == 64
        )
        for device in (H200, AMPERE)
    }
    assert most == {"Fake H200": 4, "A100": 3}


def test_a_search_of_gemm_ws_holds_the_tile_that_suits_the_shape():
    found = space("gemm_ws", shape={"m": 2232, "n": 2112, "k": 1792})
    assert found.left_out == {
        "tile_m": "fixed at 192, its default here",
        "form": "fixed at turned, its default here",
        "edge": "fixed at moved, its default here",
    }
    assert {(case.parameters["tile_m"], case.parameters["form"]) for case in found.cases.values()} == {(192, "turned")}
    assert found.cases[found.start].parameters["tile_n"] == 192


def test_what_says_what_is_computed_is_not_searched_but_may_be_held():
    found = space("attention_fwd")
    assert found.left_out == {"causal": "defines what is computed"}
    assert {case.parameters["causal"] for case in found.cases.values()} == {0}
    held = space("attention_fwd", {"causal": "1"})
    assert held.left_out == {"causal": "fixed by -p"}
    assert {case.parameters["causal"] for case in held.cases.values()} == {1}
    assert len({case.flops for case in held.cases.values()}) == 1


def test_every_parameter_of_the_catalog_that_changes_the_work_says_so():
    for spec in (spec for spec in SPECS if spec.work is not None and spec.language != "host"):
        shape = {dim.name: dim.default for dim in spec.dims}
        defaults = {item.name: item.default for item in spec.parameters}
        for item in spec.parameters:
            works = {spec.work(shape, defaults | {item.name: value}) for value in item.choices}
            assert len(works) == 1 or item.problem, f"{spec.name}: {item.name}"


def test_a_held_parameter_is_no_axis_and_the_start_is_where_it_is_said():
    found = space("tensor_core_gemm", {"copy": "plain"}, {"stages": "1"})
    assert [axis.name for axis in found.axes] == ["stages", "vec"]
    assert found.settings(found.start) == {"stages": 1, "vec": 16}
    assert {case.parameters["copy"] for case in found.cases.values()} == {"plain"}


def test_moving_stays_in_the_space():
    found = space("gemm_mma_swizzled", start={"stages": 4, "tile_n": 256, "tile_k": 64})
    assert found.settings(found.moved(found.start, "stages", 3))["stages"] == 3
    assert found.moved(found.start, "stages", 6) is None  # more shared memory than there is
    assert found.moved(found.start, "stages", 99) is None and found.moved(found.start, "none", 1) is None


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("stream_pipeline",), "driven by the host"),
        (("tiled_matmul",), "no other valid configuration"),
        (("tensor_core_gemm", {"stages": 2}, {"stages": 3}), "both fixed and searched"),
        (("tensor_core_gemm", {}, {"ablate": "copy"}), "ablate=copy"),
        (("gemm_ws", {}, {}, {}, AMPERE), "only for sm_90a"),
        (("tensor_core_gemm", {"stages": 9}), "stages=9 is not allowed"),
        (("tensor_core_gemm", {"nonsense": 9}), "no parameter 'nonsense'"),
    ],
)
def test_a_space_that_cannot_be_searched_is_refused(arguments, complaint):
    with pytest.raises(UsageError, match=complaint):
        space(*arguments)


def test_a_space_too_large_to_look_through_is_refused():
    spec = toy()
    many = tuple(Parameter(f"p{number}", 0, tuple(range(16))) for number in range(5))
    with pytest.raises(UsageError, match="at most 50000 are searched"):
        space_of(replace(spec, parameters=(*spec.parameters, *many)), {}, {}, {}, H200)


# What is expected of configurations that were not timed.

SIZES, ORDERED = (4, 3), (True, False)
POINTS = list(itertools.product(range(4), range(3)))


def gains_of(times, ordered=ORDERED):
    return improvements(SIZES, ordered, POINTS, times)


def test_nothing_is_said_of_what_was_timed_and_nothing_is_left_where_all_was():
    times = {point: 100.0 + sum(point) for point in POINTS}
    assert gains_of(times) == {}
    assert set(gains_of({POINTS[0]: 100.0})) == set(POINTS[1:])


def test_more_is_expected_beside_the_fast_than_beside_the_slow():
    times = {(0, 0): 100.0, (3, 0): 400.0, (0, 1): 100.0, (3, 1): 400.0, (0, 2): 101.0}
    gains = gains_of(times)
    assert gains[(1, 0)] > 5 * gains[(2, 0)] > 0.0


def test_what_one_axis_shows_is_expected_at_values_of_the_other():
    times = {(place, 0): time for place, time in enumerate((400.0, 300.0, 200.0, 100.0))} | {(0, 1): 390.0}
    gains = gains_of(times)
    assert max(gains, key=lambda point: gains[point]) in [(3, 1), (3, 2)]


def test_words_have_no_order_and_numbers_have():
    times = {(0, 0): 100.0, (0, 1): 200.0, (3, 1): 210.0, (1, 1): 190.0}
    words = gains_of(times)
    numbers = gains_of(times, (True, True))
    assert words[(1, 2)] != numbers[(1, 2)]  # as numbers 2 is farther from 0 than from 1


@pytest.mark.parametrize("times", [{(0, 0): 5.0}, dict.fromkeys(POINTS[:5], 7.0), {(0, 0): 1.0, (3, 2): 1e6}])
def test_gains_are_finite_and_no_loss(times):
    gains = gains_of(times)
    assert all(math.isfinite(gain) and gain >= -1e-12 for gain in gains.values())


def test_the_order_of_timings_does_not_matter():
    times = {(0, 0): 100.0, (3, 2): 150.0, (1, 1): 120.0}
    assert gains_of(times) == pytest.approx(gains_of(dict(reversed(times.items()))))


# The search.


def bowl(parameters):
    """Fastest at 512 threads and 4 items."""
    return 100.0 + abs(parameters["items"] - 4) * 5.0 + abs(parameters["threads"] - 512) / 20.0


def tuned(bench, budget=10, **start):
    tuner = Tuner(toy_space(**start), bench, budget)
    return tuner, tuner.run()


@pytest.mark.parametrize("kernel", recorded_kernels())
def test_a_third_of_a_recorded_grid_is_enough_from_wherever_it_begins(kernel):
    grid, apart = RecordedGrid(kernel), []
    for start in grid.p50_us:
        tuner = Tuner(grid.space(start), PlayedBench(grid.timed), usual_budget(len(grid.p50_us)))
        apart.append(tuner.run()[0].p50_us / grid.best_us - 1.0)
        assert tuner.launches <= len(grid.p50_us) / 3
    assert statistics.mean(apart) < 0.01
    assert sum(one > 0.02 for one in apart) <= len(apart) / 8


def test_the_start_is_timed_first_and_nothing_twice():
    bench = PlayedBench(bowl)
    tuner, elites = tuned(bench, threads=128, items=1)
    assert (bench.measured[0]["threads"], bench.measured[0]["items"]) == (128, 1)
    seen = [tuple(parameters.values()) for parameters in bench.measured]
    assert len(seen) == len(set(seen)) == len(tuner.trials)
    assert elites[0].p50_us <= 115.0
    assert [elite.p50_us for elite in elites] == sorted(elite.p50_us for elite in elites)
    assert len(elites) == ELITES and elites[0].cause == ""


@pytest.mark.parametrize("budget", [1, 2, 5, 10, 31, 32, 100])
def test_the_budget_bounds_all_launches_those_in_turns_too(budget):
    bench = PlayedBench(lambda parameters: 100.0 + parameters["items"] / 100.0)
    tuner, elites = tuned(bench, budget)
    assert len(bench.measured) + sum(map(len, bench.turns)) == tuner.launches <= budget
    assert elites and tuner.stopped


def test_all_configurations_are_timed_where_the_budget_allows_it():
    bench = PlayedBench(bowl)
    tuner, elites = tuned(bench, 100)
    assert len(bench.measured) == 32 and tuner.stopped == "all configurations are timed"
    assert elites[0].p50_us == 100.0


def test_what_is_as_fast_as_the_best_is_timed_again_in_turns_and_that_time_counts():
    class Noisy(PlayedBench):
        def in_turns(self, cases):
            super().in_turns(cases)
            return [90.0 + number for number in range(len(cases))][::-1]

    bench = Noisy(lambda parameters: 100.0 + parameters["items"] / 100.0)
    _, elites = tuned(bench, 20)
    assert len(bench.turns) == 1 and len(bench.turns[0]) == ELITES
    assert [elite.p50_us for elite in elites] == [90.0, 91.0, 92.0]
    assert elites[0].trial.parameters == bench.turns[0][-1]
    clear = PlayedBench(
        lambda parameters: 100.0 if parameters["items"] == 8 and parameters["threads"] == 256 else 150.0
    )
    tuned(clear, 20)
    assert clear.turns == []


@pytest.mark.parametrize("outcome", [WRONG, FAILED, REFUSED])
def test_what_is_wrong_or_fails_is_never_an_elite(outcome):
    def timed(parameters):
        if parameters["items"] == 4:
            return Trial(parameters, outcome, "why")
        return bowl(parameters)

    bench = PlayedBench(timed)
    tuner, elites = tuned(bench, 32)
    spoiled = [trial for trial in tuner.trials.values() if trial.outcome == outcome]
    assert spoiled and all(elite.trial.parameters["items"] != 4 for elite in elites)
    timed_again = sum(map(len, bench.turns))
    assert tuner.launches == len(tuner.trials) + timed_again - (len(spoiled) if outcome == REFUSED else 0)


def test_where_nothing_is_right_there_are_no_elites():
    tuner, elites = tuned(PlayedBench(lambda parameters: Trial(parameters, WRONG, "NaN")), 6)
    assert elites == [] and tuner.launches == 6


def test_advice_is_tried_first_in_its_order_on_top_of_the_best():
    advice = TuneAdvice("issue", (TuneMove("items", (4, 2), "issue 10 %"), TuneMove("threads", (512,), "issue 10 %")))
    told = []
    bench = PlayedBench(bowl, lambda parameters: advice)
    tuner = Tuner(toy_space(threads=128, items=8), bench, 5, lambda point, trial, why: told.append((tuple(point), why)))
    tuner.search()
    tried = [(one["threads"], one["items"]) for one in bench.measured]
    assert tried[:3] == [(128, 8), (128, 4), (512, 4)] or tried[:4] == [(128, 8), (128, 4), (128, 2), (512, 4)]
    assert told[0][1] == "the start" and told[1][1] == "issue 10 %"


def test_advice_that_is_not_in_the_space_is_passed_over():
    advice = TuneAdvice(
        "issue", (TuneMove("items", (99,), "x"), TuneMove("nonsense", (1,), "x"), TuneMove("threads", (512,), "y"))
    )
    bench = PlayedBench(bowl, lambda parameters: advice)
    Tuner(toy_space(threads=128, items=8), bench, 3).search()
    assert bench.measured[1]["threads"] == 512


def test_profiles_follow_gains_and_every_elite_has_one_in_the_end():
    bench = PlayedBench(bowl, lambda parameters: TuneAdvice(f"cause of {parameters['items']}"))
    tuner = Tuner(toy_space(threads=1024, items=1), bench, 20)
    tuner.search()
    assert 1 < len(bench.profiled) <= 3
    tuner = Tuner(toy_space(threads=1024, items=1), bench, 20)
    assert all(elite.cause == f"cause of {elite.trial.parameters['items']}" for elite in tuner.run())


def test_the_usual_budget_is_a_third_but_for_tiny_grids():
    assert [usual_budget(count) for count in (2, 5, 10, 24, 260)] == [2, 5, 6, 8, 86]


# What is kept of it.

SETTING = Setting("toy", {"n": 65536}, {}, {"threads": 256}, "Fake H200", "580.00", 60, 1)


class StopError(Exception):
    """An interruption."""


def close(parameters):
    return 100.0 + abs(parameters["items"] - 4) / 10.0 + abs(parameters["threads"] - 512) / 20.0


def advised(parameters):
    return TuneAdvice("issue", (TuneMove("items", (4,), "issue 10 %"),))


def search(folder, bench, kept=None, budget=12):
    tuner = Tuner(toy_space(threads=1024, items=1), KeptBench(folder, kept or Journal(SETTING), bench), budget)
    return tuner, tuner.run()


def interrupted_at(count):
    """A function that times, and is interrupted at a trial."""
    calls = []

    def stops(parameters):
        calls.append(1)
        if len(calls) > count:
            raise StopError
        return close(parameters)

    return stops


@pytest.mark.parametrize("after", [1, 4, 9])
def test_it_goes_on_where_it_was_and_finds_the_same(tmp_path, after):
    whole = PlayedBench(close, advised)
    tuner, elites = search(tmp_path, whole)
    folder = tmp_path / "cut"
    folder.mkdir()
    with pytest.raises(StopError):
        search(folder, PlayedBench(interrupted_at(after), advised))
    rest, again = resumed(folder)
    assert again.elites == elites and again.launches == tuner.launches
    assert len(rest.measured) == len(whole.measured) - after


def resumed(folder, **more):
    """A search that goes on in ``folder``, and what it measures."""
    rest = PlayedBench(close, advised)
    tuner, _ = search(folder, rest, Journal.load(folder), **more)
    return rest, tuner


def test_a_search_that_was_whole_measures_nothing_again_and_a_larger_budget_searches_further(tmp_path):
    first, _ = search(tmp_path, PlayedBench(close, advised), budget=8)
    rest, _ = resumed(tmp_path, budget=8)
    assert rest.measured == rest.turns == rest.profiled == []
    rest, second = resumed(tmp_path, budget=16)
    assert 0 < len(rest.measured) < len(second.trials)
    assert set(first.trials) <= set(second.trials)


def test_what_other_code_measured_is_measured_again(tmp_path, monkeypatch):
    search(tmp_path, PlayedBench(close, advised))
    monkeypatch.setattr(module, "code_digest", lambda case: f"changed {case.label}")
    rest, tuner = resumed(tmp_path)
    assert len(rest.measured) == len(tuner.trials)


def test_a_profile_is_asked_for_again_where_there_was_none(tmp_path):
    search(tmp_path, PlayedBench(close))
    rest, _ = resumed(tmp_path)
    assert rest.profiled


@pytest.mark.parametrize(
    "change", [{"kernel": "other"}, {"device": "H100"}, {"seed": 2}, {"iterations": 61}, {"shape": {"rows": 1}}]
)
def test_another_setting_is_refused_with_what_differs(tmp_path, change):
    with pytest.raises(UsageError, match=next(iter(change))):
        Journal(SETTING).require(replace(SETTING, **change), tmp_path)
    Journal(SETTING).require(SETTING, tmp_path)


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", json.dumps({"setting": {}, "trials": [], "advice": [], "turns": []}), None]
)
def test_a_damaged_or_missing_file_is_named(tmp_path, text):
    if text is not None:
        (tmp_path / FILE).write_text(text)
    with pytest.raises(ReportError, match=r"tune\.json"):
        Journal.load(tmp_path)
    with pytest.raises(MeasurementError, match="cannot be written"):
        Journal(SETTING).save(tmp_path / "none")


# Measuring.

built = pytest.mark.usefixtures("compiler")
SMALL = {"n": 4096}


def case(**parameters):
    return make_case(toy(), parameters, SMALL)


@built
def test_a_trial_is_verified_and_timed_and_leaves_its_arrays():
    gpu = FakeGpu()
    trial = Trials(gpu, 1).measure(case(items=2), 30)
    assert (trial.outcome, trial.p50_us, trial.launches) == (OK, 1000.0, 1)
    assert trial.verification["passed"] and trial.verification["checked"] > 0
    assert len(trial.build["code_sha256"]) == 64 and trial.build["spill_B"] == 0
    assert gpu.log.count("launch") == 1 + 10 + 30 and len(gpu.memory) == 2


def one_off(views, gpu):
    views["y"][0] += 1.0


def unwritten(views, gpu):
    views["y"].fill(np.nan)


@built
@pytest.mark.parametrize("spoil", [one_off, unwritten], ids=lambda spoil: spoil.__name__)
def test_a_wrong_result_is_never_timed(spoil):
    gpu = FakeGpu(spoil)
    trial = Trials(gpu, 1).measure(case(), 30)
    assert trial.outcome == WRONG and "bad of" in trial.why and trial.p50_us is None
    assert gpu.log.count("launch") == 1 and trial.launches == 1


@built
def test_a_fault_is_a_failed_trial():
    class Faulty(FakeGpu):
        def sync(self):
            raise MeasurementError("the kernel failed on the GPU: illegal address", "compute-sanitizer")

        def download(self, pointer, array):
            self.sync()

    trial = Trials(Faulty(), 1).measure(case(), 30)
    assert trial.outcome == FAILED and "illegal address" in trial.why and trial.launches == 1


@built
def test_what_the_gpu_refuses_is_no_launch():
    gpu = FakeGpu()
    gpu.arch = "sm_75"
    trial = Trials(gpu, 1).measure(case(), 30)
    assert trial.outcome == REFUSED and trial.launches == 0 and "launch" not in gpu.log


@built
def test_all_trials_see_the_same_inputs_and_one_reference(monkeypatch):
    computed = []
    original = trials_module.expected_rows
    monkeypatch.setattr(trials_module, "expected_rows", lambda *given: computed.append(1) or original(*given))
    trials = Trials(FakeGpu(), 1)
    assert all(trials.measure(case(items=items), 20).outcome == OK for items in (1, 2, 4))
    assert computed == [1]


@built
def test_inputs_are_uploaded_once_and_after_a_wrong_result_and_outputs_poisoned_every_time():
    class Lazy(FakeGpu):
        def launch(self, kernel, case, maps, pointers):
            if case.parameters["items"] == 1:
                super().launch(kernel, case, maps, pointers)  # items=2 writes nothing

    gpu = Lazy()
    trials = Trials(gpu, 1)
    assert [trials.measure(case(items=items), 20).outcome for items in (1, 2, 1)] == [OK, WRONG, OK]
    assert gpu.log.count("upload") == 2


@built
def test_in_turns_each_is_timed_as_often():
    gpu = FakeGpu()
    times = Trials(gpu, 1).in_turns([case(items=1), case(items=2)], 20)
    assert times == [1000.0, 1000.0] and gpu.log.count("launch") == 2 * (10 + 20) and len(gpu.memory) == 2
