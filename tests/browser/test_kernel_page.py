"""The page of one launch, themes and addresses, in a real browser."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from ncubble.dashboard.data.store import ReportStore
from tests.helpers import dashboard_frames as frames
from tests.helpers.ablations import ABLATED

from .conftest import eventually, for_the_eye, photograph, serving

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
GEMM = "/kernel/0123456789abcdef/0"
FIGURE_TEXT = "() => document.querySelector('.js-plotly-plot')?._fullLayout?.font.color"
BAR_EDGES = """() => [...document.querySelectorAll('.js-plotly-plot')[0].querySelectorAll('.barlayer .point path')]
    .map((bar) => bar.getBBox()).map((box) => [box.y, box.y + box.height])"""
RANGE = """() => document.querySelectorAll('.js-plotly-plot')[1]._fullLayout.xaxis.range.map(Math.round)"""
TRACK = "#timeline-range table >> nth=0"


def test_an_address_opens_the_whole_page_of_its_launch(served: str, open_page: Open) -> None:
    page = open_page(served + GEMM)
    expect(page).to_have_title("void wmma_gemm<3, 16>(half const*, half const*, float*) · ncubble")
    expect(page.locator(".sentence")).to_contain_text("the loss to look at first is copy cost")
    # Steps of the account fall from 100 % to work.
    expect(page.locator(".barlayer .point path").first).to_be_visible()
    edges = page.evaluate(BAR_EDGES)
    whole, bubbles, work = edges[0], edges[1:-1], edges[-1]
    assert bubbles[0][0] == pytest.approx(whole[0], abs=1)
    for above, below in pairwise(bubbles):
        assert below[0] == pytest.approx(above[1], abs=1)
    assert work[0] == pytest.approx(bubbles[-1][1], abs=1) and work[1] == pytest.approx(whole[1], abs=1)
    page.locator("#account summary", has_text="View as table").click()
    expect(page.locator("#account table")).to_contain_text("21.00 %")
    # What comes late takes the places that were kept for it.
    expect(page.locator(".js-plotly-plot")).to_have_count(4)
    expect(page.locator(".kernel-page .waiting")).to_have_count(0)
    for part in ("#kernel-rules", "#kernel-limits", "#kernel-source", "#kernel-provenance", "#kernel-classes"):
        expect(page.locator(f"{part} h2").first).to_be_visible()
    expect(page.locator("#kernel-metrics-count")).to_contain_text("of this launch")
    # Bubbles are shaded and named; a narrow window leaves out names that would lie on each other.
    names = page.locator(".js-plotly-plot").nth(1).locator(".annotation-text")
    for name in ("ramp 2.4 %", "tail 5.5 %", "copy cost", "wave gap"):
        expect(names.filter(has_text=name).first).to_be_visible()
    assert page.locator(".js-plotly-plot").nth(1).locator("path[data-index]").count() == 6
    wide = names.count()
    page.set_viewport_size({"width": 390, "height": 900})
    page.reload()
    expect(page.locator("h1")).to_contain_text("wmma_gemm<3, 16>")
    expect(names.filter(has_text="tail 5.5 %")).to_be_visible()
    assert names.count() < wide


def test_a_dragged_range_is_measured_kept_in_the_address_and_linked(served: str, open_page: Open) -> None:
    page = open_page(served + GEMM)
    expect(page.locator(TRACK)).to_contain_text("tensor pipe")
    whole = page.locator(TRACK).inner_text()
    box = page.locator(".js-plotly-plot").nth(1).locator(".nsewdrag").first.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.25 * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], y, steps=4)
    page.mouse.up()
    expect(page.locator(TRACK)).not_to_have_text(whole)
    low, high = page.evaluate(RANGE)
    assert 85 <= low <= 115 and 185 <= high <= 215
    address = re.search(r"range=([\d.]+),([\d.]+)", page.url)
    assert address and float(address[1]) == pytest.approx(low, abs=1)
    expect(page.locator("#timeline-from")).to_have_value(re.compile(rf"^{address[1]}"))
    page.reload()
    expect(page.locator(".js-plotly-plot")).to_have_count(4)
    eventually(page, RANGE, [low, high])
    expect(page.locator(TRACK)).not_to_have_text(whole)  # what the reload asked for has come
    expect(page.locator("#timeline-range table")).to_have_count(2)
    page.get_by_role("button", name="Whole launch").click()
    eventually(page, "() => location.search", "")
    expect(page.locator("#timeline-range table")).to_have_count(1)  # of the whole launch, the account has idle time


def test_a_typed_range_tells_the_numbers_of_its_samples(served: str, open_page: Open) -> None:
    page = open_page(f"{served}{GEMM}?range=99.5,106")
    expect(page.locator(TRACK)).to_contain_text("tensor pipe\t18.0\t18.0\t18.0\t%", use_inner_text=True)
    bubbles = page.locator("#timeline-range table").nth(1)
    expect(bubbles).to_contain_text("wave gap\t34.0 %\t2.210 µs", use_inner_text=True)
    page.locator("#timeline-to").fill("50")
    page.locator("#timeline-from").fill("20")
    page.keyboard.press("Enter")
    eventually(page, RANGE, [20, 50])
    expect(bubbles).not_to_contain_text("wave gap")
    page.locator("#timeline-samples-open").click()
    rows = page.locator("#timeline-samples tbody tr")
    expect(rows).to_have_count(20)
    expect(rows.first).to_contain_text("21.00")


def test_metrics_come_when_they_are_asked_for_and_are_searched(served: str, open_page: Open) -> None:
    page = open_page(served + GEMM)
    expect(page.locator("#kernel-what-if .note")).to_contain_text("Any other setting is unknown")
    assert page.locator("#metrics-grid").count() == 0
    page.locator("#metrics-open").press("Enter")
    rows = page.locator("#metrics-grid .ag-center-cols-container .ag-row")
    expect(rows.first).to_be_visible()
    assert page.url.endswith("?show=metrics")
    page.locator("#metric-search").fill("threads of a CTA")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("launch__block_size")
    page.reload()
    expect(rows).to_have_count(1)


def test_sections_and_the_other_launches_of_the_report_are_reached(served: str, open_page: Open) -> None:
    page = open_page(served + GEMM)
    expect(page.locator(".js-plotly-plot")).to_have_count(4)
    page.locator(".sections button", has_text="Limits").press("Enter")
    expect(page.locator("#limits")).to_be_focused()
    expect(page.locator("#limits h2")).to_be_in_viewport()
    page.keyboard.press("]")
    expect(page).to_have_url(f"{served}/kernel/0123456789abcdef/1")
    expect(page.locator("#show-source")).to_have_attribute("href", "/source/0123456789abcdef/1")
    page.get_by_role("link", name="‹ previous").click()
    expect(page.locator("h1")).to_contain_text("wmma_gemm<3, 16>")
    page.get_by_role("link", name="next ›").click()
    expect(page.locator("h1")).to_have_text("wmma_gemm_deep")
    page.get_by_role("link", name="← All launches").click()
    expect(page).to_have_url(f"{served}/")


def test_a_launch_that_is_still_being_read_appears_by_itself(tmp_path: Path, open_page: Open) -> None:
    gate = threading.Event()

    def opener(paths: Any) -> Any:
        gate.wait(60)
        return [frames.gemm()], []

    with serving(ReportStore([tmp_path / "a.ncu-rep"], opener, frames.judge)) as url:
        try:
            page = open_page(url + GEMM)
            expect(page.locator("h1")).to_have_text("Reading reports")
            gate.set()
            expect(page.locator("h1")).to_contain_text("wmma_gemm<3, 16>")
            expect(page.locator(".kernel-page .waiting")).to_have_count(0)
            page.close()  # before its server: parts of it may still be on their way
        finally:
            gate.set()


def test_the_theme_follows_the_system_until_one_is_chosen(served: str, open_page: Open) -> None:
    page = open_page(served + GEMM, color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.emulate_media(color_scheme="light")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_a_theme_that_changes_before_the_page_is_laid_out_holds(served: str, open_page: Open) -> None:
    page = open_page(served + "/assets/ncubble.css", color_scheme="dark")
    held: list[Route] = []
    page.route("**/_dash-layout?*", lambda route: held.append(route))
    page.goto(served + GEMM)
    eventually(page, "() => !!window.dash_clientside?.set_props", True)
    while not held:
        page.wait_for_timeout(20)
    expect(page.locator("#theme-choice")).to_have_count(0)
    page.emulate_media(color_scheme="light")
    page.wait_for_timeout(200)
    held[0].continue_()
    expect(page.locator("#theme-choice")).to_have_count(1)
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_the_switch_turns_page_and_figures_and_is_remembered(served: str, open_page: Open) -> None:
    page = open_page(served + GEMM, color_scheme="light")
    expect(page.locator(".js-plotly-plot")).to_have_count(4)
    eventually(page, FIGURE_TEXT, "#1c2733")
    light = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    page.locator("#theme-choice label", has_text="dark").click()
    eventually(page, FIGURE_TEXT, "#e3e8ef")
    dark = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert light == "rgb(243, 245, 248)" and dark == "rgb(15, 21, 29)"
    page.reload()
    eventually(page, FIGURE_TEXT, "#e3e8ef")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


@pytest.fixture(scope="module")
def ablated() -> Iterator[str]:
    """The dashboard of a recorded run that was ablated."""
    store = ReportStore([ABLATED]).start()
    assert store.wait(60)
    with serving(store) as url:
        yield f"{url}/kernel/{store.rows()[0]['id']}"


def test_measured_shares_stand_on_the_page_of_an_ablated_launch_and_in_the_table(ablated: str, open_page: Open) -> None:
    page = open_page(ablated)
    page.get_by_role("button", name="Measured").click()
    expect(page.locator("#measured tr", has_text="data wait").first).to_contain_text("28.030.30.2")
    page.get_by_role("link", name="← All launches").click()
    expect(page.locator(".cause-name")).to_have_text("data wait (measured) · stages")
    expect(page.locator(".account-cell")).to_have_attribute(
        "title", re.compile("^measured by ablation\n.*remainder 0.9 %$", re.S)
    )


@for_the_eye
def test_measured_shares_are_photographed_for_the_eye(ablated: str, open_page: Open) -> None:
    page = open_page(ablated)
    expect(page.locator(".js-plotly-plot")).to_have_count(4)
    page.locator("#account summary").click()
    photograph(page, "measured")


@for_the_eye
def test_pages_are_photographed_for_the_eye(served: str, open_page: Open) -> None:
    page = open_page(served)
    expect(page.locator("#match-count")).to_contain_text(", 8 launches")
    expect(page.locator(".js-plotly-plot")).to_have_count(1)
    photograph(page, "overview")
    page.goto(served + GEMM)
    expect(page.locator(".js-plotly-plot")).to_have_count(4)
    photograph(page, "kernel")
