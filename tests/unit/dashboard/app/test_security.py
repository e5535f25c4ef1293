"""Which requests are answered, with which headers, and that no address reaches a file that was not
named."""

from __future__ import annotations

import http.client
import inspect
import ipaddress
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dash import _callback
from flask.testing import FlaskClient

from ncubble.cli.commands import show
from ncubble.dashboard.app import encoding
from ncubble.dashboard.app.app import create_app
from ncubble.dashboard.app.security import LARGEST_BODY_B, from_elsewhere, is_loopback
from ncubble.dashboard.app.server import Server
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.registry import PAGES

CANARY = "canary-that-nobody-named"
UPS = ("../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..%5c", "....//", "..;/", "%252e%252e%252f", "..%c0%af", "%00../")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of reports without any, beside a file that nobody named."""
    place = tmp_path_factory.mktemp("place")
    (place / "root").mkdir()
    (place / "secret.txt").write_text(CANARY)
    return place


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    bound, store = show._bind([folder / "root"], show.HOST, 0, [], show.UPLOAD_MB)
    assert store.wait(60)
    thread = threading.Thread(target=bound.run)
    thread.start()
    yield bound
    bound.close()
    thread.join(20)


@pytest.fixture(scope="module")
def client(folder: Path) -> FlaskClient:
    store = ReportStore([folder / "root"])
    return create_app([], store=store).server.test_client()


def ask(server: Server, method: str, target: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, str], str]:
    """One request whose target is sent as it is written."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.putrequest(method, target, skip_host="Host" in headers, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    if body:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body or None)
    answer = connection.getresponse()
    said = answer.read().decode("utf-8", "replace")
    connection.close()
    return answer.status, dict(answer.getheaders()), said


def targets(folder: Path) -> list[str]:
    """Every rule of the server and every page with every way to climb out of it, to a file that is
    there."""
    below = str(folder / "secret.txt").lstrip("/")
    rules = create_app([], store=ReportStore([])).server.url_map.iter_rules()
    prefixes = ["/_dash-component-suites/dash/", *(f"{rule.rule.split('<')[0].rstrip('/')}/" for rule in rules)]
    prefixes += [f"{page.address.PATH.rstrip('/')}/" for page in PAGES]
    found = [f"{prefix}{up * 12}{file}" for prefix in prefixes for up in UPS for file in (below, "etc/passwd")]
    found += [f"{prefix}{start}{below}" for prefix in prefixes for start in ("/", "%2f", "//", "file:///", "\\")]
    return list(dict.fromkeys(found))


def test_no_address_reads_a_file_that_was_not_named(server: Server, folder: Path) -> None:
    asked = targets(folder)
    assert len(asked) > 150
    for target in asked:
        status, headers, said = ask(server, "GET", target)
        assert status in (301, 308, 400, 404, 405), (target, status)
        assert CANARY not in said and "root:" not in said, target
        assert CANARY not in str(headers)


def test_no_callback_reads_a_file_that_was_not_named(server: Server, folder: Path) -> None:
    for target in [*targets(folder)[:40], str(folder / "secret.txt"), f"/kernel/{folder}/0", "/kernel/../../0"]:
        question = {
            "output": "..page.children...page-title.data...menu.children..",
            "outputs": [
                {"id": "page", "property": "children"},
                {"id": "page-title", "property": "data"},
                {"id": "menu", "property": "children"},
            ],
            "inputs": [
                {"id": "url", "property": "pathname", "value": target},
                {"id": "url", "property": "search", "value": f"?launch={target}"},
            ],
            "changedPropIds": ["url.pathname"],
            "state": [],
        }
        body = json.dumps(question).encode()
        status, _, said = ask(server, "POST", "/_dash-update-component", body, Content_Type="application/json")
        assert status == 200 and "Not found" in said, (target, status, said[:200])
        assert CANARY not in said.replace(json.dumps(str(folder)), "")


PROGRESS = {
    "output": "..loading-state.children...progress.disabled...progress.interval...store-version.data..",
    "outputs": [
        {"id": "loading-state", "property": "children"},
        {"id": "progress", "property": "disabled"},
        {"id": "progress", "property": "interval"},
        {"id": "store-version", "property": "data"},
    ],
    "inputs": [{"id": "progress", "property": "n_intervals", "value": 1}],
    "changedPropIds": ["progress.n_intervals"],
    "state": [{"id": "store-version", "property": "data"}],
}


def test_answers_of_callbacks_are_written_by_our_own_json(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """``encoding.install`` replaces a function of Dash by its name, as there is no setting."""
    assert _callback.to_json is encoding.to_json
    written: list[Any] = []
    monkeypatch.setattr(_callback, "to_json", lambda value: written.append(value) or encoding.to_json(value))
    answer = client.post("/_dash-update-component", json=PROGRESS)
    assert written and answer.json == json.loads(encoding.to_json(written[-1]))


STRANGE: list[Any] = [
    *({}, [], None, "x", 3, {"output": "nope.children", "inputs": []}, {"output": ["a"]}, {"output": "theme.data"}),
    *({**PROGRESS, "inputs": wrong} for wrong in (5, [], [{}], [5], [[5]], [{"id": [], "property": "a"}])),
    *({**PROGRESS, "state": wrong} for wrong in ({}, [], [{"id": {"a": {}}, "property": "a"}])),
    *({**PROGRESS, "outputs": wrong} for wrong in (5, [5], [{"id": "page"}])),
    *({**PROGRESS, "changedPropIds": wrong} for wrong in (5, [5])),
]


def test_a_question_that_no_page_asks_is_refused_without_a_traceback(
    client: FlaskClient, caplog: pytest.LogCaptureFixture
) -> None:
    assert client.post("/_dash-update-component", json=PROGRESS).status_code == 200
    for question in STRANGE:
        answer = client.post("/_dash-update-component", data=json.dumps(question), content_type="application/json")
        assert (answer.status_code, answer.mimetype) == (400, "text/plain"), question
    assert not caplog.records


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/", 200),
        ("GET", "/open", 200),
        ("GET", "/nowhere", 404),
        ("GET", "/nowhere.txt", 404),
        ("GET", "/_nothing", 404),
        ("GET", "/assets/ncubble.js", 200),
        ("GET", "/assets/absent.js", 404),
        ("GET", "/upload", 200),
        ("POST", "/upload", 403),
        ("PUT", "/upload", 405),
        ("DELETE", "/", 405),
        ("GET", "/_dash-layout", 200),
        ("POST", "/_dash-update-component", 400),
        ("OPTIONS", "/_dash-update-component", 200),
        ("TRACE", "/", 405),
    ],
)
def test_every_answer_has_the_policy(client: FlaskClient, method: str, target: str, status: int) -> None:
    body = b"no json" if "update" in target else b""
    answer = client.open(target, method=method, data=body, content_type="application/json")
    assert answer.status_code == status
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe-eval" not in policy and "*" not in policy
    assert "'unsafe-inline'" not in policy.split("style-src")[0]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_a_foreign_host_gets_nothing_and_the_policy(server: Server) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "[::2]"):
        for method, target in (("GET", "/"), ("GET", "/upload"), ("GET", "/_dash-layout"), ("POST", "/upload")):
            status, headers, said = ask(server, method, target, Host=host)
            assert status == 400 and "token" not in said, (host, target, status)
            assert "default-src 'none'" in headers["Content-Security-Policy"]


@pytest.mark.parametrize("target", ["/_dash-update-component", "/upload", "/upload/0123456789abcdef"])
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://localhost"])
def test_other_origins_cannot_post(server: Server, target: str, origin: str) -> None:
    status, _, said = ask(server, "POST", target, b"{}", Origin=origin, Content_Type="text/plain")
    assert status == 403 and "another origin" in said


@pytest.mark.parametrize(
    ("site", "origin", "elsewhere"),
    [
        (None, None, False),
        ("same-origin", None, False),
        ("none", None, False),
        ("same-site", "http://localhost:8050", True),
        ("cross-site", None, True),
        (None, "http://localhost:8050", False),
        (None, "https://LOCALHOST:8050", False),
        (None, "http://localhost:8051", True),
        (None, "http://localhost", True),
        (None, "null", True),
        (None, "", True),
        (None, "http://localhost:8050@evil.example", True),
    ],
)
def test_where_a_request_comes_from(site: str | None, origin: str | None, elsewhere: bool) -> None:
    assert from_elsewhere(site, origin, "localhost:8050") is elsewhere


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(server: Server) -> None:
    for target in ("/_dash-update-component", "/upload", "/upload/0123456789abcdef"):
        for size in (LARGEST_BODY_B + 1, 100_000_000):
            status, _, _ = ask(server, "POST", target, Content_Length=str(size))
            assert status == 413


def test_only_this_machine_is_listened_to(server: Server) -> None:
    sockets = list(server._sockets.values())  # the server's thread adds to them
    listening = [found.socket.getsockname() for found in sockets if getattr(found, "accepting", False)]
    assert listening and all(ipaddress.ip_address(address[0]).is_loopback for address in listening)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("localhost", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),  # noqa: S104
        ("::", False),
        ("gpu-box", False),
        ("192.168.1.4", False),
    ],
)
def test_files_are_taken_from_this_machine_unless_told_otherwise(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
    assert show._upload_mb(host, 512, False) == (512 if loopback else 0)
    assert show._upload_mb(host, 512, True) == 512
    assert show._upload_mb(host, 0, True) == 0


@pytest.mark.parametrize(("megabytes", "allowed"), [(0, False), (7, True)])
def test_the_limit_of_the_command_line_reaches_the_server(folder: Path, megabytes: int, allowed: bool) -> None:
    bound, store = show._bind([folder / "root"], show.HOST, 0, [], megabytes)
    thread = threading.Thread(target=bound.run)
    thread.start()
    try:
        status, _, said = ask(bound, "GET", "/upload")
        assert status == 200 and json.loads(said)["allowed"] is allowed
        assert json.loads(said)["largest"] == megabytes * 1_000_000
    finally:
        bound.close()
        thread.join(20)
        store.wait(20)


def test_the_options_for_uploads_are_there() -> None:
    given: dict[str, Any] = {name: one.default for name, one in inspect.signature(show.dashboard).parameters.items()}
    assert (given["upload_limit"], given["allow_upload"]) == (512, False)
