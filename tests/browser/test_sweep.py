"""The Sweep page in a real browser: recorded sweeps, found, drawn, predicted and searched."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from ncubble.dashboard.data.store import ReportStore
from ncubble.recordings import ROOT

from .conftest import eventually, for_the_eye, photograph, serving

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
RUNS = (
    "triton_gemm/stages1",
    "triton_gemm/stages2",
    "triton_gemm/stages3",
    "cluster_dsmem/none",
    "cluster_dsmem/multicast",
)
STAGES = "/sweep?kernel=triton_gemm&x=stages"
FIGURES = ".js-plotly-plot"
TEXT_COLOR = "() => document.querySelector('.js-plotly-plot')?._fullLayout?.font.color"


@pytest.fixture(scope="module")
def swept() -> Iterator[str]:
    """The dashboard of three depths of one recorded kernel and two variants of another."""
    store = ReportStore([ROOT / run for run in RUNS])
    assert store.start().wait(120)
    with serving(store) as url:
        yield url


PLACEHOLDERS = """() => [...document.querySelectorAll('.search')].filter((one) => one.offsetParent).map((field) => {
  const pen = document.createElement('canvas').getContext('2d'), style = getComputedStyle(field);
  pen.font = style.font;
  const room = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  return room - pen.measureText(field.placeholder).width;
})"""


@pytest.mark.parametrize("path", ["/", "/sweep", "/compare"])
def test_a_phone_shows_what_can_be_searched(swept: str, open_page: Open, path: str) -> None:
    page = open_page(f"{swept}{path}", viewport={"width": 390, "height": 844})
    expect(page.locator(".search:visible").first).to_be_visible()
    assert min(page.evaluate(PLACEHOLDERS)) >= 0.0
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_sweeps_are_listed_searched_and_opened(swept: str, open_page: Open) -> None:
    page = open_page(f"{swept}/sweep")
    rows = page.locator("#sweep-list tbody tr")
    expect(rows).to_have_count(2)
    page.locator("h1").click()
    page.keyboard.press("/")
    page.keyboard.type("stages")
    expect(page.locator("#sweep-count")).to_have_text("1 of 2 sweeps")
    expect(page.locator("#sweep-list tbody tr:visible")).to_have_count(1)
    page.keyboard.type(" nothing")
    expect(page.locator("#sweep-count")).to_contain_text("clear the search")
    page.locator("#sweep-search").fill("")
    page.get_by_role("link", name="triton_gemm").click()
    expect(page.locator("h1")).to_have_text("Sweep of stages")
    expect(page.locator("#menu [aria-current]")).to_have_text("Sweep")


def test_a_sweep_shows_figures_numbers_and_predictions_and_survives_a_reload(swept: str, open_page: Open) -> None:
    page = open_page(swept + STAGES)
    expect(page.locator(FIGURES)).to_have_count(4)
    predicted = page.locator("section.card:has(h2:text-is('Predicted and measured'))")
    expect(predicted).to_contain_text("Predicted from stages 2")
    expect(predicted).to_contain_text("a different loop")
    predicted.get_by_role("link", name="stages 3").click()
    expect(predicted).to_contain_text("Predicted from stages 3")
    page.reload()
    expect(predicted).to_contain_text("Predicted from stages 3")
    page.get_by_role("link", name="cycles", exact=True).click()
    expect(page.locator("section.card:has(h2:text-is('Cycles'))")).to_be_visible()
    assert "y=cycles" in page.url and "from=" in page.url


def test_points_and_numbers_lead_to_launches_and_ends_to_their_comparison(swept: str, open_page: Open) -> None:
    page = open_page(swept + STAGES)
    expect(page.locator(FIGURES)).to_have_count(4)
    point = page.locator("[role=figure]:has(.js-plotly-plot)").first.locator(".scatterlayer .point").nth(1)
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_url("**/kernel/*/0")
    page.go_back()
    page.get_by_role("link", name="compare the two").click()
    expect(page.locator(".sentence")).to_contain_text("less than A")


def test_an_unknown_sweep_is_named_and_the_page_fits_its_window_in_the_dark(swept: str, open_page: Open) -> None:
    page = open_page(f"{swept}/sweep?kernel=%3Cimg%20src=x%3E&x=stages", color_scheme="dark")
    expect(page.locator(".note-error")).to_contain_text("No such sweep")
    page.goto(swept + STAGES)
    expect(page.locator(FIGURES)).to_have_count(4)
    eventually(page, TEXT_COLOR, "#e3e8ef")
    assert page.locator("img").count() == 0
    assert page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


@for_the_eye
def test_the_page_is_photographed_for_the_eye(swept: str, open_page: Open) -> None:
    page = open_page(swept + STAGES)
    expect(page.locator(FIGURES)).to_have_count(4)
    photograph(page, "sweep")
