"""The document around every page: which scripts it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncubble.dashboard.app.app import create_app
from ncubble.dashboard.app.document import TABLE, used


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


def test_the_scripts_of_dash_that_remain_are_there(documents: dict[str, str]) -> None:
    for path, text in documents.items():
        assert "polyfill@" not in text and "/dash_table/" not in text, path
        assert all(part in text for part in ("react-dom@", "dash_renderer", "dash_core_components", "dash_ag_grid"))
    assert Path(TABLE).name == "async-community.js"
