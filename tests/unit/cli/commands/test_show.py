"""``ncubble dashboard`` and ``ncubble demo`` up to the point where they would serve on."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from ncubble.cli.commands import show
from ncubble.errors import MeasurementError, UsageError


def test_a_path_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        show.dashboard([tmp_path / "gone"], 0, show.HOST, None, False)


def test_a_port_that_is_taken_is_said_with_the_remedy(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((show.HOST, 0))
        taken.listen()
        with pytest.raises(UsageError, match="cannot listen on") as error:
            show.dashboard([tmp_path], taken.getsockname()[1], show.HOST, None, False)
    assert "--port" in error.value.remedy


def test_the_demo_without_recordings_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ncubble.recordings.ROOT", tmp_path)
    with pytest.raises(MeasurementError, match="no recorded run"):
        show.demo(0, True)


def test_the_demo_fails_when_a_recording_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ncubble.recordings.ROOT", tmp_path)
    (tmp_path / "broken.ncu-rep").write_bytes(b"NVR\0garbage")
    with pytest.raises(MeasurementError, match="1 failures"):
        show.demo(0, True)


def test_the_server_is_bound_before_it_runs_and_gives_its_port_back(tmp_path: Path) -> None:
    server, store = show._bind([tmp_path], show.HOST, 0, [])
    assert server.url == f"http://127.0.0.1:{server.port}/"
    with socket.socket() as probe:
        assert probe.connect_ex((show.HOST, server.port)) == 0
    server.close()
    assert store.wait(60)
    with socket.socket() as probe:
        assert probe.connect_ex((show.HOST, server.port)) != 0


def test_a_running_server_answers_and_ends_on_request(tmp_path: Path) -> None:
    server, _ = show._bind([tmp_path], show.HOST, 0, [])
    thread = threading.Thread(target=server.run)
    thread.start()
    with urllib.request.urlopen(server.url, timeout=30) as answer:  # noqa: S310
        assert answer.status == 200
    server.close()
    thread.join(10)
    assert not thread.is_alive()


def test_a_host_that_is_not_ours_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot listen on"):
        show.dashboard([tmp_path], 0, "no-such-host.invalid", None, False)


def left_by_a_killed_process() -> Path:
    """A file that was being added when its process was killed."""
    code = (
        "from ncubble.dashboard.pages.open.uploads import Uploads; import os; "
        "one = Uploads(None).admit('a', 9); print(one.path, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    return Path(done.stdout.strip())


def test_a_closed_terminal_leaves_no_added_file_and_a_start_removes_those_of_killed_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "cache"))
    left = left_by_a_killed_process()
    assert left.is_file()
    (tmp_path / "runs").mkdir()
    start = "from ncubble.cli.main import main; main()"
    command = [sys.executable, "-P", "-c", start, "dashboard", str(tmp_path / "runs"), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = process.stderr.readline().split()[2]
        assert not left.exists()
        with urllib.request.urlopen(f"{url}upload", timeout=30) as answer:  # noqa: S310
            token = json.load(answer)["token"]
        asked = urllib.request.Request(f"{url}upload", b'{"name": "a", "size": 9}', {"X-Ncubble-Token": token})  # noqa: S310
        asked.add_header("Content-Type", "application/json")
        urllib.request.urlopen(asked, timeout=30).close()  # noqa: S310
        assert list((tmp_path / "cache").rglob("*.part"))
        os.kill(process.pid, signal.SIGHUP)
        os.kill(process.pid, signal.SIGHUP)
        assert process.wait(30) == 0
    assert list((tmp_path / "cache").rglob("*.part")) == []


def test_what_nohup_silenced_stays_silent() -> None:
    before = signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGTERM)
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        show._end_in_order()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGHUP, before[0])
        signal.signal(signal.SIGTERM, before[1])
