"""The short form of the fuzz: damaged reports through the bare reader, ``ncubble report`` and a running dashboard."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ncubble.recordings import REPEATS, ROOT

SEED = 3
SOURCES = (ROOT / "triton_gemm" / "stages5", REPEATS / "tensor_core_gemm" / "stages1")


@pytest.fixture(scope="module")
def fuzz(repository: Path) -> Iterator[Any]:
    """The modules of the benchmark, which are scripts beside each other."""
    folder = str(repository / "benchmarks")
    sys.path.insert(0, folder)
    import fuzz_dashboard
    import fuzz_reports
    import fuzz_tables
    import mutations

    yield SimpleNamespace(dashboard=fuzz_dashboard, reports=fuzz_reports, tables=fuzz_tables, mutations=mutations)
    sys.path.remove(folder)


@pytest.fixture(scope="module")
def originals(fuzz: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return fuzz.reports.load_sources(SOURCES, tmp_path_factory.mktemp("originals"))


@pytest.fixture(scope="module")
def outcomes(fuzz: Any, originals: Any) -> Any:
    return [outcome for _, outcome in fuzz.reports.fuzz(originals, 60, SEED, batch=60)]


def test_no_damaged_report_crashes_or_hangs_the_command_line_or_a_page(outcomes: Any) -> None:
    assert [one for one in outcomes if one.ours in ("crashed", "hung")] == []
    assert len(outcomes) >= 58


def test_every_truncation_splice_and_wrong_magic_is_detected(outcomes: Any) -> None:
    found = [one for one in outcomes if one.kind in ("truncate", "splice", "magic")]
    assert {one.kind for one in found} == {"truncate", "splice", "magic"}
    assert [one for one in found if one.ours != "detected"] == []


def test_what_the_bare_reader_gets_wrong_is_mostly_caught(outcomes: Any, fuzz: Any) -> None:
    row = fuzz.tables.row(outcomes)
    assert row["wrong"] >= 20, "the mutants no longer harm the bare reader: the test shows nothing"
    assert row["caught"] >= 0.8 * row["matters"]


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


def test_a_changed_value_counts_as_silent_unless_its_launch_is_labelled(originals: Any, fuzz: Any) -> None:
    from dataclasses import replace

    intact = originals[0].shown
    other = replace(intact[0], sections={**intact[0].sections, "Timeline": "[1.0]"})
    assert fuzz.reports.compared(intact, intact) == ("same", "", [], [])
    assert fuzz.reports.compared({0: other}, intact) == ("silent", "", ["Timeline"], ["Timeline"])
    assert fuzz.reports.compared({0: replace(other, labelled=True)}, intact)[0] == "labelled"
    assert fuzz.reports.compared({}, intact)[0] == "silent"


def test_an_intact_report_that_is_shown_differently_is_a_problem(originals: Any, fuzz: Any) -> None:
    done = fuzz.dashboard.Tour(0)
    expected = originals[0].shown[0].sections
    row = {"path": "a", "id": "b/0", "report": "c", "launch": 0}
    fuzz.dashboard._compare(originals[0], row, [], done)
    assert expected["table"] and done.problems == ["a, launch 0: table differs"]
