"""The store of a sweep: what it holds, what it takes up again, and what two processes may do to it
at once."""

import json
import os
import subprocess
import sys

import pytest

from ncubble.errors import MeasurementError, ReportError, UsageError
from ncubble.profiling.runs import find_runs
from ncubble.profiling.sweeps import sweep
from ncubble.profiling.sweeps.job import Attempt
from ncubble.profiling.sweeps.store import Record, Store
from ncubble.recordings import ROOT
from tests.helpers.sweep_runs import H200, OPTIONS, TOOLS, jobs

RUN = ROOT / "softmax_online" / "default"
FILES = {path.name: path.read_bytes() for path in RUN.iterdir()}
KEY = "00ff" * 4


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


def test_a_link_in_the_place_of_the_claims_is_not_followed(tmp_path):
    (tmp_path / "store" / "journal").mkdir(parents=True)
    (tmp_path / "store" / "journal" / ".claims").symlink_to(tmp_path / "target")
    with pytest.raises(MeasurementError, match=r"\.claims: is a symbolic link") as raised:
        Store(tmp_path / "store")
    assert raised.value.remedy and not (tmp_path / "target").exists()


def test_a_record_comes_back_as_it_was(store):
    attempts = (Attempt("lost", error="its worker ended"), Attempt("failed", seconds=1.5, error="fault", exit_code=3))
    record = Record(KEY, "failed", "", {"kernel": "saxpy"}, {"device": "H200"}, attempts)
    store.save(record)
    assert store.find(KEY, "x") == record
    assert list(store.records()) == [record]
    assert record.error == "fault"


def test_a_run_is_kept_whole_and_shown_as_a_run(store):
    store.keep(f"saxpy-{KEY}", FILES)
    assert [path.name for path in find_runs([store.folder])] == [f"saxpy-{KEY}"]
    assert {path.name for path in (store.folder / f"saxpy-{KEY}").iterdir()} == set(FILES)


def test_a_run_without_a_record_is_taken_up(store):
    """A kill fell between the two."""
    store.keep(f"saxpy-{KEY}", FILES)
    found = store.find(KEY, f"saxpy-{KEY}")
    assert (found.state, found.run) == ("ok", f"saxpy-{KEY}")
    assert next(store.records()) == found


def test_a_record_whose_run_was_deleted_counts_for_nothing(store):
    store.save(Record(KEY, "ok", f"saxpy-{KEY}"))
    assert store.find(KEY, f"saxpy-{KEY}") is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1}', '{"schema": 2}', '{"schema": 1, "attempts": 3}'])
def test_a_damaged_record_is_named(store, text):
    (store.journal / f"{KEY}.json").write_text(text)
    with pytest.raises(ReportError, match=f"{KEY}.json"):
        store.find(KEY, "x")


def test_a_record_is_replaced_in_one_step(store, monkeypatch):
    """A kill while it is written leaves the old one."""
    store.save(Record(KEY, "lost"))
    monkeypatch.setattr(os, "fsync", lambda number: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        store.save(Record(KEY, "ok"))
    monkeypatch.undo()
    assert store.find(KEY, "x").state == "lost"
    assert {path.name for path in store.journal.iterdir()} == {".claims", f"{KEY}.json"}


def test_a_claim_belongs_to_one_and_ends_with_its_process(store):
    other = "import sys\nfrom pathlib import Path\nfrom ncubble.profiling.sweeps.store import Store\n" + (
        f"print(Store(Path({str(store.folder)!r})).claim({KEY!r}), flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", other], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "True\n"
        assert not store.claim(KEY)
        assert store.claim("1" * 16)
        process.kill()
        process.wait()
    assert store.claim(KEY)


def test_a_claim_is_released(store):
    with Store(store.folder) as other:
        assert store.claim(KEY)
        assert store.claim(KEY)
        assert not other.claim(KEY)
        store.release(KEY)
        assert other.claim(KEY)


def test_a_plan_leaves_out_what_the_store_settles(store):
    todo = jobs(10, 20, 30, 40)
    keys = [job.key(H200, TOOLS) for job in todo]
    store.keep(todo[0].folder(keys[0]), FILES)
    store.save(Record(keys[1], "failed", attempts=(Attempt("failed", error="fault"),)))
    store.save(Record(keys[2], "lost", attempts=(Attempt("lost"),)))
    plan = sweep.plan(todo, store, H200, TOOLS, OPTIONS)
    assert [task.key for task in plan.todo] == keys[2:]
    assert {key: record.state for key, record in plan.held.items()} == {keys[0]: "ok", keys[1]: "failed"}
    again = sweep.plan(todo, store, H200, TOOLS, sweep.Options(retry_failed=True))
    assert [task.key for task in again.todo] == keys[1:]
    assert again.todo[0].attempts[0].error == "fault"


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
