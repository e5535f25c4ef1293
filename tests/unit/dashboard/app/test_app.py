"""Pages as component trees, what stands at an address, and the scripts of the document around
it."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dash import Dash

from ncubble.dashboard.app.app import content as page
from ncubble.dashboard.app.app import create_app, exists
from ncubble.dashboard.app.document import TABLE, TOGETHER, used
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.kernel.layout import PANELS
from ncubble.dashboard.pages.registry import PAGES
from tests.helpers import dashboard_frames as frames

GEMM = "/kernel/0123456789abcdef/0"


@pytest.fixture
def store(tmp_path: Path) -> ReportStore:
    return frames.store(tmp_path)


@pytest.fixture
def app(store: ReportStore) -> Dash:
    return create_app([], store=store)


def shown(store: ReportStore, path: str) -> str:
    return frames.sent([page(store, path)[0], frames.late_parts(store, path)])


def test_the_overview_holds_every_launch_and_names_the_damaged_file(store: ReportStore) -> None:
    sent = shown(store, "/")
    assert all(row["id"] in sent for row in store.rows())
    assert "damaged.ncu-rep" in sent and "file ends inside block 3" in sent


def test_a_kernel_page_has_every_section_and_the_launch_in_its_title(store: ReportStore) -> None:
    content, title = page(store, GEMM)
    sent = frames.sent(content)
    assert title.startswith("void wmma_gemm<3, 16>")
    assert [panel.title for panel in PANELS.values() if panel.title not in sent] == []
    assert "could not be shown" not in sent


def test_provenance_names_gpu_clock_version_interval_and_content(store: ReportStore) -> None:
    sent = shown(store, GEMM)
    facts = ("NVIDIA H200 (CC 9.0)", "1.755 GHz", "2025.3.1.0", "1.50 µs", "0123456789abcdef", "580.95")
    assert [fact for fact in (*facts, "pipeline+timeline") if fact not in sent] == []


def test_what_a_report_lacks_is_said_with_the_option_that_collects_it(store: ReportStore) -> None:
    sent = shown(store, "/kernel/fedcba9876543210/0")
    for option in ("--set timeline", "--set source", "--set full"):
        assert option in sent, option


def test_a_launch_without_counters_shows_not_collected_and_no_zero(store: ReportStore) -> None:
    sent = shown(store, "/kernel/fedcba9876543210/1")
    assert "--set pipeline" in sent
    assert sent.count("not collected") >= 5
    assert "lacks the counters to say what to change" in sent
    assert '"0.0 %"' not in sent and "nan" not in sent.lower().replace("provenance", "").replace("dominant", "")


@pytest.mark.parametrize(
    "path", ["/nowhere", "/kernel/zzzz/0", "/kernel/0123456789abcdef/77", "/kernel/0123456789abcdef/-1"]
)
def test_an_address_that_names_nothing_is_not_found(store: ReportStore, app: Dash, path: str) -> None:
    assert page(store, path)[1].startswith("Not found")
    assert not exists(store, path)
    assert app.server.test_client().get(path).status_code == 404


def test_a_launch_that_contradicts_itself_is_named_and_its_page_says_how(tmp_path: Path) -> None:
    report = frames.gemm()
    warnings = ["suspicious: 3 CTAs, but 4", "an ordinary note"]
    report.verdicts[1] = replace(report.verdicts[1], integrity="suspicious", warnings=warnings)
    store = frames.store(tmp_path, [report])
    overview = shown(store, "/")
    assert "1 launch holds values that contradict each other" in overview
    assert "launch 1" in overview and "suspicious: 3 CTAs, but 4" in overview
    assert "an ordinary note" not in overview
    page = shown(store, f"/kernel/{report.key[:16]}/1")
    assert page.index("suspicious: 3 CTAs, but 4") < page.index("an ordinary note")
    assert "values that contradict" not in shown(frames.store(tmp_path), "/")


def test_a_launch_may_still_come_while_reports_are_read(tmp_path: Path) -> None:
    gate = threading.Event()
    store = ReportStore([tmp_path / "a.ncu-rep"], lambda paths: (gate.wait(30) and [], []))
    store.start()
    try:
        assert page(store, GEMM)[1].startswith("Reading")
        assert exists(store, GEMM)
    finally:
        gate.set()
    store.wait(30)
    assert page(store, GEMM)[1].startswith("Not found")


def test_no_page_lets_the_browser_build_markup_from_text(store: ReportStore) -> None:
    sent = "".join(shown(store, path) for path in ("/", "/kernel/00000000deadbeef/0"))
    for name in ("dangerously", "srcDoc", '"Iframe"', '"Markdown"', '"type": "A"'):
        assert name not in sent, name


def test_every_figure_hides_the_button_that_uploads(store: ReportStore) -> None:
    found: list[dict[str, Any]] = []

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("type") == "Graph":
                found.append(node["props"]["config"])
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(json.loads(shown(store, GEMM)))
    assert len(found) == 4
    assert all(config["showSendToCloud"] is False and config["plotlyServerURL"] == "" for config in found)


def test_the_page_names_no_other_host(app: Dash) -> None:
    text = app.server.test_client().get("/").get_data(as_text=True)
    assert "http://" not in text and "https://" not in text and "//cdn" not in text
    assert '<html lang="en">' in text


def test_two_apps_live_side_by_side(tmp_path: Path) -> None:
    apps = [create_app([], store=frames.store(tmp_path, [made])) for made in (frames.gemm(), frames.bare())]
    answers = [app.server.test_client().get(GEMM).status_code for app in apps]
    assert answers == [200, 404]


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
        (first, how), *tables = found[1:] if path == "/" else found
        assert not how and [when for _, when in tables] == ([" defer"] if path == "/" else [])
        assert re.search('(script src|link id="tables" href)="[^"]*/dash_ag_grid', text)
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
