"""The Compare page in a real browser: from the table, by address, back, and in the dark."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.helpers import dashboard_frames as frames

from .conftest import for_the_eye, photograph

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
ROWS = ".ag-center-cols-container .ag-row"
PAIR = "/compare?launch=0123456789abcdef/0&launch=0123456789abcdef/1"


def choose(page: Page, *indexes: int) -> None:
    """Tick the rows at these places of the table."""
    for index in indexes:
        page.locator(f".ag-row[row-index='{index}'] .ag-checkbox-input").first.check()


def test_two_selected_rows_are_compared_and_back_returns_with_them(served: str, open_page: Open) -> None:
    page = open_page(served)
    expect(page.locator(ROWS)).to_have_count(8)
    link = page.locator("#compare-selected")
    expect(link).to_be_hidden()
    choose(page, 0)
    expect(link).to_be_hidden()
    choose(page, 1)
    expect(link).to_have_text("Compare 2 launches")
    expect(page).to_have_url(f"{served}/")
    link.click()
    expect(page.locator("h1")).to_have_text("Compare")
    assert "/compare?launch=" in page.url
    expect(page.locator(".js-plotly-plot")).to_have_count(4)
    page.go_back()
    expect(page.locator("h1")).to_have_text("Launches")
    expect(link).to_have_text("Compare 2 launches")
    page.locator("h1").click()
    page.keyboard.press("c")
    expect(page.locator("h1")).to_have_text("Compare")


def test_an_address_opens_its_comparison_whose_links_change_it(served: str, open_page: Open) -> None:
    page = open_page(served + PAIR)
    sentence, less = page.locator(".sentence"), "B takes 310.0 µs, 22.5 % less than A"
    expect(sentence).to_contain_text(less)
    page.reload()
    expect(sentence).to_contain_text(less)
    expect(page).to_have_title("Compare · ncubble")
    expect(page.locator(".js-plotly-plot")).to_have_count(4)
    page.get_by_role("link", name="use as A").click()
    expect(sentence).to_contain_text("B takes 400.1 µs, 29.1 % more than A")
    page.go_back()
    expect(sentence).to_contain_text(less)
    along = page.locator("section.card:has(h2:text-is('Timelines')) .xtitle")
    expect(along).to_contain_text("µs")
    page.get_by_role("link", name="in % of each launch").click()
    expect(along).to_contain_text("% of each launch")
    assert page.url.endswith("&axis=relative")
    page.locator(".sides a.row-link").nth(1).click()
    expect(page).to_have_url(f"{served}/kernel/0123456789abcdef/1")


def test_markdown_is_copied(served: str, open_page: Open) -> None:
    page = open_page(served + PAIR, permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy as Markdown").click()
    expect(page.locator("#copied")).to_have_text("copied")
    copied = page.evaluate("() => navigator.clipboard.readText()")
    assert copied.startswith("<!-- ncubble compare -->") and "B takes 310.0 µs" in copied


def test_hostile_names_are_text(served: str, open_page: Open) -> None:
    page = open_page(f"{served}/compare?launch=00000000deadbeef/0&launch=0123456789abcdef/0")
    expect(page.locator(".sides")).to_contain_text("<img src=x onerror=")
    expect(page.locator(".js-plotly-plot")).to_have_count(4)
    assert page.locator("img").count() == 0
    assert "owned" not in page.title().replace(frames.HOSTILE, "")


def test_sides_are_chosen_by_search_added_swapped_and_removed(served: str, open_page: Open) -> None:
    page = open_page(f"{served}/compare")
    links = page.locator("#compare-found a")
    expect(links).to_have_count(8)
    page.locator("h1").click()
    page.keyboard.press("/")
    expect(page.locator("#compare-find")).to_be_focused()
    page.locator("#compare-find").fill("wmma_gemm")
    expect(page.locator("#compare-count")).to_have_text("2 configurations")
    page.keyboard.press("ArrowDown")
    expect(links.first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("h2").first).to_have_text("Choose a launch to compare with it")
    links.first.click()
    expect(page.locator(".sides li")).to_have_count(2)
    before = page.locator(".sides a.row-link").all_inner_texts()
    page.get_by_role("link", name="Swap A and B").click()
    expect(page.locator(".sides a.row-link").first).to_have_text(before[1])
    page.get_by_text("Add another launch").click()
    page.locator("#compare-find").fill("copy_kernel")
    expect(links).to_have_count(1)
    links.first.click()
    expect(page.locator(".sides li")).to_have_count(3)
    page.get_by_role("link", name="remove").first.click()
    expect(page.locator(".sides li")).to_have_count(2)


def test_the_page_is_not_wider_than_the_window(served: str, open_page: Open) -> None:
    page = open_page(f"{served}{PAIR}&launch=00000000deadbeef/0&launch=fedcba9876543210/0")
    expect(page.locator(".js-plotly-plot")).to_have_count(4)
    assert page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


@for_the_eye
def test_the_page_is_photographed_for_the_eye(served: str, open_page: Open) -> None:
    page = open_page(served + PAIR)
    expect(page.locator(".js-plotly-plot")).to_have_count(4)
    photograph(page, "compare")
