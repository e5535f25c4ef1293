"""Reports of every version: the document agrees with the catalog and, where they are at hand, with
the reports."""

import csv
import importlib
from collections import Counter
from dataclasses import replace

import pytest

from ncubble.analysis.diagnosis.diagnose import launch_verdict
from ncubble.recordings import ROOT
from tests.helpers.markdown import formatted

COLUMNS = ["repository", "commit", "path", "gpu", "cc", "ncu", "launches", "sha256"]


@pytest.fixture(scope="module")
def versions():
    return importlib.import_module("benchmarks.reports.versions")


@pytest.fixture(scope="module")
def opened(versions, foreign_reports):
    reports, failures = versions.open_reports(foreign_reports)
    assert not failures
    return reports


def test_the_document_holds_the_gaps_of_the_catalog(versions):
    text = versions.DOCUMENT.read_text(encoding="utf-8")
    assert formatted(versions.fill(text, {"gaps": versions.gaps()})) == text, (
        "run: benchmarks/reports/versions.py FOLDER --write"
    )


def test_the_list_of_public_reports_identifies_each(versions):
    with versions.LISTED.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 118 and list(rows[0]) == COLUMNS
    assert all(all(row.values()) for row in rows)
    assert Counter(len(row["sha256"]) for row in rows) == {12: 118}
    assert len({row["sha256"] for row in rows}) == len(
        {(row["repository"], row["commit"], row["path"]) for row in rows}
    )
    assert versions.LISTED.stat().st_size < 20_000


def test_a_recorded_run_lacks_nothing_and_is_a_stranger_to_the_list(versions):
    reports, _ = versions.open_reports([ROOT / "triton_gemm" / "stages3"])
    (launch,) = versions.launches_of(reports[0])
    assert (launch.unit, launch.phases, launch.split) == ("tensor", True, True)
    assert launch.lacks == () and launch.generation == ((2025, 3, 1), (9, 0), "H200")
    assert versions.contradictions(reports, [launch]) == ([], 1)
    row = versions.versions([launch]).splitlines()[-1]
    assert row == "| 2025.3.1 | H200 (9.0) | 1 | 1 | 1 | 1 | 1 | tensor 1 | – |"
    unnamed = replace(launch, ncu="")  # as of ncu 2019
    assert versions.versions([launch, unnamed]).splitlines()[-2].startswith("|  | H200")


def test_every_foreign_launch_has_an_account_or_names_the_counters_that_it_takes(opened):
    seen = 0
    for report in opened:
        for launch in report:
            verdict, seen = launch_verdict(launch).to_json(), seen + 1
            if verdict["account"] is None:
                (warning,) = [text for text in verdict["warnings"] if not text.startswith("suspicious")]
                assert "Collect " in warning and "__" in warning and "`ncu --section " in warning
            else:
                assert sum(verdict["account"].values()) == pytest.approx(100.0)
    assert seen >= len(opened)


def test_foreign_reports_give_the_table_of_the_document(versions, opened):
    found = [launch for report in opened for launch in versions.launches_of(report)]
    wrong, strangers = versions.contradictions(opened, found)
    assert not wrong
    if strangers or len(opened) != 118:
        pytest.skip("the folder holds other reports than those of the document")
    text = versions.DOCUMENT.read_text(encoding="utf-8")
    blocks = {"summary": versions.summary(found, strangers), "versions": versions.versions(found)}
    assert formatted(versions.fill(text, blocks)) == text, "run: benchmarks/reports/versions.py FOLDER --write"
