"""A search that was interrupted goes on without repeating what it measured."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ncubble.errors import MeasurementError, ReportError, UsageError
from ncubble.kernels.run import tune as module
from ncubble.kernels.run.tune import FILE, Journal, KeptBench, Setting, TuneAdvice, TuneMove, Tuner
from tests.helpers.tune_bench import PlayedBench, toy_space

SETTING = Setting("toy", {"n": 65536}, {}, {"threads": 256}, "Fake H200", "580.00", 60, 1)


class StopError(Exception):
    """An interruption."""


def timed(parameters):
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
        return timed(parameters)

    return stops


@pytest.mark.parametrize("after", [1, 4, 9])
def test_it_goes_on_where_it_was_and_finds_the_same(tmp_path, after):
    whole = PlayedBench(timed, advised)
    tuner, elites = search(tmp_path, whole)
    folder = tmp_path / "cut"
    folder.mkdir()
    with pytest.raises(StopError):
        search(folder, PlayedBench(interrupted_at(after), advised))
    rest = PlayedBench(timed, advised)
    again, found = search(folder, rest, Journal.load(folder))
    assert [(elite.point, elite.p50_us, elite.cause) for elite in found] == [
        (elite.point, elite.p50_us, elite.cause) for elite in elites
    ]
    assert len(rest.measured) == len(whole.measured) - after
    assert again.launches == tuner.launches


def test_a_search_that_was_whole_measures_nothing_again(tmp_path):
    search(tmp_path, PlayedBench(timed, advised))
    rest = PlayedBench(timed, advised)
    search(tmp_path, rest, Journal.load(tmp_path))
    assert rest.measured == rest.turns == rest.profiled == []


def test_a_larger_budget_searches_further(tmp_path):
    first, _ = search(tmp_path, PlayedBench(timed, advised), budget=8)
    rest = PlayedBench(timed, advised)
    second, _ = search(tmp_path, rest, Journal.load(tmp_path), budget=16)
    assert 0 < len(rest.measured) < len(second.trials)
    assert set(first.trials) <= set(second.trials)


def test_what_other_code_measured_is_measured_again(tmp_path, monkeypatch):
    search(tmp_path, PlayedBench(timed, advised))
    monkeypatch.setattr(module, "code_digest", lambda case: f"changed {case.label}")
    rest = PlayedBench(timed, advised)
    tuner, _ = search(tmp_path, rest, Journal.load(tmp_path))
    assert len(rest.measured) == len(tuner.trials)


def test_no_profile_is_asked_for_again_once_there_is_one(tmp_path):
    search(tmp_path, PlayedBench(timed))
    rest = PlayedBench(timed, advised)
    search(tmp_path, rest, Journal.load(tmp_path))
    assert rest.profiled  # there was none


@pytest.mark.parametrize(
    "change", [{"kernel": "other"}, {"device": "H100"}, {"seed": 2}, {"iterations": 61}, {"shape": {"rows": 1}}]
)
def test_another_setting_is_refused_with_what_differs(tmp_path, change):
    with pytest.raises(UsageError, match=next(iter(change))):
        Journal(SETTING).require(replace(SETTING, **change), tmp_path)
    Journal(SETTING).require(SETTING, tmp_path)


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", json.dumps({"setting": {}, "trials": [], "advice": [], "turns": []})]
)
def test_a_damaged_file_is_named(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ReportError, match=r"tune\.json"):
        Journal.load(tmp_path)


def test_a_folder_without_a_search_is_named(tmp_path):
    with pytest.raises(ReportError, match="cannot be read"):
        Journal.load(tmp_path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(MeasurementError, match="cannot be written"):
        Journal(SETTING).save(tmp_path / "none")
