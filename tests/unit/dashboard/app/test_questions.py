"""Crafted questions to every callback: a short form of ``benchmarks.dashboard.callbacks``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from benchmarks.dashboard.callbacks import UPDATE, Crafted, crafted, large, problems_of
from ncubble.dashboard.app.app import create_app
from ncubble.dashboard.data.store import ReportStore
from ncubble.recordings import ROOT
from tests.helpers import dashboard_frames as frames


@pytest.fixture(scope="module")
def client() -> FlaskClient:
    store = ReportStore([ROOT / "softmax_online", ROOT / "tensor_core_gemm" / "stages2"]).start()
    assert store.wait(120) and store.rows()
    return create_app([], store=store).server.test_client()


@pytest.fixture(scope="module")
def dependencies(client: FlaskClient) -> Any:
    return client.get("/_dash-dependencies").json


@pytest.fixture(scope="module")
def ids(client: FlaskClient) -> list[str]:
    return [row["id"] for row in client.get("/_launches/rows?start=0&end=99").json["rows"]]


@pytest.fixture
def send(client: FlaskClient) -> Callable[[Crafted], int]:
    token = client.get("/upload").json["token"]

    def ask(one: Crafted) -> int:
        headers = {"X-Ncubble-Token": token, **one.headers}
        return client.open(one.path, method=one.method, data=one.body, headers=headers).status_code

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


PAGE = {
    "output": "..page.children...page-title.data...menu.children..",
    "outputs": [
        {"id": "page", "property": "children"},
        {"id": "page-title", "property": "data"},
        {"id": "menu", "property": "children"},
    ],
    "changedPropIds": ["url.pathname"],
    "state": [],
}


@pytest.mark.parametrize(
    ("pathname", "status"),
    [('"/"', 200), ("null", 200), ("3", 400), ("[]", 400), ('"\\ud800"', 400), ("NaN", 400), ("1" * 5000, 400)],
)
def test_values_are_of_the_types_that_the_callback_takes(client: FlaskClient, pathname: str, status: int) -> None:
    named = [{"id": "url", "property": "pathname", "value": "PATH"}, {"id": "url", "property": "search", "value": ""}]
    body = json.dumps(PAGE | {"inputs": named}).replace('"PATH"', pathname)
    answer = client.post(UPDATE, data=body, content_type="application/json")
    assert answer.status_code == status


def test_values_of_other_properties_are_refused(client: FlaskClient) -> None:
    named = [{"id": "url", "property": "search", "value": "/"}, {"id": "url", "property": "pathname", "value": ""}]
    assert client.post(UPDATE, json=PAGE | {"inputs": named}).status_code == 400


def test_an_error_of_a_callback_is_no_fault_of_the_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise TypeError("a bug of ours")

    monkeypatch.setattr("ncubble.dashboard.app.callbacks.content", broken)
    client = create_app([], store=frames.store(tmp_path)).server.test_client()
    named = [{"id": "url", "property": "pathname", "value": "/"}, {"id": "url", "property": "search", "value": ""}]
    assert client.post(UPDATE, json=PAGE | {"inputs": named}).status_code == 500
