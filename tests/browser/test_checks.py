"""The Checks page in a real browser: choosing, the address, the search, new checks, and the
keyboard."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from ncubble.analysis.gate.check import check
from ncubble.analysis.gate.history import append, kept
from ncubble.analysis.gate.verdicts import CheckOptions
from ncubble.dashboard.pages.addresses import ChecksAddress
from ncubble.dashboard.ui.components import near
from tests.helpers import dashboard_frames as frames
from tests.helpers.gate_frames import STEADY_CYCLES, gemm, groups, recorded, report

from .conftest import SCREENSHOTS, serving

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
ROWS = "#checks-grid .ag-center-cols-container .ag-row"
WHEN = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
KEY = "0123456789abcdef"


def add(folder: Path, day: int, tensor: float, name: str = "") -> None:
    """One check of two kernels, the first of which has this utilization."""
    values = [tensor + 0.01 * i for i in range(5)]
    git = {"git": {"sha": f"{day:040x}", "dirty": False}}
    found = [report(values, STEADY_CYCLES, key=KEY, manifest=git), report(kernel=gemm(4), key="b" * 16)]
    if name:
        found.append(report(kernel=gemm(5) | {"name": name}, key="c" * 16))
    result = check(groups(*found), recorded(report(), report(kernel=gemm(4))), CheckOptions())
    append(folder, kept(result, ["runs/new"], checked=WHEN + timedelta(days=day)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("checks")
    for day, tensor in enumerate((43.0, 43.02, 42.98, 40.0)):
        add(made, day, tensor, frames.HOSTILE if day == 3 else "")
    return made


@pytest.fixture(scope="module")
def dashboard(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = frames.store(tmp_path_factory.mktemp("reports"))
    store.checks = folder
    with serving(store) as url:
        yield url


def test_a_row_leads_to_its_figure_and_the_address_follows(dashboard: str, open_page: Open) -> None:
    page = open_page(f"{dashboard}/checks")
    expect(page.locator(ROWS)).to_have_count(3)
    expect(page.locator(ROWS).first).to_contain_text("regressed")
    expect(page.locator(".page-head .sentence")).to_contain_text("1 of 3 kernels failed, tensor_core_gemm")
    expect(page.locator("#checks-detail .sentence")).to_contain_text("Regressed")  # of the first row
    page.locator(ROWS).first.locator("[col-id='verdict']").click()
    expect(page.locator("#checks-detail .sentence")).to_contain_text(
        "Regressed at the last check, 2026-11-04 12:00 UTC"
    )
    expect(page.locator("#checks-detail .js-plotly-plot .annotation-text").first).to_contain_text("baseline 43.00 %")
    assert "kernel=tensor-core-gemm-stages-3" in page.url and "gpu=nvidia-h200" in page.url
    page.locator("#checks-metric label", has_text="elapsed SM cycles").click()
    expect(page.locator("#checks-detail .sentence")).to_contain_text("elapsed SM cycles")
    page.locator("#checks-axis label", has_text="in order").click()
    expect(page.locator("#checks-detail .xtitle")).to_have_text("checks in order")
    assert "metric=cycles" in page.url and "axis=order" in page.url
    page.reload()
    expect(page.locator("#checks-detail .xtitle")).to_have_text("checks in order")
    expect(page.locator("#checks-detail .sentence")).to_contain_text("elapsed SM cycles")
    expect(page.locator(f"{ROWS}.ag-row-selected")).to_contain_text("stages=3")
    page.locator(".checks-runs a").first.click()
    expect(page).to_have_url(f"{dashboard}/kernel/{KEY}/0")


def test_the_search_filters_stays_in_the_address_and_is_reset(dashboard: str, open_page: Open) -> None:
    page = open_page(f"{dashboard}/checks")
    expect(page.locator(ROWS)).to_have_count(3)
    page.locator("h1").click()
    page.keyboard.press("/")
    page.keyboard.type("stages=4")
    expect(page.locator(ROWS)).to_have_count(1)
    expect(page.locator("#checks-count")).to_have_text("1 of 3 shown")
    assert "q=stages" in page.url
    page.reload()
    expect(page.locator(ROWS)).to_have_count(1)
    page.locator("#checks-search").fill("nothing like it")
    expect(page.locator("#checks-count")).to_have_text("Nothing matches: Reset shows all 3")
    page.locator("#checks-reset").click()
    expect(page.locator(ROWS)).to_have_count(3)


def test_a_row_is_chosen_by_keyboard(dashboard: str, open_page: Open) -> None:
    page = open_page(f"{dashboard}/checks")
    first, second = page.locator(ROWS).nth(0), page.locator(ROWS).nth(1)
    first.locator("[col-id='verdict']").click()
    expect(first.locator(".ag-cell-focus")).to_have_count(1)
    expect(page).to_have_url(re.compile("kernel="))
    page.keyboard.press("ArrowDown")
    expect(second.locator(".ag-cell-focus")).to_have_count(1)
    page.keyboard.press("Space")
    expect(page.locator("#checks-detail h2")).not_to_contain_text("stages=3")


def test_a_choice_adds_to_those_that_no_answer_holds_yet(dashboard: str, open_page: Open) -> None:
    page = open_page(f"{dashboard}/checks")
    expect(page.locator(ROWS)).to_have_count(3)
    call = """() => {
      const { choose, metric, axis } = window.dash_clientside.ncubble_checks;
      choose([{ id: "first/gpu" }]);
      metric("cycles");
      choose([{ id: "second/gpu" }]);
      return axis("order");
    }"""
    assert ChecksAddress.parse(page.evaluate(call)) == ChecksAddress("second", "gpu", "cycles", even=True)


def test_hostile_names_are_text(dashboard: str, open_page: Open) -> None:
    page = open_page(f"{dashboard}/checks?q=img")
    row = page.locator(ROWS).first
    expect(row).to_contain_text("<img src=x")
    row.locator("[col-id='verdict']").click()
    expect(page.locator("#checks-detail h2")).to_contain_text("<img src=x")
    assert page.locator("img").count() == 0 and "owned" not in page.title()


def test_the_first_check_and_the_next_appear_by_themselves(
    tmp_path: Path, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ncubble.dashboard.pages.checks.layout.POLL_MS", 300)
    store = frames.store(tmp_path)
    store.checks = tmp_path / "checks"
    with serving(store) as url:
        page = open_page(f"{url}/checks")
        expect(page.locator(".checks-empty")).to_contain_text("ncubble baseline")
        expect(page.locator(".checks-empty")).to_contain_text(near(tmp_path / "checks"))
        add(tmp_path / "checks", 0, 43.0)
        expect(page.locator(ROWS)).to_have_count(2)
        page.locator(f"{ROWS}:has-text('stages=3') [col-id='verdict']").click()
        expect(page.locator("#checks-detail .sentence")).to_contain_text("Passed")
        add(tmp_path / "checks", 1, 40.0)
        expect(page.locator("#checks-detail .sentence")).to_contain_text("Regressed")
        page.close()  # before its server: it asks every 300 ms


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1920, "dark")])
def test_the_page_fits_the_window(dashboard: str, open_page: Open, width: int, scheme: str) -> None:
    page = open_page(f"{dashboard}/checks", viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.locator(ROWS).first.locator("[col-id='verdict']").click()
    expect(page.locator("#checks-detail .js-plotly-plot")).to_have_count(1)
    assert page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"checks-{width}-{scheme}.png", full_page=True)
