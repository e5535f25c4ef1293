"""The search: what it tries, what counts, and how near it comes on grids that a GPU timed."""

from __future__ import annotations

import statistics

import pytest

from ncubble.kernels.run.trials import FAILED, REFUSED, WRONG, Trial
from ncubble.kernels.run.tune import ELITES, TuneAdvice, TuneMove, Tuner, usual_budget
from tests.helpers.tune_bench import PlayedBench, RecordedGrid, recorded_kernels, toy_space


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
    assert len(elites) == ELITES


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


def test_without_profiles_timings_alone_decide():
    bench = PlayedBench(bowl)
    _, elites = tuned(bench, 12, threads=1024, items=1)
    assert elites[0].p50_us <= 115.0 and elites[0].cause == ""


def test_the_usual_budget_is_a_third_but_for_tiny_grids():
    assert [usual_budget(count) for count in (2, 5, 10, 24, 260)] == [2, 5, 6, 8, 86]
