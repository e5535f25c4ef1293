"""The store over time: what it remembers, what it notices, what it holds."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from ncubble.analysis.report.report import open_reports
from ncubble.dashboard.app import app as routes
from ncubble.dashboard.data import held, index
from ncubble.dashboard.data import store as data
from ncubble.dashboard.data.store import ReportStore
from ncubble.errors import NcubbleError
from ncubble.recordings import H100, ROOT
from tests.helpers import dashboard_frames as frames

GEMM, SOFTMAX = ROOT / "tensor_core_gemm" / "stages2", H100 / "softmax_online" / "default"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one recorded run, and an index of its own."""
    monkeypatch.setattr(index, "cache_root", lambda: tmp_path / "cache")
    monkeypatch.setattr(data, "RESCAN_S", 0.05)
    shutil.copytree(GEMM, tmp_path / "runs" / "gemm")
    return tmp_path / "runs"


def loaded(runs: Path, **options: Any) -> ReportStore:
    store = ReportStore([runs], **options).start()
    assert store.wait(120)
    return store


def eventually(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not found():
        assert time.monotonic() < deadline, "it did not happen within 60 s"
        time.sleep(0.02)


def test_the_second_visit_opens_no_report(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = loaded(runs)
    monkeypatch.setattr("ncubble.dashboard.data.store.open_reports", lambda paths: pytest.fail(f"opened {paths}"))
    assert loaded(runs).rows() == first.rows() != []


def test_what_has_changed_since_the_last_visit_is_read_again(runs: Path) -> None:
    old = loaded(runs).rows()
    shutil.rmtree(runs / "gemm")
    shutil.copytree(SOFTMAX, runs / "gemm")
    new = loaded(runs).rows()
    assert [row["kernel"] for row in new] != [row["kernel"] for row in old]


@pytest.mark.parametrize("name", ["gemm", "gemm/report.ncu-repz"])
def test_an_ablation_that_is_written_is_a_change(runs: Path, name: str) -> None:
    before = index.signature_of(runs / name)
    (runs / "gemm" / "ablation.json").write_text("{}")
    assert before and index.signature_of(runs / name) != before


def test_an_index_made_under_other_rules_or_cut_short_is_not_believed(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(runs)
    (written,) = (runs.parent / "cache" / "index").iterdir()
    assert index.recall(index.index_file([runs]))
    whole = written.read_bytes()
    written.write_bytes(whole[:-20])
    assert index.recall(index.index_file([runs])) == {}
    written.write_bytes(whole)
    monkeypatch.setattr(index, "_rules", lambda: "others")
    assert index.recall(index.index_file([runs])) == {}


def test_what_could_not_be_read_is_tried_again_at_the_next_visit(runs: Path) -> None:
    (runs / "damaged.ncu-rep").write_bytes(b"NVR\0")
    assert len(loaded(runs).failures()) == 1
    assert set(index.recall(index.index_file([runs]))) == {runs / "gemm"}
    assert len(loaded(runs).failures()) == 1


def test_runs_that_appear_and_vanish_are_noticed(runs: Path) -> None:
    store = loaded(runs, watch=True)
    assert len(store.rows()) == 1
    shutil.copytree(SOFTMAX, runs.parent / "made")
    (runs.parent / "made").rename(runs / "softmax")
    eventually(lambda: len(store.rows()) == 2)
    shutil.rmtree(runs / "gemm")
    eventually(lambda: len(store.rows()) == 1)
    assert store.rows()[0]["path"] == str(runs / "softmax")


class SlowOpener:
    """Reads a report when it is let; ``begun`` is set when it starts."""

    def __init__(self) -> None:
        self.begun, self.gate = threading.Event(), threading.Event()

    def __call__(self, paths: Any) -> tuple[list[Any], list[Any]]:
        slow = [path for path in paths if path.name == "slow"]
        if slow:
            self.begun.set()
            assert self.gate.wait(60)
        return open_reports(paths)


def test_a_deleted_and_a_replaced_report_are_noticed_while_another_is_read(runs: Path) -> None:
    opener = SlowOpener()
    shutil.copytree(SOFTMAX, runs / "softmax")
    store = ReportStore([runs], opener, watch=True).start()
    assert store.wait(120) and len(store.rows()) == 2
    shutil.copytree(GEMM, runs / "slow")
    assert opener.begun.wait(30)
    shutil.rmtree(runs / "softmax")
    (runs / "gemm" / "report.ncu-repz").write_bytes(b"something else")
    began = time.monotonic()
    eventually(lambda: store.progress().launches == 0)
    assert time.monotonic() - began < 5
    shutil.rmtree(runs / "slow")
    eventually(lambda: store.state_of(runs / "slow") is None)
    opener.gate.set()
    eventually(lambda: store.progress().finished)
    assert store.rows() == [], "what vanished while it was read is not shown"
    assert [Path(failure.where) for failure in store.failures()] == [runs / "gemm"]


def test_a_report_that_changes_while_it_is_read_is_read_again(runs: Path) -> None:
    opener = SlowOpener()
    shutil.copytree(GEMM, runs / "slow")
    shutil.rmtree(runs / "gemm")
    store = ReportStore([runs], opener, watch=True).start()
    assert opener.begun.wait(30)
    shutil.copy(SOFTMAX / "run.json", runs / "slow" / "run.json")
    shutil.copy(SOFTMAX / "report.ncu-repz", runs / "slow" / "report.ncu-repz")
    state = lambda: getattr(store.state_of(runs / "slow"), "state", "")  # noqa: E731
    eventually(lambda: state() == "queued")
    opener.gate.set()
    assert store.wait(60)
    assert state() == "shown" and "softmax" in store.rows()[0]["kernel"]


def test_the_pause_between_looks_follows_the_cost_of_looking(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda pause: (pauses.append(pause), time.sleep(0.1)))
    monkeypatch.setattr(data, "RESCAN_S", 2.0)
    monkeypatch.setattr(data, "time", clock)
    opener = SlowOpener()
    shutil.copytree(GEMM, runs / "slow")
    store = ReportStore([runs], opener, watch=True).start()
    assert opener.begun.wait(30)
    time.sleep(1)
    opener.gate.set()
    assert store.wait(60)
    assert len(pauses) >= 2 and max(pauses) < 4.5


def test_without_watching_a_look_is_asked_for(runs: Path) -> None:
    store = loaded(runs)
    shutil.copytree(SOFTMAX, runs / "softmax")
    time.sleep(0.2)
    assert len(store.rows()) == 1
    store.rescan()
    assert store.wait(60)
    assert len(store.rows()) == 2


def test_an_added_file_is_known_by_the_name_it_was_given(runs: Path, tmp_path: Path) -> None:
    store = loaded(runs)
    file = tmp_path / "0001.ncu-repz"
    shutil.copy(SOFTMAX / "report.ncu-repz", file)
    store.add(file, "softmax of today.ncu-repz")
    assert store.wait(60)
    reading = store.state_of(file)
    assert reading is not None and reading.state == "shown" and len(reading.ids) == 1
    (row,) = [row for row in store.rows() if row["id"] == reading.ids[0]]
    assert row["path"] == "softmax of today.ncu-repz"
    assert file not in index.recall(index.index_file([runs]))


def test_an_added_file_that_is_no_report_says_why(runs: Path, tmp_path: Path) -> None:
    store, file = loaded(runs), tmp_path / "0002.ncu-rep"
    file.write_bytes(b"hello")
    store.add(file, "letter.ncu-rep")
    assert store.wait(60)
    reading = store.state_of(file)
    assert reading is not None and reading.state == "failed"
    assert reading.failures[0].error and reading.failures[0].remedy
    assert store.failures()[-1].where == "letter.ncu-rep"


def test_a_copy_takes_the_place_of_what_it_was_a_copy_of(runs: Path) -> None:
    shutil.copytree(runs / "gemm", runs / "second")
    store = loaded(runs)
    assert (len(store.rows()), len(store.duplicates())) == (1, 1)
    shutil.rmtree(runs / "gemm")
    store.rescan()
    assert store.wait(60)
    assert (len(store.rows()), len(store.duplicates())) == (1, 0)
    assert store.rows()[0]["path"] == str(runs / "second")


def test_a_run_that_was_touched_is_read_again(runs: Path) -> None:
    store = loaded(runs)
    before = store.progress().version
    os.utime(runs / "gemm" / "run.json")
    store.rescan()
    assert store.wait(60)
    assert store.progress().version > before
    assert len(store.rows()) == 1


def test_a_report_that_is_gone_by_the_time_it_is_looked_at_says_so(runs: Path) -> None:
    loaded(runs)
    store = loaded(runs)
    entry = store.find(*_address(store))
    shutil.rmtree(runs / "gemm")
    assert entry is not None
    with pytest.raises(NcubbleError):
        _ = entry.report


def _address(store: ReportStore) -> tuple[str, int]:
    key, launch = store.rows()[0]["id"].split("/")
    return key, int(launch)


def test_few_reports_are_held_and_the_last_ones_stay(tmp_path: Path) -> None:
    kept = held.Held()
    for number in range(held.MOST + 4):
        kept.put(tmp_path / str(number), SimpleNamespace(held_B=1))
    assert kept.get(tmp_path / "3") is None
    assert kept.get(tmp_path / "4") is not None
    kept.put(tmp_path / "heavy", SimpleNamespace(held_B=held.MOST_B + 1))
    assert kept.get(tmp_path / "4") is None
    assert kept.get(tmp_path / "heavy") is not None


def test_a_batch_that_cannot_be_opened_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "BATCH", 1)
    made = frames.gemm()

    def opener(paths: Any) -> Any:
        if paths[0].name == "a.ncu-rep":
            raise OSError("the disk is gone")
        return [made], []

    store = ReportStore([tmp_path / "a.ncu-rep", tmp_path / "b.ncu-rep"], opener, frames.judge).start()
    assert store.wait(30)
    assert len(store.rows()) == 2
    assert "the disk is gone" in store.failures()[0].error


def test_the_page_of_a_report_that_is_gone_says_so(runs: Path) -> None:
    loaded(runs)
    store = loaded(runs)
    address = f"/kernel/{store.rows()[0]['id']}"
    shutil.rmtree(runs / "gemm")
    content, title = routes.content(store, address)
    assert title.startswith("Not readable")
    assert "no such file" in str(content)


def test_an_added_file_does_not_wait_for_the_rest_of_a_folder(tmp_path: Path) -> None:
    asked: list[str] = []
    begun, go_on = threading.Event(), threading.Event()

    def opener(paths: Any) -> Any:
        asked.extend(path.name for path in paths)
        begun.set()
        assert go_on.wait(30)
        return [], []

    paths = [tmp_path / f"{number:02d}.ncu-rep" for number in range(9)]
    for path in [*paths, tmp_path / "added"]:
        path.touch()
    store = ReportStore(paths, opener).start()
    assert begun.wait(30)
    store.add(tmp_path / "added", shown_as="mine")
    go_on.set()
    assert store.wait(30)
    assert asked.index("added") == 4 and asked.count("added") == 1


def test_names_that_are_no_utf8_are_listed_and_hide_no_other(runs: Path) -> None:
    odd = os.fsdecode(os.fsencode(runs) + b"/caf\xe9")
    shutil.copytree(SOFTMAX, odd)
    manifest = runs / "gemm" / "run.json"
    manifest.write_text(manifest.read_text().replace('"copy": "async"', '"copy": "\\ud800"'))
    (runs / os.fsdecode(b"damag\xe9d.ncu-rep")).write_bytes(b"no report")
    store = loaded(runs)
    assert len(store.rows()) == 2 and len(store.failures()) == 1
    orjson.dumps([list(map(dict, store.rows())), [str(one) for one in store.failures()]])
    assert set(index.recall(index.index_file([runs]))) == {runs / "gemm"}


def test_a_report_that_took_the_place_of_another_is_not_shown_as_it(runs: Path) -> None:
    store = loaded(runs)
    entry = store.find(*_address(store))
    assert entry is not None and entry.report.key.startswith(entry.key)
    shutil.rmtree(runs / "gemm")
    shutil.copytree(SOFTMAX, runs / "gemm")
    store._held.drop(runs / "gemm")
    with pytest.raises(NcubbleError, match="another report lies here"):
        _ = entry.verdict
    assert store.wait(60)
    assert [row["kernel"] for row in store.rows()] != [entry.row["kernel"]]


def test_a_file_that_is_added_twice_is_listed_once(runs: Path, tmp_path: Path) -> None:
    store, file = loaded(runs), tmp_path / "0003.ncu-repz"
    shutil.copy(SOFTMAX / "report.ncu-repz", file)
    for _ in range(2):
        store.add(file, "softmax.ncu-repz")
        assert store.wait(60)
    reading = store.state_of(file)
    assert reading is not None and (reading.state, len(reading.ids)) == ("shown", 1)
    store.drop(file)
    assert store.wait(60)
    assert len(store.rows()) == 1 and store.duplicates() == []
