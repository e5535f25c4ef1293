"""Who may look: nothing is answered without the token of the printed address or its cookie."""

from __future__ import annotations

import hmac
import re
from http.cookies import SimpleCookie
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

from ncubble.dashboard.app import access
from ncubble.dashboard.app.app import create_app
from tests.helpers import dashboard_frames as frames

TOKEN = "the-token_of-this-server"  # noqa: S105
ORIGIN = "http://localhost:8050"
SENTENCE = "Use the address that <code>ncubble dashboard</code>"


@pytest.fixture(scope="module")
def app_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reports")


@pytest.fixture(scope="module")
def server(app_folder: Path) -> Flask:
    return create_app([], store=frames.store(app_folder), token=TOKEN).server


@pytest.fixture
def client(server: Flask) -> FlaskClient:
    """A browser that was never here."""
    return server.test_client()


def test_every_route_is_closed_without_the_token(server: Flask, client: FlaskClient) -> None:
    rules = {re.sub("<[^>]*>", "x", rule.rule) for rule in server.url_map.iter_rules()}
    rules |= {"/", "/nowhere", "/kernel/0123456789abcdef/0", "/_launches/rows", "/_launches/csv", "/assets/ncubble.js"}
    assert {"/_dash-update-component", "/_dash-layout", "/upload"} < rules
    for path in sorted(rules):
        for method in ("GET", "POST", "HEAD", "OPTIONS", "DELETE", "PATCH"):
            answer = client.open(path, method=method, base_url=ORIGIN)
            assert answer.status_code == 403, (method, path)
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
            assert "Set-Cookie" not in answer.headers
            assert "wmma_gemm" not in answer.text
            if method == "GET":
                assert SENTENCE in answer.text and "?token=" in answer.text


def test_the_token_becomes_a_cookie_and_leaves_the_address(client: FlaskClient) -> None:
    answer = client.get(f"/compare?launch=a/0&token={TOKEN}&launch=b%2F1", base_url=ORIGIN)
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/compare?launch=a/0&launch=b%2F1"
    assert answer.headers["Cache-Control"] == "no-store"
    (cookie,) = SimpleCookie(answer.headers["Set-Cookie"]).values()
    assert cookie.key == "ncubble-8050" and cookie["httponly"] and cookie["samesite"] == "Strict"
    assert (cookie["path"], cookie["domain"], cookie["expires"], cookie["max-age"]) == ("/", "", "", "")
    assert client.get("/", base_url=ORIGIN).status_code == 200
    assert client.get("/_launches/rows", base_url=ORIGIN).status_code == 200
    assert client.get("/", base_url="http://localhost:8051").status_code == 403, "each port has its own"


@pytest.mark.parametrize("old", [TOKEN, "that-of-an-earlier-server"])
def test_who_has_the_cookie_gets_a_clean_address_from_any_bookmark(client: FlaskClient, old: str) -> None:
    client.get(f"/?token={TOKEN}", base_url=ORIGIN)
    answer = client.get(f"/sweep?token={old}&x=stages", base_url=ORIGIN)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/sweep?x=stages")


@pytest.mark.parametrize(
    "query",
    ["token=", "token=wrong", f"token={TOKEN}x", f"token={TOKEN[:-1]}", f"Token={TOKEN}", f"x={TOKEN}", "token=%ff%00"],
)
def test_no_other_token_opens(client: FlaskClient, query: str) -> None:
    assert client.get(f"/?{query}", base_url=ORIGIN).status_code == 403
    client.set_cookie("ncubble-8050", query.partition("=")[2] + "y", domain="localhost")
    assert client.get("/", base_url=ORIGIN).status_code == 403


def test_the_token_in_an_address_opens_no_request_but_get(client: FlaskClient) -> None:
    for method in ("POST", "PATCH", "DELETE", "OPTIONS"):
        answer = client.open(f"/upload?token={TOKEN}", method=method, base_url=ORIGIN)
        assert answer.status_code == 403 and "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(
    "path", ["//evil.example/", "/\\evil.example/", "///evil.example", "/%5cevil.example", "/%2fevil.example"]
)
def test_the_redirect_stays_on_this_server(client: FlaskClient, path: str) -> None:
    answer = client.get(f"{ORIGIN}{path}?token={TOKEN}", base_url=ORIGIN)
    target = answer.headers["Location"]
    assert answer.status_code == 303
    assert target[0] == "/" and target[1:2] not in ("/", "\\")


def test_the_token_is_compared_in_constant_time(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []
    real = hmac.compare_digest

    def compare(given: bytes, token: bytes) -> bool:
        compared.append(given)
        return real(given, token)

    monkeypatch.setattr(access.hmac, "compare_digest", compare)
    client.set_cookie("ncubble-8050", "from-cookie", domain="localhost")
    client.get("/?token=from-address", base_url=ORIGIN)
    assert compared == [b"from-cookie", b"from-address"]


def test_the_other_defences_come_before_the_token(client: FlaskClient) -> None:
    client.get(f"/?token={TOKEN}", base_url=ORIGIN)
    rebound = client.get(f"/?token={TOKEN}", base_url="http://evil.example:8050")
    assert rebound.status_code == 400 and "Set-Cookie" not in rebound.headers
    forged = client.post("/_dash-update-component", base_url=ORIGIN, headers={"Origin": "http://evil.example"})
    assert forged.status_code == 403 and "another origin" in forged.text


def test_a_link_of_another_site_loads_once_more_from_this_one(client: FlaskClient) -> None:
    """Browsers withhold a strict cookie from such a request, not from the next."""
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}
    answer = client.get("/kernel/0123456789abcdef/0?x=1&token=old", base_url=ORIGIN, headers=followed)
    assert (answer.status_code, answer.headers["Refresh"]) == (403, "0;url=/kernel/0123456789abcdef/0?x=1")
    for site in ("same-origin", "none"):
        again = client.get("/", base_url=ORIGIN, headers=followed | {"Sec-Fetch-Site": site})
        assert again.status_code == 403 and "Refresh" not in again.headers


def test_tokens_differ_and_are_long(app_folder: Path) -> None:
    tokens = {access.new_token() for _ in range(100)}
    assert len(tokens) == 100 and all(len(token) >= 43 for token in tokens)


def test_without_a_token_everybody_is_answered(app_folder: Path) -> None:
    client = create_app([], store=frames.store(app_folder)).server.test_client()
    assert client.get("/", base_url=ORIGIN).status_code == 200


@pytest.mark.parametrize(("host", "name"), [("localhost", "80"), ("127.0.0.1:9", "9"), ("[::1]:8050", "8050")])
def test_the_cookie_is_named_after_the_port_that_the_browser_sees(host: str, name: str) -> None:
    assert access.cookie_name(host) == f"ncubble-{name}"
