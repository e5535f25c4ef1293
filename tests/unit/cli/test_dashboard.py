"""``ncubble dashboard`` and ``ncubble demo`` up to the point where they would serve on."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ncubble.api.reporting import LaunchReport
from ncubble.cli import dashboard as show
from ncubble.dashboard.app.app import open_server
from ncubble.dashboard.app.serving import Server
from ncubble.dashboard.data.store import ReportStore
from ncubble.errors import MeasurementError, UsageError
from ncubble.recordings import ROOT


def test_a_path_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        show.dashboard([tmp_path / "gone"], 0, show.HOST)


def test_a_port_that_is_taken_is_said_with_the_remedy(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((show.HOST, 0))
        taken.listen()
        with pytest.raises(UsageError, match="cannot listen on") as error:
            show.dashboard([tmp_path], taken.getsockname()[1], show.HOST)
    assert "--port" in error.value.remedy
    with pytest.raises(UsageError, match="cannot listen on"):
        show.dashboard([tmp_path], 0, "no-such-host.invalid")


def test_the_demo_without_recordings_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ncubble.recordings.ROOT", tmp_path)
    with pytest.raises(MeasurementError, match="the shipped runs are not installed"):
        show.demo(0, True)


def test_the_demo_fails_when_a_recording_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROOT", "H100", "FULL", "LANES", "LEVELS", "RANKS", "PROGRAM"):
        monkeypatch.setattr(f"ncubble.recordings.{name}", tmp_path)
    (tmp_path / "broken.ncu-rep").write_bytes(b"NVR\0garbage")
    with pytest.raises(MeasurementError, match="1 failures"):
        show.demo(0, True)


def test_the_server_is_bound_before_it_runs_and_gives_its_port_back(tmp_path: Path) -> None:
    server, _ = open_server([tmp_path])
    assert server.url == f"http://127.0.0.1:{server.port}/"
    with socket.socket() as probe:
        assert probe.connect_ex((show.HOST, server.port)) == 0
    thread = threading.Thread(target=server.run)
    thread.start()
    with urllib.request.urlopen(server.url, timeout=30) as answer:  # noqa: S310
        assert answer.status == 200
    server.close()
    thread.join(10)
    assert not thread.is_alive()
    with socket.socket() as probe:
        assert probe.connect_ex((show.HOST, server.port)) != 0


@pytest.mark.parametrize(
    ("host", "options", "upload_mb"),
    [
        ("127.0.0.1", {}, 512),
        ("0.0.0.0", {}, 0),  # noqa: S104
        ("gpu-box", {}, 0),
        ("gpu-box", {"upload_limit": 5}, 5),
        ("::1", {"upload_limit": 7}, 7),
        ("::1", {"upload_limit": 0}, 0),
    ],
)
def test_files_are_taken_from_this_machine_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, options: dict[str, Any], upload_mb: int
) -> None:
    given: dict[str, Any] = {}

    def bind(*_: Any, **options: Any) -> None:
        given.update(options)
        raise UsageError("enough")

    monkeypatch.setattr("ncubble.dashboard.app.app.open_server", bind)
    with pytest.raises(UsageError, match="enough"):
        show.dashboard([tmp_path], 0, host, **options)
    assert given["upload_mb"] == upload_mb and given["token"]


def visitor() -> urllib.request.OpenerDirector:
    """A browser that keeps cookies and follows redirects."""
    return urllib.request.build_opener(urllib.request.HTTPCookieProcessor())


@contextmanager
def dashboard_process(folder: Path, *options: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """``ncubble dashboard`` of an empty folder, and the file to which both its outputs go."""
    (folder / "runs").mkdir()
    start = "from ncubble.cli.main import main; main()"
    command = [sys.executable, "-P", "-c", start, "dashboard", str(folder / "runs"), "--port", "0", *options]
    log = folder / "log"
    with log.open("w") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink, text=True, env={**os.environ, **environment})
    try:
        until = time.monotonic() + 60
        while "dashboard on" not in log.read_text():
            assert process.poll() is None and time.monotonic() < until, log.read_text()
            time.sleep(0.02)
        yield process, log
    finally:
        process.terminate()
        process.wait(30)


def printed(log: Path) -> str:
    return log.read_text().split("dashboard on ")[1].split()[0]


def arguments_of_all_processes() -> str:
    """What ``ps`` shows every user."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(place.read_bytes().decode(errors="replace"))
    return "\n".join(found)


def test_the_printed_address_opens_and_only_that(tmp_path: Path) -> None:
    with dashboard_process(tmp_path) as (_, log):
        opened = printed(log)
        url, _, token = opened.partition("?token=")
        assert len(token) >= 43
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            visitor().open(url, timeout=30)
        assert "Use the address that" in refused.value.read().decode()
        browser = visitor()
        with browser.open(opened, timeout=30) as answer:
            assert (answer.status, answer.url) == (200, url)
        with browser.open(f"{url}_dash-layout", timeout=30) as answer:
            assert answer.status == 200


def test_the_token_stands_in_no_process_list_and_in_one_line_of_the_log(tmp_path: Path) -> None:
    with dashboard_process(tmp_path) as (process, log):
        url, _, token = printed(log).partition("?token=")
        assert token not in arguments_of_all_processes()
        for request in (
            f"GET /?token={token} HTTP/1.1",
            f"POST /?token={token} HTTP/1.1\r\nContent-Length: 2\r\n\r\n{{}}",
        ):
            with socket.create_connection((show.HOST, int(url.rsplit(":", 1)[1].strip("/")))) as line:
                line.sendall(f"{request}\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                assert line.recv(100)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert log.read_text().count(token) == 1


def test_no_token_is_asked_for_where_none_is_wanted_and_ipv6_answers(tmp_path: Path) -> None:
    host = ["--host", "::1"] if Path("/proc/sys/net/ipv6/conf/lo").exists() else []
    with dashboard_process(tmp_path, "--no-token", *host) as (_, log):
        url = printed(log)
        assert url.startswith("http://[::1]:" if host else "http://127.0.0.1:") and "token" not in url
        with visitor().open(url, timeout=30) as answer:
            assert (answer.status, answer.url) == (200, url)


def test_the_demo_shows_the_recordings_only_without_a_token_and_takes_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ncubble.recordings import FULL, H100, LANES, LEVELS, PROGRAM, RANKS, ROOT

    served: list[tuple[Server, str | None]] = []
    bound: list[list[Path]] = []

    def bind(paths: list[Path], *rest: Any, **options: Any) -> tuple[Server, ReportStore]:
        bound.append(paths)
        return open_server([tmp_path], *rest, **options)

    monkeypatch.setattr("ncubble.dashboard.app.app.open_server", bind)
    monkeypatch.setattr(show, "_serve", lambda server, token=None: served.append((server, token)))
    monkeypatch.setattr("ncubble.api.reporting.report", lambda *_, progress=None: LaunchReport([], []))
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    show.demo(0, False)
    ((server, token),) = served
    assert token is None and bound == [[ROOT, H100, FULL, LANES, LEVELS, RANKS, PROGRAM]]
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        with visitor().open(f"{server.url}upload", timeout=30) as answer:
            settings = json.load(answer)
        assert settings["error"] == "this server does not accept files"
        asked = urllib.request.Request(  # noqa: S310
            f"{server.url}upload?name=a", b"NVR\0", {"X-Ncubble-Token": settings["token"]}
        )
        with pytest.raises(urllib.error.HTTPError, match="403"):
            visitor().open(asked, timeout=30)
    finally:
        server.close()
        thread.join(20)


def left_by_a_killed_process() -> Path:
    """A file that was being added when its process was killed."""
    code = (
        "from ncubble.dashboard.pages.uploads import Uploads; import io, os, types; "
        "store = types.SimpleNamespace(add=lambda path, shown_as: None); "
        "print(Uploads(store).take('a', 9, io.BytesIO(b'NVR\\0hello')).path, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    return Path(done.stdout.strip())


def test_a_closed_terminal_leaves_no_added_file_and_a_start_removes_those_of_killed_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "cache"))
    left = left_by_a_killed_process()
    assert left.is_file()
    with dashboard_process(tmp_path) as (process, log):
        opened, browser = printed(log), visitor()
        url = opened.partition("?")[0]
        assert not left.exists()
        browser.open(opened, timeout=30).close()
        with browser.open(f"{url}upload", timeout=30) as answer:
            token = json.load(answer)["token"]
        asked = urllib.request.Request(f"{url}upload?name=a", b"NVR\0", {"X-Ncubble-Token": token})  # noqa: S310
        browser.open(asked, timeout=30).close()
        assert list((tmp_path / "cache").rglob("*.ncu-rep"))
        os.kill(process.pid, signal.SIGHUP)
        os.kill(process.pid, signal.SIGHUP)
        assert process.wait(30) == 0
    assert list((tmp_path / "cache").rglob("*.ncu-rep")) == []


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


def test_the_demo_says_which_launches_only_the_dashboard_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ncubble.recordings.ROOT", ROOT / "tiled_matmul")
    for name in ("H100", "FULL", "LANES", "LEVELS", "PROGRAM"):
        monkeypatch.setattr(f"ncubble.recordings.{name}", tmp_path)
    monkeypatch.setattr(show, "_serve", lambda server: server.close())
    show.demo(0, False)
    out, err = capsys.readouterr()
    assert out.startswith("tiled_matmul")
    assert "shows 9 launches: 1 recorded on an H200, and 8 on an H100" in " ".join(err.split()), "two ranks of four"


def test_the_demo_ends_with_a_bubble_its_change_and_the_line_of_a_planted_regression(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", [str(tmp_path / "ncubble")])
    monkeypatch.setattr("ncubble.recordings.ROOT", ROOT / "tiled_matmul")
    for name in ("H100", "FULL", "LANES", "LEVELS", "RANKS", "PROGRAM"):
        monkeypatch.setattr(f"ncubble.recordings.{name}", tmp_path)
    show.demo(0, True)
    out = capsys.readouterr().out
    bubble, cured, gated = (" ".join(step.split()) for step in out.split("\n$ ")[1:])
    assert "1. use stages=3 instead of 2" in bubble and "gemm_tma.cu:67" in bubble
    assert "tensor busy rises by 24.4 points" in cured
    assert "most at gemm_mma_swizzled.cu:191 `loop_sync();" in gated and "gate failed: regression" in gated


def test_the_demo_outside_a_checkout_leaves_out_the_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "h200").symlink_to(ROOT)
    monkeypatch.setattr("ncubble.recordings.SHIPPED", tmp_path)
    show._tour()
    out = capsys.readouterr().out
    assert out.count("\n$ ") == 2 and "gate" not in out


def test_the_demo_says_how_the_command_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "venv" / "ncubble"
    program.parent.mkdir()
    program.touch(0o755)
    monkeypatch.setattr("sys.argv", [str(program)])
    monkeypatch.setenv("PATH", "")
    assert show._called() == str(program)
    monkeypatch.chdir(tmp_path)
    assert show._called() == "venv/ncubble"
    monkeypatch.setenv("PATH", str(program.parent))
    assert show._called() == "ncubble"
