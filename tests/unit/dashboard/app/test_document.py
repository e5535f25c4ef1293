"""The document around every page: which scripts it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ncubble.dashboard.app.app import create_app
from ncubble.dashboard.app.document import TABLE, TOGETHER, used
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.registry import PAGES


def test_scripts_that_no_page_uses_are_left_out() -> None:
    kept, base = "/_dash-component-suites/dash/deps/react@18.min.js", "/_dash-component-suites/dash/"
    addresses = [kept, f"{base}deps/polyfill@7.min.js", f"{base}dash_table/bundle.js", kept]
    assert used("\n".join(f'<script src="{address}"></script>' for address in addresses)) == [kept, kept]


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    client = create_app([tmp_path_factory.mktemp("none")]).server.test_client()
    return {path: client.get(path, headers={"Host": "localhost"}).text for path in ("/", "/open")}


def test_the_table_is_loaded_early_only_where_the_page_begins_with_one(documents: dict[str, str]) -> None:
    assert f'<script src="{TABLE}" async></script>' in documents["/"]
    assert TABLE not in documents["/open"]


def test_few_scripts_hold_all_that_pages_use(documents: dict[str, str], tmp_path: Path) -> None:
    client, here = create_app([tmp_path]).server.test_client(), {"Host": "localhost"}
    for path, text in documents.items():
        found = re.findall(r'src="([^"]+)"( defer| async)?>', text)
        (first, how), (tables, deferred) = found[-2:]
        assert len(found) == 2 + (path == "/") and not how and deferred == " defer" and "dash_ag_grid" in tables
        script = client.get(first, headers=here)
        parts = ("ncubble_overview", "ReactDOM", "PropTypes", "DashRenderer", "dash_core_components")
        assert script.status_code == 200 and all(part.encode() in script.data for part in parts)
        assert b"dash_html_components" in script.data and b"immutable" in str(script.headers).encode()
    assert client.get(f"{TOGETHER}.{'0' * 16}.js", headers=here).status_code == 404


@pytest.mark.parametrize("path", [*dict.fromkeys(page.address.PATH for page in PAGES), "/kernel/none/0"])
def test_the_layout_is_made_while_the_browser_reads_the_document(path: str, tmp_path: Path) -> None:
    """The thread that makes it has no request: what a page takes from one would be missing."""
    store = ReportStore([tmp_path]).start()
    assert store.wait(30)
    client, here = create_app([], store=store).server.test_client(), {"Host": "localhost"}
    layout = client.get(f"/_dash-layout?path={path}&search=%3Fx%3D1", headers=here).data
    client.get(f"{path}?x=1", headers=here)
    name = path, "?x=1", store.version
    made = store.ahead._begun[name][1].result(30)
    assert client.get(f"/_dash-layout?path={path}&search=%3Fx%3D1", headers=here).data == layout == made.encode()
    assert name not in store.ahead._begun
