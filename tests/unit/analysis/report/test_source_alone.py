"""The code of one launch out of a report of many: read alone, it is what the whole report holds of
it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from ncubble.analysis.report import cache as home
from ncubble.analysis.report.report import ALONE, Report
from ncubble.errors import UsageError
from ncubble.recordings import ROOT

NAMES = ("async_copy_tma/default", "tensor_core_gemm/stages1")
LAUNCHES = 6


@pytest.fixture(scope="module")
def compose() -> ModuleType:
    return importlib.import_module("benchmarks.reports.compose")


@pytest.fixture(scope="module")
def path(compose: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("alone")
    made = folder / "six.ncu-rep"
    made.write_bytes(compose.compose([ROOT / name / "report.ncu-repz" for name in NAMES], LAUNCHES))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NCUBBLE_CACHE", str(folder / "cache"))
        home._usable.cache_clear()
        yield made
    home._usable.cache_clear()


def whole(report: Report, launch: int) -> pd.DataFrame:
    return report.source[report.source["launch"] == launch].reset_index(drop=True)


def test_a_launch_that_is_read_alone_is_as_in_the_whole(path: Path) -> None:
    alone, report = Report.open(path), Report.open(path)
    launches = [int(number) for number in report.launches["launch"]]
    assert len(launches) == LAUNCHES
    for launch in launches[:ALONE]:
        found = alone.launch(launch).source
        assert "source" not in vars(alone)
        pd.testing.assert_frame_equal(found, whole(report, launch))
    assert len(alone.launch(launches[0]).source) > 100


def test_who_asks_for_many_reads_all_of_them_once(path: Path) -> None:
    report = Report.open(path)
    assert all(len(launch.source) for launch in report)
    assert "source" in vars(report)
    pd.testing.assert_frame_equal(report.launch(LAUNCHES - 1).source, whole(report, LAUNCHES - 1))


def test_a_launch_that_is_not_there_is_refused(path: Path) -> None:
    with pytest.raises(UsageError, match="no launch 99"):
        Report.open(path).launch(99)


def test_damage_of_the_cache_is_mended_when_one_launch_is_read(path: Path) -> None:
    from ncubble.analysis.report import cache as store

    report = Report.open(path)
    expected = report.launch(1).source
    file = store.file_of(report.frame.sha256, "code")
    file.write_bytes(file.read_bytes()[:-100])
    pd.testing.assert_frame_equal(Report.open(path).source_of(1), expected)
