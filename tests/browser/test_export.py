"""Exported files in a real browser, opened from disk; pictures from the app and from a file."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Download, Locator, Page, expect

from ncubble.api.display import TITLE_HEIGHT
from ncubble.dashboard.export.page import comparisons_file, launches_file
from ncubble.dashboard.pages.addresses import CompareAddress
from tests.helpers import dashboard_frames as frames

from .conftest import eventually

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
DRAWN = ".js-plotly-plot .main-svg"
TEXT_COLOR = "() => document.querySelector('.js-plotly-plot')?._fullLayout?.font.color"
GEMM = "0123456789abcdef"
MARKUP = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


def png_size(content: bytes) -> tuple[int, int]:
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", content[16:24])


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of all made-up launches, those with hostile names included."""
    folder = tmp_path_factory.mktemp("exported")
    store = frames.store(folder)
    path = folder / "out.html"
    path.write_text(launches_file(store, store.rows()).text)
    return path


def test_a_file_draws_by_itself_and_asks_for_nothing(exported: Path, open_page: Open) -> None:
    asked: list[str] = []
    page = open_page("about:blank", color_scheme="light")
    page.on("request", lambda request: asked.append(request.url))
    page.goto(exported.as_uri())
    expect(page).to_have_title("8 launches · ncubble")
    place = page.locator(f"#launch-{GEMM}-0")
    page.locator(f".export-head a[href='#launch-{GEMM}-0']").click()
    expect(place.locator("h1")).to_be_in_viewport()
    expect(place.locator(DRAWN).first).to_be_visible()
    place.locator(".js-plotly-plot").first.hover(position={"x": 200, "y": 40})
    expect(place.locator(".hovertext").first).to_be_visible()
    before = page.evaluate(TEXT_COLOR)
    page.get_by_text("dark", exact=True).click()
    eventually(page, f"() => ({TEXT_COLOR})() !== {before!r}", True)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 21, 29)"
    saved = save(page, place.get_by_role("figure").first, "SVG")
    assert saved.suggested_filename.endswith("-account.svg") and "gemm" in saved.suggested_filename
    assert "rgb(23, 32, 43)" in saved.path().read_text()
    page.evaluate("location.hash = 'launch-00000000deadbeef-0'")
    hostile = page.locator("#launch-00000000deadbeef-0")
    expect(hostile.locator("h1")).to_contain_text("<img src=x")
    expect(hostile.locator(DRAWN).first).to_be_visible()
    expect(page).to_have_title("8 launches · ncubble")
    assert page.locator("img").count() == 0
    assert [url for url in asked if not url.startswith(("blob:", "data:"))] == [exported.as_uri()]


def test_markup_that_came_through_could_not_run(exported: Path, browser: Browser) -> None:
    text = exported.read_text().replace("</h1>", f"{MARKUP}</h1>", 1)
    path = exported.with_name("broken.html")
    path.write_text(text)
    page = browser.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(path.as_uri())
    expect(page.locator(DRAWN).first).to_be_visible()
    assert page.title() == "8 launches · ncubble"
    assert any("Content Security Policy" in line for line in refused)
    page.close()


def test_a_comparison_in_a_file_draws_and_copies(tmp_path: Path, open_page: Open) -> None:
    store = frames.store(tmp_path)
    path = tmp_path / "out.html"
    path.write_text(comparisons_file(store, [("gemm", CompareAddress((f"{GEMM}/0", f"{GEMM}/1")))]).text)
    page = open_page(path.as_uri(), color_scheme="dark")
    expect(page.locator(".sentence")).to_contain_text("B takes 310.0 µs, 22.5 % less than A")
    expect(page.locator(DRAWN).first).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 21, 29)"
    page.get_by_text("Show text").click()
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()


def save(page: Page, figure: Locator, kind: str) -> Download:
    """Save a figure by keyboard: nothing has to lie still or under the pointer."""
    page.set_default_timeout(60_000)  # a page that is still drawing its figures on a busy machine answers late
    expect(figure.locator(".main-svg" if page.url.startswith("http") else ".plot").first).to_be_attached(timeout=60_000)
    figure.evaluate("element => element.scrollIntoView()")
    expect(figure.locator(".main-svg").first).to_be_visible()
    figure.get_by_role("button", name=f" as {kind}").focus()
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    return download.value


def test_a_figure_of_the_app_is_saved_as_png_and_svg(served: str, open_page: Open) -> None:
    page = open_page(f"{served}/kernel/{GEMM}/0", color_scheme="dark")
    figure = page.get_by_role("figure").filter(has=page.locator("[data-figure=timeline]"))
    saved = {kind: save(page, figure, kind) for kind in ("PNG", "SVG")}
    size = figure.locator(".js-plotly-plot").bounding_box()
    names = {kind: one.suggested_filename for kind, one in saved.items()}
    assert re.fullmatch(r"ncubble-[\w.-]*wmma_gemm[\w.-]*-timeline\.png", names["PNG"])
    assert names["SVG"] == names["PNG"].replace(".png", ".svg")
    assert size is not None
    wanted = (2 * round(size["width"]), 2 * (round(size["height"]) + TITLE_HEIGHT))
    found = png_size(saved["PNG"].path().read_bytes())
    assert all(abs(one - other) <= 2 for one, other in zip(found, wanted, strict=True))
    drawn = saved["SVG"].path().read_text()
    assert drawn.startswith("<svg") and "rgb(23, 32, 43)" in drawn and "timeline</text>" in drawn
