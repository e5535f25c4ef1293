"""The short form of the fuzz: damaged reports through the bare reader, ``ncubble report`` and a
running dashboard."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.dashboard import fuzz as fuzz_dashboard
from benchmarks.harness import limited
from benchmarks.reports import bare_reader, mutations, outcomes, structure
from benchmarks.reports import fuzz as fuzz_reports
from ncubble.recordings import REPEATS, ROOT

SEED = 3
SOURCES = (ROOT / "triton_gemm" / "stages5", REPEATS / "tensor_core_gemm" / "stages1")


@pytest.fixture(scope="module")
def fuzz() -> Any:
    """The modules of the benchmark."""
    return SimpleNamespace(
        bare=bare_reader,
        dashboard=fuzz_dashboard,
        limited=limited,
        mutations=mutations,
        reports=fuzz_reports,
        tables=outcomes,
    )


@pytest.fixture(scope="module")
def originals(fuzz: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return fuzz.reports.load_sources(SOURCES, tmp_path_factory.mktemp("originals"))


def test_damaged_reports_crash_and_hang_nothing_and_are_mostly_caught(fuzz: Any, originals: Any) -> None:
    outcomes = [outcome for _, outcome in fuzz.reports.fuzz(originals, 60, SEED, batch=60)]
    assert [one for one in outcomes if one.ours in ("crashed", "hung")] == []
    cut_off = [one for one in outcomes if one.kind in ("truncate", "splice", "magic")]
    assert {one.kind for one in cut_off} == {"truncate", "splice", "magic"}
    assert [one for one in cut_off if one.ours != "detected"] == []
    row = fuzz.tables.row(outcomes)
    assert row["wrong"] >= 20, "the mutants no longer harm the bare reader: the test shows nothing"
    assert row["caught"] >= 0.8 * row["matters"]


def test_damaged_fields_crash_and_hang_nothing_and_change_no_cause_silently(fuzz: Any, originals: Any) -> None:
    outcomes = [outcome for _, outcome in fuzz.reports.fuzz(originals, 40, SEED, batch=40, damage=structure.mutants)]
    assert [one for one in outcomes if one.ours in ("crashed", "hung")] == []
    assert [one for one in outcomes if one.causes] == []
    assert sum(one.ours in ("detected", "labelled") for one in outcomes) >= 5


def test_a_report_is_written_as_it_was_parsed(originals: Any) -> None:
    for source in originals:
        assert structure.written(structure.parse(source.data), {}) == source.data


def test_a_dashboard_among_damaged_reports_shows_the_intact_ones_and_names_the_others(
    fuzz: Any, originals: Any, tmp_path: Path
) -> None:
    done = fuzz.dashboard.tour(originals, range(1000, 1030), SEED, tmp_path)
    assert done.problems == []
    assert done.shown + done.failed == done.mutants >= 29
    assert done.failed > 0 and done.pages > len(originals)


def test_equal_seeds_give_equal_mutants_and_every_kind_differs_from_its_source(fuzz: Any) -> None:
    sources = [fuzz.reports.plain_bytes(path / "report.ncu-repz") for path in SOURCES]
    made = fuzz.mutations.mutants(range(200), SEED, sources)
    assert made == fuzz.mutations.mutants(range(200), SEED, sources)
    assert {one.kind for one in made} == set(fuzz.mutations.KINDS)
    assert all(one.data not in sources for one in made)


def test_a_command_that_fails_by_itself_counts_as_crashed(
    fuzz: Any, originals: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = subprocess.CompletedProcess([], 3, "", "Traceback (most recent call last):\nKeyError: 'gone'\n")
    monkeypatch.setattr(fuzz.limited, "run", lambda *_: broken)
    made = fuzz.mutations.mutants(range(1), SEED, [one.data for one in originals])
    (outcome,) = fuzz.reports.judge(made, originals, tmp_path)
    assert outcome.ours == "crashed" and "KeyError: 'gone'" in outcome.why
    assert not fuzz.tables.passed([outcome])


def test_the_bare_reader_is_ended_where_it_hangs_and_says_nothing_of_an_empty_file(fuzz: Any, tmp_path: Path) -> None:
    pipe, empty = tmp_path / "pipe.ncu-rep", tmp_path / "empty.ncu-rep"
    os.mkfifo(pipe)
    empty.touch()
    stuck, nothing = fuzz.bare.read_all([pipe, empty], 1)
    assert fuzz.bare.compare(stuck, {}) == ("hangs", [])
    assert fuzz.bare.compare(nothing, {}) == ("no launches", [])


def test_a_changed_value_counts_as_silent_unless_its_launch_is_labelled(originals: Any, fuzz: Any) -> None:
    intact = originals[0].shown
    other = replace(intact[0], sections={**intact[0].sections, "Timeline": "[1.0]"})
    assert fuzz.reports.compared(intact, intact) == ("same", "", [], [])
    assert fuzz.reports.compared({0: other}, intact) == ("silent", "", ["Timeline"], ["Timeline"])
    assert fuzz.reports.compared({0: replace(other, labelled=True)}, intact)[0] == "labelled"
    assert fuzz.reports.compared({}, intact)[0] == "silent"


def test_an_intact_report_that_is_shown_differently_is_a_problem(originals: Any, fuzz: Any) -> None:
    done = fuzz.dashboard.Tour(0)
    row = {"path": "a", "id": "b/0", "report": "c", "launch": 0}
    fuzz.dashboard.compare(originals[0], row, [], done)
    titles = [title for title in originals[0].shown[0].sections if title != "json"]
    assert {"table", "Timeline", "Bubble account", "Hottest instructions"} <= set(titles)
    assert done.problems == [f"a, launch 0: {title} differs" for title in titles]
