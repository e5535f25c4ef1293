"""The store of a sweep: what it holds, what it takes up again, and what two processes may do to it
at once."""

import dataclasses
import json
import os
import subprocess
import sys

import pytest

from ncubble.errors import MeasurementError, ReportError, UsageError
from ncubble.profiling.runs import find_runs
from ncubble.profiling.sweeps.store import Attempt, Record, Reply, Store
from ncubble.recordings import H100
from tests.helpers.sweep_runs import H200, TOOLS, jobs, records_of

FILES = {path.name: path.read_bytes() for path in (H100 / "softmax_online" / "default").iterdir()}
KEY = "00ff" * 4


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


def record(state, run=None, *attempts):
    return Record(KEY, state, run, {"kernel": "saxpy"}, {"device": "H200"}, attempts)


def kept(store, job):
    """The name of the run of a job that was measured."""
    key = job.key(H200, TOOLS)
    return key, store.settle(key, job, Reply(Attempt("ok"), H200, FILES)).run


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path):
    (tmp_path / "store" / "journal").mkdir(parents=True)
    (tmp_path / "store" / "journal" / ".lock").symlink_to(tmp_path / "target")
    with pytest.raises(MeasurementError, match=r"\.lock: is a symbolic link") as raised:
        Store(tmp_path / "store")
    assert raised.value.remedy and not (tmp_path / "target").exists()


def test_a_record_comes_back_as_it_was(store):
    first = Attempt("unable", error="its worker ended")
    written = record("failed", None, first, Attempt("failed", seconds=1.5, error="fault", exit_code=3))
    store.save(written)
    assert store.find(KEY, "x") == written
    assert records_of(store) == [written]
    assert written.error == "fault"


def test_a_record_of_an_older_ncubble_is_read(store):
    """As 0.1 wrote it."""
    attempt = {"state": "ok", "started": "2026-11-20T11:04:08Z", "ended": "", "seconds": 5.5, "host": "h", "gpu": ""}
    old = {"schema": 1, "key": KEY, "state": "failed", "run": None, "about": {}, "machine": {}, "attempts": [attempt]}
    (store.journal / f"{KEY}.json").write_text(json.dumps(old))
    assert store.find(KEY, "x").attempts == (Attempt("ok", "2026-11-20T11:04:08Z", seconds=5.5, host="h"),)


def test_a_run_is_kept_whole_and_shown_as_a_run(store):
    _, run = kept(store, jobs(1)[0])
    assert [path.name for path in find_runs([store.folder])] == [run]
    assert {path.name for path in (store.folder / run).iterdir()} == set(FILES)


def test_a_run_without_a_record_is_taken_up(store):
    """A kill fell between the two."""
    key, run = kept(store, jobs(1)[0])
    (store.journal / f"{key}.json").unlink()
    found = store.find(key, run)
    assert (found.state, found.run) == ("ok", run)
    assert records_of(store) == [found]


def test_a_record_whose_run_was_deleted_counts_for_nothing(store):
    store.save(record("ok", f"saxpy-{KEY}"))
    assert store.find(KEY, f"saxpy-{KEY}") is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1}', '{"schema": 2}', '{"schema": 1, "attempts": 3}'])
def test_a_damaged_record_is_named(store, text):
    (store.journal / f"{KEY}.json").write_text(text)
    with pytest.raises(ReportError, match=f"{KEY}.json"):
        store.find(KEY, "x")


def test_a_record_is_replaced_in_one_step(store, monkeypatch):
    """A kill while it is written leaves the old one."""
    store.save(record("unable"))
    monkeypatch.setattr(os, "fsync", lambda number: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        store.save(record("ok"))
    monkeypatch.undo()
    assert store.find(KEY, "x").state == "unable"
    assert {path.name for path in store.journal.iterdir()} == {".lock", f"{KEY}.json"}


def test_one_sweep_at_a_time_writes_a_store_and_a_killed_one_leaves_it(store):
    with pytest.raises(MeasurementError, match="another sweep writes there, process"):
        Store(store.folder)
    other = "import sys\nfrom pathlib import Path\nfrom ncubble.profiling.sweeps.store import Store\n" + (
        f"store = Store(Path({str(store.folder / 'other')!r}))\nprint(flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", other], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        with pytest.raises(MeasurementError, match=f"process {process.pid}"):
            Store(store.folder / "other")
        process.kill()
        process.wait()
    Store(store.folder / "other")


def test_a_plan_leaves_out_what_the_store_settles(store):
    todo = jobs(10, 20, 30, 40)
    keys = [job.key(H200, TOOLS) for job in todo]
    kept(store, todo[0])
    store.save(dataclasses.replace(record("failed", None, Attempt("failed", error="fault")), key=keys[1]))
    store.save(dataclasses.replace(record("unable", None, Attempt("unable")), key=keys[2]))
    tasks, held = store.plan(todo, H200, TOOLS)
    assert list(tasks) == keys[2:]
    assert {key: found.state for key, found in held.items()} == {keys[0]: "ok", keys[1]: "failed"}
    assert list(store.plan(todo, H200, TOOLS, retry_failed=True)[0]) == keys[1:]
    again = store.settle(keys[2], todo[2], Reply(Attempt("failed"), H200))
    assert [attempt.state for attempt in again.attempts] == ["unable", "failed"]


@pytest.mark.parametrize("make", ["file", "run"])
def test_what_is_no_place_for_a_store_is_refused(tmp_path, make):
    place = tmp_path / "place"
    if make == "file":
        place.write_text("")
    else:
        place.mkdir()
        (place / "run.json").write_text(json.dumps({"schema": 1}))
    with pytest.raises(UsageError, match="place"):
        Store(place)
