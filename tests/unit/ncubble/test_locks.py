"""Locks between processes: what may not stand in their place, who holds them, and how long they are
waited for."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ncubble import store
from ncubble.errors import MeasurementError
from ncubble.store import LockFile, lock, lock_path

HOLDS = "import sys\nfrom ncubble.store import lock\nwith lock('x'):\n    print('held', flush=True)\n    input()\n"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@contextmanager
def held_elsewhere(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock ``x``."""
    script = folder / "records.py"
    script.write_text(HOLDS)
    with subprocess.Popen(
        [sys.executable, str(script), "--into", "a b"],
        env={**os.environ, "TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.stdin.close()


def link(path: Path) -> None:
    path.symlink_to(path.parent / "target")


def directory(path: Path) -> None:
    path.mkdir()


def pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("put", "kind"), [(link, "a symbolic link"), (directory, "a directory"), (pipe, "no regular file")]
)
def test_what_is_no_lock_file_is_refused_with_the_path_and_a_remedy(put, kind, tmp_path):
    path = lock_path("x")
    put(path)
    with pytest.raises(MeasurementError) as raised, lock("x"):
        pass
    assert raised.value.message == f"{path}: is {kind}, where ncubble keeps a lock file"
    assert raised.value.remedy == f"remove it: {path}"
    assert not (tmp_path / "target").exists()


def test_a_link_to_a_file_is_not_followed(tmp_path):
    target = tmp_path / "target"
    target.write_text("mine")
    lock_path("x").symlink_to(target)
    with pytest.raises(MeasurementError), lock("x"):
        pass
    assert target.read_text() == "mine"


def test_a_file_of_someone_else_is_locked_and_not_written(tmp_path):
    other = tmp_path / "other"
    other.write_text("mine")
    os.link(other, lock_path("x"))
    with lock("x"):
        pass
    assert other.read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(MeasurementError, match=r"cannot be locked \(No such file") as raised, lock("x"):
        pass
    assert "TMPDIR" in raised.value.remedy


def test_a_held_lock_names_its_holder_then_gives_up_at_the_stated_time(tmp_path):
    said: list[str] = []
    with held_elsewhere(tmp_path) as process:
        begun = time.monotonic()
        with pytest.raises(MeasurementError) as raised, lock("x", "baselines in b", 2.5, said.append):
            pass
        assert 2.4 < time.monotonic() - begun < 10
    (line,) = said
    holder = f"process {process.pid} on {os.uname().nodename} (`records.py --into 'a b'`) since 20"
    assert line.startswith(f"waiting for baselines in b, locked by {holder}") and line.endswith("gives up after 2.5 s")
    assert f"baselines in b: locked for more than 2.5 s by {holder}" in raised.value.message
    assert (raised.value.exit_code, bool(raised.value.remedy)) == (3, True)


def test_a_lock_that_is_let_go_of_is_had_without_a_word_within_two_seconds(tmp_path):
    said: list[str] = []
    with held_elsewhere(tmp_path) as process:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        with lock("x", say=said.append):
            assert process.wait(10) == 0
    assert said == []
    assert lock_path("x").read_bytes() == b""


def test_a_note_that_is_none_is_not_believed():
    for text in (b"[]", b'{"pid": 3}', b"\x00\xff", b""):
        lock_path("x").write_bytes(text)
        with LockFile(lock_path("x")) as file:
            assert file.holder() == "an unidentified process"


def test_a_file_system_without_locks_is_told(monkeypatch):
    def none(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(store.fcntl, "flock", none)
    with pytest.raises(MeasurementError, match="cannot be locked"), lock("x"):
        pass
