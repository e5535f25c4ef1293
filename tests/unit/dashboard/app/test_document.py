"""The document around every page: which scripts it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ncubble.dashboard.app.app import create_app
from ncubble.dashboard.app.document import TABLE, used
from ncubble.dashboard.data.store import ReportStore


def test_scripts_that_no_page_uses_are_left_out() -> None:
    kept = '<script src="/_dash-component-suites/dash/deps/react@18.min.js"></script>\n'
    unused = '<script src="/_dash-component-suites/dash/deps/polyfill@7.min.js"></script>\n'
    table = '<script src="/_dash-component-suites/dash/dash_table/bundle.js"></script>\n'
    assert used(kept + unused + table + kept) == kept + kept


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    client = create_app([tmp_path_factory.mktemp("none")]).server.test_client()
    return {path: client.get(path, headers={"Host": "localhost"}).text for path in ("/", "/open")}


def test_the_table_is_loaded_early_only_where_the_page_begins_with_one(documents: dict[str, str]) -> None:
    assert f'<script src="{TABLE}" async></script>' in documents["/"]
    assert TABLE not in documents["/open"]


def test_scripts_that_run_at_once_are_compiled_while_they_load(tmp_path: Path) -> None:
    client, here = create_app([tmp_path]).server.test_client(), {"Host": "localhost"}
    found = re.findall(r'src="(/[^"]+\.js)"', client.get("/", headers=here).text)
    hinted = [one for one in found if client.get(one, headers=here).data.startswith(b"//# allFunctionsCalledOnLoad\n")]
    names = [one.rpartition("/")[2].partition(".")[0].partition("@")[0] for one in hinted]
    assert sorted(names) == ["dash_ag_grid", "dash_core_components", "dash_renderer", "react-dom"]


def test_the_scripts_of_dash_that_remain_are_there(documents: dict[str, str]) -> None:
    for path, text in documents.items():
        assert "polyfill@" not in text and "/dash_table/" not in text, path
        assert all(part in text for part in ("react-dom@", "dash_renderer", "dash_core_components", "dash_ag_grid"))
    assert Path(TABLE).name == "async-community.js"


def test_the_layout_is_made_while_the_browser_reads_the_document(tmp_path: Path) -> None:
    store = ReportStore([tmp_path]).start()
    assert store.wait(30)
    client, here = create_app([], store=store).server.test_client(), {"Host": "localhost"}
    layout = client.get("/_dash-layout?path=/open&search=%3Fx%3D1", headers=here).data
    client.get("/open?x=1", headers=here)
    name = "/open", "?x=1", store.version
    assert name in store.ahead._begun
    assert client.get("/_dash-layout?path=/open&search=%3Fx%3D1", headers=here).data == layout
    assert name not in store.ahead._begun
