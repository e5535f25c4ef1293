"""The page of one launch, themes and addresses, in a real browser."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dashboard_frames as frames
import pytest
from playwright.sync_api import Page, expect

from ncubble.dashboard.data import ReportStore

from .conftest import SCREENSHOTS, eventually, serving

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
GEMM = "/kernel/0123456789abcdef/0"
FIGURE_TEXT = "() => document.querySelector('.js-plotly-plot')?._fullLayout?.font.color"
BAR_WIDTHS = """() => [...document.querySelectorAll('.js-plotly-plot')[0].querySelectorAll('.barlayer .point path')]
    .map((segment) => segment.getBBox().width)"""


def test_an_address_opens_its_launch_and_survives_a_reload(served: str, open_page: Open) -> None:
    page = open_page(served + GEMM)
    expect(page.locator("h1")).to_contain_text("wmma_gemm<3, 16>")
    page.reload()
    expect(page.locator("h1")).to_contain_text("wmma_gemm<3, 16>")
    expect(page).to_have_title("void wmma_gemm<3, 16>(half const*, half const*, float*) · ncubble")
    expect(page.locator(".js-plotly-plot")).to_have_count(3)
    expect(page.locator(".sentence")).to_contain_text("the cause to remove first is copy cost (narrow copies)")


def test_the_account_is_drawn_to_the_full_width(served: str, open_page: Open) -> None:
    page = open_page(served + GEMM)
    expect(page.locator(".barlayer .point path").first).to_be_visible()
    drawn = page.evaluate(BAR_WIDTHS)
    plot = page.evaluate("() => document.querySelector('.js-plotly-plot')._fullLayout._plots.xy.xaxis._length")
    assert sum(drawn) == pytest.approx(plot, rel=0.01)


def test_bubbles_are_shaded_and_named_on_the_timeline(served: str, open_page: Open) -> None:
    page = open_page(served + GEMM)
    timeline = page.locator(".js-plotly-plot").nth(1)
    expect(timeline.locator(".annotation-text", has_text="ramp 2.4 %")).to_be_visible()
    expect(timeline.locator(".annotation-text", has_text="tail 5.5 %")).to_be_visible()
    assert timeline.locator("path[data-index]").count() == 6


def test_next_and_previous_walk_through_the_report(served: str, open_page: Open) -> None:
    page = open_page(served + GEMM)
    page.get_by_role("link", name="next ›").click()
    expect(page).to_have_url(f"{served}/kernel/0123456789abcdef/1")
    expect(page.locator("h1")).to_have_text("wmma_gemm_deep")
    page.get_by_role("link", name="‹ previous").click()
    expect(page.locator("h1")).to_contain_text("wmma_gemm<3, 16>")
    page.get_by_role("link", name="← All launches").click()
    expect(page).to_have_url(f"{served}/")


def test_what_was_not_collected_says_how_to_collect_it(served: str, open_page: Open) -> None:
    page = open_page(f"{served}/kernel/fedcba9876543210/1")
    for option in ("--set pipeline", "--set timeline", "--set source", "--set full"):
        expect(page.locator("code", has_text=option).first).to_be_visible()
    assert page.locator(".js-plotly-plot").count() == 0


def test_an_unknown_launch_is_not_found(served: str, open_page: Open, request: pytest.FixtureRequest) -> None:
    request.node.expected_errors = ("status of 404",)
    page = open_page(f"{served}/kernel/0123456789abcdef/99")
    expect(page.locator("h1")).to_have_text("Not found")
    page.locator("main").get_by_role("link", name="All launches").click()
    expect(page.locator("h1")).to_have_text("Launches")


def test_a_launch_that_is_still_being_read_appears_by_itself(tmp_path: Path, open_page: Open) -> None:
    gate = threading.Event()

    def opener(paths: Any) -> Any:
        gate.wait(60)
        return [frames.gemm()], []

    with serving(ReportStore([tmp_path / "a.ncu-rep"], opener, frames.judge, frames.account)) as url:
        try:
            page = open_page(url + GEMM)
            expect(page.locator("h1")).to_have_text("Reading reports")
            gate.set()
            expect(page.locator("h1")).to_contain_text("wmma_gemm<3, 16>")
        finally:
            gate.set()


def test_the_theme_follows_the_system_until_one_is_chosen(served: str, open_page: Open) -> None:
    page = open_page(served + GEMM, color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.emulate_media(color_scheme="light")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_the_switch_turns_page_and_figures_and_is_remembered(served: str, open_page: Open) -> None:
    page = open_page(served + GEMM, color_scheme="light")
    expect(page.locator(".js-plotly-plot")).to_have_count(3)
    eventually(page, FIGURE_TEXT, "#1c2733")
    light = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    page.locator("#theme-choice label", has_text="dark").click()
    eventually(page, FIGURE_TEXT, "#e3e8ef")
    dark = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert light == "rgb(243, 245, 248)" and dark == "rgb(15, 21, 29)"
    page.reload()
    eventually(page, FIGURE_TEXT, "#e3e8ef")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 1920])
def test_pages_are_photographed_for_the_eye(served: str, open_page: Open, width: int, scheme: str) -> None:
    """Nothing is asserted about looks: the pictures are for people (tests/browser/screenshots, not committed)."""
    SCREENSHOTS.mkdir(exist_ok=True)
    height = 800 if width == 1280 else 1080
    page = open_page(served, viewport={"width": width, "height": height}, color_scheme=scheme)
    expect(page.locator("#match-count")).to_have_text("8 shown")
    page.wait_for_timeout(300)
    page.screenshot(path=SCREENSHOTS / f"overview-{width}-{scheme}.png", full_page=True)
    page.goto(served + GEMM)
    expect(page.locator(".js-plotly-plot")).to_have_count(3)
    page.wait_for_timeout(300)
    taken = page.screenshot(path=SCREENSHOTS / f"kernel-{width}-{scheme}.png", full_page=True)
    assert len(taken) > 50_000
