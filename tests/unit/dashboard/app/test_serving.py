"""Who is answered, with which headers, what callbacks may be asked, that no address reaches a file
that was not named, and the server under clients that hold connections."""

from __future__ import annotations

import hmac
import http.client
import ipaddress
import json
import logging
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import pytest
from dash import _callback
from flask import Flask
from flask.testing import FlaskClient

from benchmarks.dashboard.callbacks import UPDATE, Crafted, crafted, large, problems_of
from ncubble.dashboard.app import document, serving
from ncubble.dashboard.app.app import create_app, open_server
from ncubble.dashboard.app.serving import LARGEST_BODY_B, UNFINISHED_S, RateLimit, Server, from_elsewhere, is_loopback
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.registry import PAGES
from ncubble.recordings import H100, ROOT
from tests.helpers import dashboard_frames as frames

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
    bound, store = open_server([folder / "root"], upload_mb=512)
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


def question(output: str, *inputs: tuple[str, Any], state: Sequence[str] = ()) -> dict[str, Any]:
    """What a browser asks of the callback of this name; inputs are pairs of property and value."""

    def part(name: str, **value: Any) -> dict[str, Any]:
        place, _, member = name.partition(".")
        return {"id": place, "property": member, **value}

    given = [part(name, value=value) for name, value in inputs]
    outputs = [part(name) for name in output.strip(".").split("...")]
    changed = [name for name, _ in inputs]
    states = [part(name) for name in state]
    return {"output": output, "outputs": outputs, "inputs": given, "changedPropIds": changed, "state": states}


PROGRESS = question(
    "..loading-state.children...progress.disabled...progress.interval...store-version.data..",
    ("progress.n_intervals", 1),
    state=["store-version.data"],
)
PAGE = "..page.children...page-title.data...menu.children.."


def page_at(pathname: Any, search: Any = "") -> dict[str, Any]:
    return question(PAGE, ("url.pathname", pathname), ("url.search", search))


def test_no_callback_reads_a_file_that_was_not_named(client: FlaskClient, folder: Path) -> None:
    for target in [*targets(folder)[:40], str(folder / "secret.txt"), f"/kernel/{folder}/0", "/kernel/../../0"]:
        answer = client.post(UPDATE, json=page_at(target, f"?launch={target}"))
        assert answer.status_code == 200 and "Not found" in answer.text, (target, answer.status)
        assert CANARY not in answer.text.replace(json.dumps(str(folder)), "")


def test_answers_of_callbacks_are_written_by_our_own_json(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """``Document`` replaces a function of Dash by its name, as there is no setting."""
    assert _callback.to_json is document.to_json
    written: list[Any] = []
    monkeypatch.setattr(_callback, "to_json", lambda value: written.append(value) or document.to_json(value))
    answer = client.post(UPDATE, json=PROGRESS)
    assert written and answer.json == json.loads(document.to_json(written[-1]))


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
    assert client.post(UPDATE, json=PROGRESS).status_code == 200
    for question in STRANGE:
        answer = client.post(UPDATE, data=json.dumps(question), content_type="application/json")
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
        ("PATCH", "/upload/0123", 405),
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


HERE, NEXT = "http://localhost:8050", "http://localhost:8051"
OURS = [(None, None), ("same-origin", None), ("none", None), (None, HERE), (None, "https://LOCALHOST:8050")]
OTHERS = [
    ("same-site", HERE),
    ("cross-site", None),
    (None, NEXT),
    (None, "http://localhost"),
    (None, "null"),
    (None, ""),
]


def test_where_a_request_comes_from() -> None:
    assert [pair for pair in OURS if from_elsewhere(*pair, "localhost:8050")] == []
    assert [pair for pair in OTHERS if not from_elsewhere(*pair, "localhost:8050")] == []


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(server: Server) -> None:
    token = json.loads(ask(server, "GET", "/upload")[2])["token"]
    for target, headers, size in (
        ("/_dash-update-component", {}, LARGEST_BODY_B + 1),
        ("/upload", {}, LARGEST_BODY_B + 1),
        ("/upload", {"X_Ncubble_Token": "wrong"}, LARGEST_BODY_B + 1),
        ("/upload/0123456789abcdef", {"X_Ncubble_Token": token}, LARGEST_BODY_B + 1),
        ("/upload", {"X_Ncubble_Token": token}, 512_000_001),
    ):
        status, _, _ = ask(server, "POST", target, Content_Length=str(size), **headers)
        assert status == 413, (target, size)


def test_a_file_may_be_larger_than_any_other_request(server: Server) -> None:
    token = json.loads(ask(server, "GET", "/upload")[2])["token"]
    body = b"not a report" + bytes(LARGEST_BODY_B)
    status, _, said = ask(server, "POST", "/upload?name=a", body, X_Ncubble_Token=token)
    assert status == 415 and "not a report of Nsight Compute" in said


def test_only_this_machine_is_listened_to(server: Server) -> None:
    sockets = list(server._sockets.values())  # the server's thread adds to them
    listening = [found.socket.getsockname() for found in sockets if getattr(found, "accepting", False)]
    assert listening and all(ipaddress.ip_address(address[0]).is_loopback for address in listening)


def test_addresses_that_only_this_machine_reaches_are_known() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "127.8.9.1", "localhost", "::1", "[::1]"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "gpu-box", "192.168.1.4"]))  # noqa: S104


def test_trusted_hosts_follow_the_address_that_is_served() -> None:
    assert serving.trusted_hosts("127.0.0.1") == ["localhost", "127.0.0.1", "::1"]
    wildcard = "0.0.0.0"  # noqa: S104
    assert serving.trusted_hosts(wildcard, ["GPU-Box"]) == ["localhost", "127.0.0.1", "::1", "gpu-box"]
    assert "gpu-box" in serving.trusted_hosts("gpu-box")


NAMES = {
    "GPU-Box:8050": "gpu-box",
    "::1": "::1",
    "[0:0:0:0:0:0:0:1]:80": "::1",
    "FD00::A": "fd00::a",
    "Bücher.example": "xn--bcher-kva.example",
    **dict.fromkeys(["[::1", "a..b", ""], ""),
}


def test_names_of_hosts_are_compared_in_one_form(client: FlaskClient) -> None:
    assert {host: serving.host_name(host) for host in NAMES} == NAMES
    for host in ("localhost", "LocalHost:8050", "127.0.0.1:8050", "[::1]:8050"):
        assert client.get("/", headers={"Host": host}).status_code == 200


TOKEN = "the-token_of-this-server"  # noqa: S105
ORIGIN = "http://localhost:8050"
SENTENCE = "Use the address that <code>ncubble dashboard</code>"


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Flask:
    """A server that asks for the token."""
    return create_app([], store=frames.store(tmp_path_factory.mktemp("reports")), token=TOKEN).server


@pytest.fixture
def visitor(closed: Flask) -> FlaskClient:
    """A browser that was never there."""
    return closed.test_client()


def test_every_route_is_closed_without_the_token(closed: Flask, visitor: FlaskClient) -> None:
    rules = {re.sub("<[^>]*>", "x", rule.rule) for rule in closed.url_map.iter_rules()}
    rules |= {"/", "/nowhere", "/kernel/0123456789abcdef/0", "/_launches/rows", "/_launches/csv", "/assets/ncubble.js"}
    assert {"/_dash-update-component", "/_dash-layout", "/upload"} < rules
    for path in sorted(rules):
        for method in ("GET", "POST", "HEAD", "OPTIONS", "DELETE", "PATCH"):
            answer = visitor.open(path, method=method, base_url=ORIGIN)
            assert answer.status_code == 403, (method, path)
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
            assert "Set-Cookie" not in answer.headers
            assert "wmma_gemm" not in answer.text
            if method == "GET":
                assert SENTENCE in answer.text and "?token=" in answer.text


def test_the_token_becomes_a_cookie_and_leaves_the_address(visitor: FlaskClient) -> None:
    answer = visitor.get(f"/compare?launch=a/0&token={TOKEN}&launch=b%2F1", base_url=ORIGIN)
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/compare?launch=a/0&launch=b%2F1"
    assert answer.headers["Cache-Control"] == "no-store"
    (cookie,) = SimpleCookie(answer.headers["Set-Cookie"]).values()
    assert cookie.key == "ncubble-8050" and cookie["httponly"] and cookie["samesite"] == "Strict"
    assert (cookie["path"], cookie["domain"], cookie["expires"], cookie["max-age"]) == ("/", "", "", "")
    assert visitor.get("/", base_url=ORIGIN).status_code == 200
    assert visitor.get("/_launches/rows", base_url=ORIGIN).status_code == 200
    assert visitor.get("/", base_url="http://localhost:8051").status_code == 403, "each port has its own"


@pytest.mark.parametrize("old", [TOKEN, "that-of-an-earlier-server"])
def test_who_has_the_cookie_gets_a_clean_address_from_any_bookmark(visitor: FlaskClient, old: str) -> None:
    visitor.get(f"/?token={TOKEN}", base_url=ORIGIN)
    answer = visitor.get(f"/sweep?token={old}&x=stages", base_url=ORIGIN)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/sweep?x=stages")


@pytest.mark.parametrize(
    "query",
    ["token=", "token=wrong", f"token={TOKEN}x", f"token={TOKEN[:-1]}", f"Token={TOKEN}", f"x={TOKEN}", "token=%ff%00"],
)
def test_no_other_token_opens(visitor: FlaskClient, query: str) -> None:
    assert visitor.get(f"/?{query}", base_url=ORIGIN).status_code == 403
    visitor.set_cookie("ncubble-8050", query.partition("=")[2] + "y", domain="localhost")
    assert visitor.get("/", base_url=ORIGIN).status_code == 403


def test_the_token_in_an_address_opens_no_request_but_get(visitor: FlaskClient) -> None:
    for method in ("POST", "PATCH", "DELETE", "OPTIONS"):
        answer = visitor.open(f"/upload?token={TOKEN}", method=method, base_url=ORIGIN)
        assert answer.status_code == 403 and "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(
    "path", ["//evil.example/", "/\\evil.example/", "///evil.example", "/%5cevil.example", "/%2fevil.example"]
)
def test_the_redirect_stays_on_this_server(visitor: FlaskClient, path: str) -> None:
    answer = visitor.get(f"{ORIGIN}{path}?token={TOKEN}", base_url=ORIGIN)
    target = answer.headers["Location"]
    assert answer.status_code == 303
    assert target[0] == "/" and target[1:2] not in ("/", "\\")


def test_the_token_is_compared_in_constant_time(visitor: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []
    real = hmac.compare_digest

    def compare(given: bytes, token: bytes) -> bool:
        compared.append(given)
        return real(given, token)

    monkeypatch.setattr(serving.hmac, "compare_digest", compare)
    visitor.set_cookie("ncubble-8050", "from-cookie", domain="localhost")
    visitor.get("/?token=from-address", base_url=ORIGIN)
    assert compared == [b"from-cookie", b"from-address"]


def test_the_other_defences_come_before_the_token(visitor: FlaskClient) -> None:
    visitor.get(f"/?token={TOKEN}", base_url=ORIGIN)
    rebound = visitor.get(f"/?token={TOKEN}", base_url="http://evil.example:8050")
    assert rebound.status_code == 400 and "Set-Cookie" not in rebound.headers
    forged = visitor.post("/_dash-update-component", base_url=ORIGIN, headers={"Origin": "http://evil.example"})
    assert forged.status_code == 403 and "another origin" in forged.text


def test_a_link_of_another_site_loads_once_more_from_this_one(visitor: FlaskClient) -> None:
    """Browsers withhold a strict cookie from such a request, not from the next."""
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}
    answer = visitor.get("/kernel/0123456789abcdef/0?x=1&token=old", base_url=ORIGIN, headers=followed)
    assert (answer.status_code, answer.headers["Refresh"]) == (403, "0;url=/kernel/0123456789abcdef/0?x=1")
    for site in ("same-origin", "none"):
        again = visitor.get("/", base_url=ORIGIN, headers=followed | {"Sec-Fetch-Site": site})
        assert again.status_code == 403 and "Refresh" not in again.headers


def test_tokens_differ_and_are_long() -> None:
    tokens = {serving.new_token() for _ in range(100)}
    assert len(tokens) == 100 and all(len(token) >= 43 for token in tokens)


@pytest.mark.parametrize(("host", "name"), [("localhost", "80"), ("127.0.0.1:9", "9"), ("[::1]:8050", "8050")])
def test_the_cookie_is_named_after_the_port_that_the_browser_sees(host: str, name: str) -> None:
    assert serving.cookie_name(host) == f"ncubble-{name}"


@pytest.fixture(scope="module")
def loaded() -> FlaskClient:
    store = ReportStore([H100 / "softmax_online", ROOT / "tensor_core_gemm" / "stages2"]).start()
    assert store.wait(120) and store.rows()
    return create_app([], store=store).server.test_client()


@pytest.fixture(scope="module")
def dependencies(loaded: FlaskClient) -> Any:
    return loaded.get("/_dash-dependencies").json


@pytest.fixture(scope="module")
def ids(loaded: FlaskClient) -> list[str]:
    return [row["id"] for row in loaded.get("/_launches/rows?start=0&end=99").json["rows"]]


@pytest.fixture
def send(loaded: FlaskClient) -> Callable[[Crafted], int]:
    token = loaded.get("/upload").json["token"]

    def ask(one: Crafted) -> int:
        headers = {"X-Ncubble-Token": token, **one.headers}
        return loaded.open(one.path, method=one.method, data=one.body, headers=headers).status_code

    return ask


def test_no_crafted_request_is_an_error_of_the_server(
    dependencies: Any, ids: list[str], send: Callable[[Crafted], int], caplog: pytest.LogCaptureFixture
) -> None:
    statuses, problems, _ = problems_of(crafted(dependencies, ids, 600, 3), send)
    assert problems == []
    assert min(statuses[200], statuses[400]) > 50, "both kinds are asked"
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_no_large_or_deep_request_is_an_error_of_the_server(
    dependencies: Any, ids: list[str], send: Callable[[Crafted], int]
) -> None:
    def some() -> Iterator[Crafted]:
        for number, one in enumerate(large(dependencies, ids)):
            if number % 7 == 0 or one.what.startswith(("deep body", "31 MB")):
                yield one

    statuses, problems, _ = problems_of(some(), send)
    assert problems == [] and statuses[400] >= 5


@pytest.mark.parametrize(
    ("pathname", "status"),
    [('"/"', 200), ("null", 200), ("3", 400), ("[]", 400), ('"\\ud800"', 400), ("NaN", 400), ("1" * 5000, 400)],
)
def test_values_are_of_the_types_that_the_callback_takes(loaded: FlaskClient, pathname: str, status: int) -> None:
    body = json.dumps(page_at("PATH")).replace('"PATH"', pathname)
    answer = loaded.post(UPDATE, data=body, content_type="application/json")
    assert answer.status_code == status


def test_values_of_other_properties_are_refused(loaded: FlaskClient) -> None:
    asked = page_at("/")
    asked["inputs"].reverse()
    assert loaded.post(UPDATE, json=asked).status_code == 400


def test_an_error_of_a_callback_is_no_fault_of_the_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise TypeError("a bug of ours")

    monkeypatch.setattr("ncubble.dashboard.app.app.content", broken)
    client = create_app([], store=frames.store(tmp_path)).server.test_client()
    assert client.post(UPDATE, json=page_at("/")).status_code == 500


UNFINISHED = 200
HEADS = [
    b"",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    b"POST /_dash-update-component HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n{",
]


def test_200_unfinished_requests_hold_up_nobody(server: Server) -> None:
    with ExitStack() as stack:
        for number in range(UNFINISHED):
            line = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            line.sendall(HEADS[number % len(HEADS)])
        assert [ask(server, "GET", "/")[0] for _ in range(10)] == [200] * 10


def test_an_unfinished_request_is_closed_after_a_while(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = next(one for one in server._sockets.values() if getattr(one, "accepting", False))
    adjustments = listener.adj
    assert adjustments.channel_timeout == UNFINISHED_S <= 30
    monkeypatch.setattr(adjustments, "channel_timeout", 1)
    monkeypatch.setattr(adjustments, "cleanup_interval", 1)
    listener.next_channel_cleanup = 0
    with socket.create_connection(("127.0.0.1", server.port), timeout=15) as line:
        line.sendall(HEADS[1])
        assert line.recv(1) == b"", "closed by the server"


def test_a_flood_of_errors_leaves_a_small_log(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(serving.time, "monotonic", lambda: now[0])
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
    serving.limit_log()
    record = logging.LogRecord("waitress", logging.ERROR, "", 0, "bad", (), None)
    for handler in (own, other):
        for _ in range(serving.MOST):
            handler.handle(record)
    assert capsys.readouterr().err.count("bad\n") == serving.MOST
