"""The server under clients that hold connections, and the log under a flood of errors."""

from __future__ import annotations

import http.client
import logging
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ncubble.dashboard.app import log as app_log
from ncubble.dashboard.app.app import create_app
from ncubble.dashboard.app.log import RateLimit
from ncubble.dashboard.app.server import UNFINISHED_S, Server
from tests.helpers import dashboard_frames as frames

UNFINISHED = 200
HEADS = [
    b"",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    b"POST /_dash-update-component HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n{",
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    bound = Server(create_app([], store=frames.store(tmp_path)), "127.0.0.1", 0)
    thread = threading.Thread(target=bound.run)
    thread.start()
    yield bound
    bound.close()
    thread.join(20)


def asked_s(server: Server) -> float:
    """Seconds that a new client waits for a page."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert answer.status == 200 and answer.read()
    connection.close()
    return time.monotonic() - began


def test_200_unfinished_requests_hold_up_nobody(server: Server) -> None:
    with ExitStack() as stack:
        for number in range(UNFINISHED):
            line = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            line.sendall(HEADS[number % len(HEADS)])
        waits = [asked_s(server) for _ in range(40)]
    assert statistics.quantiles(waits, n=20)[-1] <= 1.0, sorted(waits)


def test_an_unfinished_request_is_closed_after_a_while(server: Server) -> None:
    listener = next(one for one in server._sockets.values() if getattr(one, "accepting", False))
    adjustments = listener.adj
    assert adjustments.channel_timeout == UNFINISHED_S <= 30
    adjustments.channel_timeout = adjustments.cleanup_interval = 1
    listener.next_channel_cleanup = 0
    with socket.create_connection(("127.0.0.1", server.port), timeout=15) as line:
        line.sendall(HEADS[1])
        assert line.recv(1) == b"", "closed by the server"


def test_a_flood_of_errors_leaves_a_small_log(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(app_log.time, "monotonic", lambda: now[0])
    limit, written = RateLimit(3, 60, 0.0), list[str]()
    for number in range(1000):
        record = logging.LogRecord("waitress", logging.ERROR, "", 0, "bad request %d", (number,), None)
        if limit.filter(record):
            written.append(record.getMessage())
    now[0] = 61.0
    record = logging.LogRecord("waitress", logging.ERROR, "", 0, "another", (), None)
    assert limit.filter(record)
    assert written == ["bad request 0", "bad request 1", "bad request 2"]
    assert record.getMessage() == "another (997 earlier messages were left out)"


def test_the_limit_holds_for_ncubble_and_for_libraries(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own, other = logging.StreamHandler(), logging.StreamHandler()
    monkeypatch.setattr(logging.getLogger("ncubble"), "handlers", [own])
    monkeypatch.setattr(logging, "lastResort", other)
    app_log.limit_log()
    record = logging.LogRecord("waitress", logging.ERROR, "", 0, "bad", (), None)
    for handler in (own, other):
        for _ in range(app_log.MOST):
            handler.handle(record)
    assert capsys.readouterr().err.count("bad\n") == app_log.MOST
