"""The short form of the fuzz: damaged reports through ``ncubble report`` and onto pages."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.harness import limited
from benchmarks.reports import fuzz, mutations, structure, values
from benchmarks.reports.fuzz import Source
from ncubble.analysis.report.report import Report
from ncubble.recordings import REPEATS, ROOT

SEED = 3
SOURCES = (ROOT / "triton_gemm" / "stages5", REPEATS / "tensor_core_gemm" / "stages1")


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> list[Source]:
    return fuzz.load_sources(SOURCES, tmp_path_factory.mktemp("originals"))


def test_damaged_reports_crash_and_hang_nothing_and_are_mostly_caught(originals: list[Source]) -> None:
    outcomes = [outcome for _, outcome in fuzz.fuzz(originals, 60, SEED, batch=60)]
    assert [one for one in outcomes if one.bad] == []
    cut_off = [one for one in outcomes if one.kind.startswith(("truncate", "splice", "magic"))]
    assert len(cut_off) >= 10
    assert [one for one in cut_off if one.answer != "detected"] == []
    caught = sum(one.answer in ("detected", "labelled") for one in outcomes)
    assert caught >= 30 and sum(one.answer == "silent" for one in outcomes) <= 2


def test_damaged_fields_crash_and_hang_nothing_and_change_no_cause_silently(originals: list[Source]) -> None:
    outcomes = [outcome for _, outcome in fuzz.fuzz(originals, 40, SEED, batch=40, damage=structure.mutants)]
    assert [one for one in outcomes if one.bad] == []
    assert sum(one.answer in ("detected", "labelled") for one in outcomes) >= 5
    assert f"{sum(one.answer == 'silent' for one in outcomes)} of {len(outcomes)} silent" in fuzz.table(outcomes)


def test_a_report_is_written_as_it_was_parsed(originals: list[Source]) -> None:
    for source in originals:
        assert structure.written(structure.parse(source.data), {}) == source.data


def test_equal_seeds_give_equal_mutants_and_every_kind_differs_from_its_source() -> None:
    sources = [fuzz.plain_bytes(path / "report.ncu-repz") for path in SOURCES]
    made = mutations.mutants(range(200), SEED, sources)
    assert made == mutations.mutants(range(200), SEED, sources)
    assert {one.kind for one in made} == set(mutations.KINDS)
    assert all(one.data not in sources for one in made)


def test_a_command_that_fails_by_itself_counts_as_crashed(
    originals: list[Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = subprocess.CompletedProcess([], 3, "", "Traceback (most recent call last):\nKeyError: 'gone'\n")
    monkeypatch.setattr(limited, "run", lambda *_: broken)
    made = mutations.mutants(range(1), SEED, [one.data for one in originals])
    (outcome,) = fuzz.judge(made, originals, tmp_path)
    assert outcome.answer == "crashed" and "KeyError: 'gone'" in outcome.why and outcome.bad


def test_a_changed_value_counts_as_silent_unless_its_launch_is_labelled(originals: list[Source]) -> None:
    intact = originals[0].shown
    other = replace(intact[0], sections={**intact[0].sections, "Timeline": "[1.0]"})
    assert fuzz.compared(intact, intact) == ("same", "", (), ())
    assert fuzz.compared({0: other}, intact) == ("silent", "", ("Timeline",), ("Timeline",))
    assert fuzz.compared({0: replace(other, labelled=True)}, intact)[0] == "labelled"
    assert fuzz.compared({}, intact)[0] == "silent"


@pytest.fixture(scope="module")
def forgeable() -> values.Source:
    """A report with the counters of which its verdict is known to depend."""
    report = Report.open(SOURCES[0])
    tables = {name: report._table(name) for name in values.NAMES}
    counters = ["sm__pipe_tensor_cycles_active", "sm__cycles_active", "sm__cycles_elapsed", "gpu__time_duration"]
    return values.Source.known(report, tables, counters)


def test_equal_seeds_forge_equal_values_and_every_kind_is_drawn(forgeable: values.Source) -> None:
    drawn = [values.draw(number, SEED, [forgeable])[1] for number in range(60)]
    again = [values.draw(number, SEED, [forgeable])[1] for number in range(60)]
    assert [(one.kind, one.where) for one in drawn] == [(one.kind, one.where) for one in again]
    assert {one.kind for one in drawn} == {*values.KINDS} - {"splice"}  # which takes another report


def test_forged_values_are_labelled_or_contradict_nothing(forgeable: values.Source) -> None:
    silent = []
    for number in range(12):
        source, one = values.draw(number, SEED, [forgeable])
        shown = values.verdict_of(source.report, one.tables)
        if shown and shown["integrity"] == "ok" and values.changes(shown, source.shown):
            silent.append(f"{one.kind}, {one.where}")
    assert [where for where in silent if not values.reason(where)] == []
    assert len(silent) < 6 and "0 of 12 contradict another value" in values.table(silent, 12)


def test_a_change_below_one_percent_is_none(forgeable: values.Source) -> None:
    shown = forgeable.shown
    assert values.changes({**shown, "duration_ns": shown["duration_ns"] * 1.005}, shown) == []
    assert values.changes({**shown, "duration_ns": shown["duration_ns"] * 1.02}, shown) == ["duration_ns"]
    assert values.changes({**shown, "cause": "tail"}, shown) == ["cause"]
