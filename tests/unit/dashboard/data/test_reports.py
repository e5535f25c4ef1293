"""The dashboard on real reports: what was recorded for this repository, and what others
published."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from plotly.utils import PlotlyJSONEncoder

from ncubble.analysis.diagnosis.diagnose import launch_verdict
from ncubble.dashboard.app.app import content as page
from ncubble.dashboard.data.store import ReportStore
from ncubble.profiling.runs import find_runs
from ncubble.recordings import H100, ROOT
from tests.helpers.dashboard_frames import late_parts


@pytest.fixture(scope="module")
def recorded() -> ReportStore:
    if not any(find_runs([ROOT])):
        pytest.skip("no recorded run yet")
    return _loaded([ROOT])


def _loaded(paths: list[Path]) -> ReportStore:
    store = ReportStore(paths).start()
    assert store.wait(240)
    return store


def test_rows_are_remembered_in_the_cache_of_the_time_when_loading_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "first"))
    store = ReportStore([H100 / "softmax_online"]).start()
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "second"))
    assert store.wait(240)
    assert len(list((tmp_path / "first" / "index").iterdir())) == 1
    assert not (tmp_path / "second" / "index").exists()


def _pages(store: ReportStore, step: int) -> Iterator[tuple[str, str]]:
    for row in store.rows()[::step]:
        path = f"/kernel/{row['id']}"
        whole = [page(store, path)[0], late_parts(store, path)]
        yield row["id"], json.dumps(whole, cls=PlotlyJSONEncoder, ensure_ascii=False)


def test_recordings_are_shown_without_a_failing_section(recorded: ReportStore) -> None:
    assert recorded.failures() == []
    for address, sent in _pages(recorded, 3):
        assert "could not be shown" not in sent, address
        assert "Bubble account" in sent, address


def test_a_row_repeats_the_verdict_of_its_launch(recorded: ReportStore) -> None:
    for row in recorded.rows():
        key, launch = row["id"].split("/")
        entry = recorded.find(key, int(launch))
        assert entry is not None
        verdict = launch_verdict(entry.launch).to_json()
        assert row["tensor"] == pytest.approx(verdict["tensor_elapsed_pct"], abs=0.005)
        assert row["dram"] == pytest.approx(verdict["dram_pct"], abs=0.005)
        assert row["duration_ns"] == pytest.approx(verdict["duration_ns"], abs=0.05)
        assert sum(share for _, share in row["account"]) == pytest.approx(100.0, abs=0.1)


def test_foreign_reports_of_any_gpu_and_version_are_shown(foreign_reports: list[Path]) -> None:
    store = _loaded(foreign_reports)
    assert store.failures() == []
    assert len(store.rows()) >= len(foreign_reports) - len(store.duplicates())
    broken = [address for address, sent in _pages(store, 5) if "could not be shown" in sent]
    assert broken == []
