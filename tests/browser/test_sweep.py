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
    expect(page.locator(FIGURES)).to_have_count(5)
    predicted = page.locator("section.card:has(h2:text-is('Predicted and measured'))")
    expect(predicted).to_contain_text("Predicted from stages 2")
    expect(predicted).to_contain_text("a different loop")
    predicted.get_by_role("link", name="stages 3").click()
    expect(predicted).to_contain_text("Predicted from stages 3")
    page.reload()
    expect(predicted).to_contain_text("Predicted from stages 3")
    page.get_by_role("link", name="cycles relative to the best").click()
    expect(page.locator("section.card:has(h2:text-is('Cycles'))")).to_contain_text("cycles relative to the best")
    assert "y=cycles-best" in page.url and "from=" in page.url


def test_points_and_numbers_lead_to_launches_and_ends_to_their_comparison(swept: str, open_page: Open) -> None:
    page = open_page(swept + STAGES)
    expect(page.locator(FIGURES)).to_have_count(5)
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
    expect(page.locator(FIGURES)).to_have_count(5)
    eventually(page, TEXT_COLOR, "#e3e8ef")
    assert page.locator("img").count() == 0
    assert page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


@pytest.fixture(scope="module")
def varied() -> Iterator[str]:
    """The dashboard of a recorded kernel that was launched with three parameters varied."""
    store = ReportStore([ROOT.parent / "h200-repeats" / "tensor_core_gemm"])
    assert store.start().wait(120)
    with serving(store) as url:
        yield url


PARALLEL = "#sweep-parallel .js-plotly-plot"
AXIS = """at => {
  const plot = document.querySelector('#sweep-parallel .js-plotly-plot'), box = plot.getBoundingClientRect();
  const {xaxis: x, yaxis: y} = plot._fullLayout;
  return [box.left + x._offset + x.l2p(at), box.top + y._offset + y.l2p(1.03), box.top + y._offset + y.l2p(0.5)];
}"""


def test_ranges_on_parallel_axes_are_kept_in_the_address_and_in_the_table(varied: str, open_page: Open) -> None:
    page = open_page(f"{varied}/sweep?kernel=tensor_core_gemm&x=stages", viewport={"width": 1280, "height": 500})
    expect(page.locator("section.card:has(#sweep-parallel)")).to_contain_text("All parameters at once")
    assert page.locator(PARALLEL).count() == 0  # nothing is drawn below the window
    page.locator("#sweep-parallel").scroll_into_view_if_needed()
    expect(page.locator(f"{PARALLEL} .scatterlayer .trace").first).to_be_attached()
    page.locator(PARALLEL).scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    across, top, middle = page.evaluate(AXIS, 0)
    page.mouse.move(across - 12, top)
    page.mouse.down()
    page.mouse.move(across + 12, middle, steps=6)
    page.mouse.up()
    expect(page.locator("#sweep-marked")).to_contain_text("3 of 8 configurations")
    assert "range=stages" in page.url
    page.reload()
    page.locator("#sweep-parallel").scroll_into_view_if_needed()
    expect(page.locator("#sweep-marked")).to_contain_text("3 of 8 configurations")
    page.locator("#sweep-lines summary").click()
    expect(page.locator("#sweep-lines tbody tr:visible")).to_have_count(3)
    page.get_by_role("button", name="Clear ranges").click()
    expect(page.locator("#sweep-lines tbody tr:visible")).to_have_count(8)
    assert "range=" not in page.url
    page.locator("#sweep-lines tbody a").first.click()
    page.wait_for_url("**/kernel/*/*")


def test_parallel_axes_fit_a_narrow_window_in_the_dark(varied: str, open_page: Open) -> None:
    narrow = {"width": 390, "height": 844}
    address = f"{varied}/sweep?kernel=tensor_core_gemm&x=stages&range=vec=0.5~1.5"
    page = open_page(address, viewport=narrow, color_scheme="dark")
    page.locator("#sweep-parallel").scroll_into_view_if_needed()
    expect(page.locator("#sweep-marked")).to_contain_text("7 of 8 configurations")
    assert page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert page.evaluate("() => document.querySelector('.parallel-scroll').scrollWidth") > 600


@for_the_eye
def test_the_page_is_photographed_for_the_eye(swept: str, open_page: Open) -> None:
    page = open_page(swept + STAGES)
    expect(page.locator(FIGURES)).to_have_count(5)
    photograph(page, "sweep")
