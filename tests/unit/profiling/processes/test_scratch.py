"""Unfinished work: whose it is, when it counts as left behind, and that nothing else is ever
removed."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ncubble.profiling import scratch as module
from ncubble.profiling.scratch import abandoned, cut_off, intact, scratch

OWN = """
import sys, time
from pathlib import Path
from ncubble.profiling.scratch import scratch
with scratch(Path(sys.argv[1]), ".t-", {"one": "the first", "two": "the second"}) as work:
    (work / "one").mkdir()
    (work / "one" / "data").write_text("half")
    print(work, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def owner(tmp_path):
    process = subprocess.Popen([sys.executable, "-P", "-c", OWN, tmp_path], stdout=subprocess.PIPE, text=True)
    process.work = Path(process.stdout.readline().strip())
    yield process
    process.kill()
    process.communicate()


def killed(owner):
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    return owner.work.parent


def swept(folder):
    return [what for left in abandoned(folder, ".t-") for what in left.unfinished]


def rewritten(folder, **members):
    note = json.loads((folder / "owner.json").read_text())
    (folder / "owner.json").write_text(json.dumps({**note, **members}))


def test_what_a_living_process_makes_is_left_alone(tmp_path, owner):
    assert swept(tmp_path) == cut_off(owner.work.parent) == []
    assert (owner.work / "one" / "data").read_text() == "half"


def test_what_a_killed_process_made_is_named_and_removed_once(tmp_path, owner):
    left = killed(owner)
    assert cut_off(left) == ["the first"]
    assert (left / "work" / "one").is_dir(), "asking changes nothing"
    assert swept(tmp_path) == ["the first"]
    assert list(tmp_path.iterdir()) == []
    assert swept(tmp_path) == []


def test_a_leftover_of_another_host_waits_for_a_week(tmp_path, owner):
    left = killed(owner)
    rewritten(left, host="elsewhere")
    assert swept(tmp_path) == []
    week_ago = time.time() - 8 * 86400
    os.utime(left / "owner.json", (week_ago, week_ago))
    assert swept(tmp_path) == ["the first"]


def test_without_locks_nothing_is_taken_for_dead(tmp_path, owner, monkeypatch):
    def refuse(*_):
        raise OSError(37, "No locks available")

    killed(owner)
    monkeypatch.setattr(fcntl, "flock", refuse)
    with scratch(tmp_path, ".t-", {}) as work:
        assert work.is_dir()
        assert swept(tmp_path) == []


@pytest.mark.parametrize("note", ["", "{", "[]", '{"host": 1}', '{"host": "x", "making": {"one": []}}'])
def test_killed_before_or_while_the_note_was_written(tmp_path, note):
    (tmp_path / ".t-1").mkdir()
    (tmp_path / ".t-1" / "owner.json").write_text(note)
    (tmp_path / ".t-2").mkdir()
    assert swept(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_links_and_unknown_folders_are_never_touched(tmp_path, owner):
    left = killed(owner)
    precious = tmp_path / "precious"
    left.rename(precious)
    (tmp_path / ".t-link").symlink_to(precious)
    (tmp_path / ".t-unknown").mkdir()
    (tmp_path / ".t-unknown" / "thesis").touch()
    (tmp_path / ".t-file").touch()
    (tmp_path / ".t-fifo").mkdir()
    os.mkfifo(tmp_path / ".t-fifo" / "owner.json")
    assert swept(tmp_path) == []
    assert (precious / "work" / "one" / "data").exists()
    assert {path.name for path in tmp_path.iterdir()} >= {".t-link", ".t-unknown", ".t-file", "precious"}


def test_a_link_inside_a_leftover_is_removed_and_not_what_it_names(tmp_path, owner):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "thesis").touch()
    (owner.work / "one" / "link").symlink_to(outside)
    killed(owner)
    assert swept(tmp_path) == ["the first"]
    assert (outside / "thesis").exists()


def test_a_claim_that_is_swept_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    real, first = fcntl.flock, []

    def late(descriptor, kind):
        if not first:
            first.append(descriptor)
            assert swept(tmp_path) == list(tmp_path.iterdir()) == []
        real(descriptor, kind)

    monkeypatch.setattr(module.fcntl, "flock", late)
    with scratch(tmp_path, ".t-", {}) as work:
        assert work.is_dir()
        assert len(list(tmp_path.iterdir())) == 1


def test_work_whose_folder_was_deleted_is_not_intact_whoever_makes_it_anew(tmp_path):
    with scratch(tmp_path, ".t-", {}) as work:
        assert intact(work)
        shutil.rmtree(work.parent)
        work.mkdir(parents=True)
        assert not intact(work)


def test_many_owners_and_sweepers_at_once_lose_nothing(tmp_path):
    errors, stop = [], threading.Event()

    def own():
        try:
            for number in range(40):
                with scratch(tmp_path, ".t-", {"x": "x"}) as work:
                    (work / "x").write_text(str(number))
                    assert (work / "x").read_text() == str(number)
        except Exception as error:
            errors.append(error)

    def sweep():
        while not stop.is_set():
            errors.extend(swept(tmp_path))

    sweeper = threading.Thread(target=sweep)
    owners = [threading.Thread(target=own) for _ in range(4)]
    for thread in (sweeper, *owners):
        thread.start()
    for thread in owners:
        thread.join()
    stop.set()
    sweeper.join()
    assert errors == []
    assert list(tmp_path.iterdir()) == []
