"""The table of launches and its scatter, in a real browser."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dashboard_frames as frames
import pytest
from playwright.sync_api import Page, expect

from ncubble.dashboard.data import ReportStore

from .conftest import eventually, serving

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
ROWS = ".ag-center-cols-container .ag-row"
POINTS = "() => document.querySelector('.js-plotly-plot')?.data?.reduce((sum, trace) => sum + trace.x.length, 0)"


def first_cells(page: Page, column: str) -> list[str]:
    return page.locator(f"{ROWS} [col-id='{column}']").all_inner_texts()


def test_every_launch_has_a_row_ordered_by_recoverable_idle_time(served: str, open_page: Open) -> None:
    page = open_page(served)
    expect(page.locator("#match-count")).to_have_text("8 shown")
    expect(page.locator(ROWS)).to_have_count(8)
    first = page.locator(f"{ROWS}[row-index='0']")
    expect(first).to_contain_text("wmma_gemm<3, 16>")
    expect(first).to_contain_text("228 µs")
    expect(page.locator(f"{ROWS}[row-index='7']")).to_contain_text("unknown_kernel")


def test_values_that_were_not_collected_say_so(served: str, open_page: Open) -> None:
    page = open_page(served)
    row = page.locator(ROWS, has_text="unknown_kernel")
    for column in ("duration_ns", "busy", "tensor", "dram", "account", "recoverable_ns"):
        expect(row.locator(f"[col-id='{column}']")).to_have_text("not collected")


def test_the_damaged_file_is_named_with_its_reason(served: str, open_page: Open) -> None:
    problems = open_page(served).locator("#overview-problems")
    expect(problems).to_contain_text("damaged.ncu-rep")
    expect(problems).to_contain_text("file ends inside block 3")


def test_the_search_narrows_table_and_scatter_and_reset_widens_them(served: str, open_page: Open) -> None:
    page = open_page(served)
    expect(page.locator("#match-count")).to_have_text("8 shown")
    eventually(page, POINTS, 7)
    page.keyboard.press("/")
    page.keyboard.type("wmma")
    expect(page.locator("#match-count")).to_have_text("2 of 8 shown")
    eventually(page, POINTS, 2)
    page.get_by_role("button", name="Reset filters").click()
    expect(page.locator("#match-count")).to_have_text("8 shown")
    expect(page.locator("#search")).to_have_value("")
    eventually(page, POINTS, 7)


def test_a_search_that_matches_nothing_says_so(served: str, open_page: Open) -> None:
    page = open_page(served)
    page.locator("#search").fill("no such kernel")
    expect(page.locator("#match-count")).to_have_text("0 of 8 shown")
    expect(page.locator(".ag-overlay")).to_be_visible()


def test_a_column_sorts_with_missing_values_last_in_both_directions(served: str, open_page: Open) -> None:
    page = open_page(served)
    expect(page.locator(ROWS)).to_have_count(8)
    header = page.locator(".ag-header-cell[col-id='tensor'] .ag-header-cell-text")
    header.click()
    expect(page.locator(f"{ROWS}[row-index='0'] [col-id='tensor']")).to_have_text("96.9")
    expect(page.locator(f"{ROWS}[row-index='7'] [col-id='tensor']")).to_have_text("not collected")
    header.click()
    expect(page.locator(f"{ROWS}[row-index='0'] [col-id='tensor']")).to_have_text("0.0")
    expect(page.locator(f"{ROWS}[row-index='7'] [col-id='tensor']")).to_have_text("not collected")


def test_a_column_filter_narrows_the_table(served: str, open_page: Open) -> None:
    page = open_page(served)
    cell = page.locator(".ag-header-cell[col-id='cause']")
    cell.hover()
    cell.locator(".ag-header-cell-filter-button").click()
    page.locator(".ag-filter input[type='text']").first.fill("memory")
    expect(page.locator("#match-count")).to_have_text("1 of 8 shown")


def test_a_click_on_a_row_opens_its_page_and_back_returns(served: str, open_page: Open) -> None:
    page = open_page(served)
    page.locator(f"{ROWS}[row-index='0'] [col-id='duration_ns']").click()
    expect(page).to_have_url(f"{served}/kernel/0123456789abcdef/0")
    expect(page.locator("h1")).to_contain_text("wmma_gemm<3, 16>")
    page.go_back()
    expect(page).to_have_url(f"{served}/")
    expect(page.locator(ROWS)).to_have_count(8)
    page.locator(f"{ROWS}[row-index='0'] [col-id='name']").click()
    expect(page).to_have_url(f"{served}/kernel/0123456789abcdef/0")


def test_a_point_of_the_scatter_opens_its_launch(served: str, open_page: Open) -> None:
    page = open_page(served)
    page.locator("#search").fill("copy_kernel")
    eventually(page, POINTS, 1)
    point = page.locator(".scatterlayer .point")
    point.scroll_into_view_if_needed()
    for _ in range(40):
        point.hover(force=True)
        if page.locator(".hoverlayer .hovertext").count():
            break
        page.wait_for_timeout(100)
    page.mouse.down()
    page.mouse.up()
    expect(page).to_have_url(f"{served}/kernel/fedcba9876543210/0")


def test_rows_appear_while_reports_are_read(tmp_path: Path, open_page: Open) -> None:
    gates = [threading.Event(), threading.Event()]
    made = iter([frames.gemm(), frames.bare()])

    def opener(paths: Any) -> Any:
        gates[0 if not gates[0].is_set() else 1].wait(60)
        return [next(made)], []

    store = ReportStore([tmp_path / f"{i}.ncu-rep" for i in range(5)], opener, frames.judge, frames.account)
    with serving(store) as url:
        try:
            page = open_page(url)
            expect(page.locator("#loading-state")).to_contain_text("reading 0 of 5")
            gates[0].set()
            expect(page.locator("#match-count")).to_have_text("2 shown")
            expect(page.locator("#overview-summary")).to_contain_text("4 of 5 reports read")
            gates[1].set()
            expect(page.locator("#match-count")).to_have_text("4 shown")
            expect(page.locator("#loading-state")).to_be_empty()
        finally:
            for gate in gates:
                gate.set()


def test_a_hostile_name_is_text(served: str, open_page: Open) -> None:
    page = open_page(served)
    expect(page.locator(f"{ROWS} a", has_text="<img src=x onerror=").first).to_be_visible()
    page.goto(f"{served}/kernel/00000000deadbeef/0")
    expect(page.locator("h1")).to_contain_text("<img src=x onerror=")
    expect(page.locator(".js-plotly-plot")).to_have_count(3)
    assert page.locator("img").count() == 0
    assert "owned" not in page.title().replace(frames.HOSTILE, "")


def test_no_page_is_wider_than_the_window(served: str, open_page: Open) -> None:
    page = open_page(served)
    expect(page.locator(ROWS)).to_have_count(8)
    wider = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wider) <= 0
    page.goto(f"{served}/kernel/00000000deadbeef/0")
    expect(page.locator(".js-plotly-plot")).to_have_count(3)
    assert page.evaluate(wider) <= 0


def test_filters_survive_a_look_at_a_launch(served: str, open_page: Open) -> None:
    page = open_page(served)
    cell = page.locator(".ag-header-cell[col-id='cause']")
    cell.hover()
    cell.locator(".ag-header-cell-filter-button").click()
    page.locator(".ag-filter input[type='text']").first.fill("copy")
    expect(page.locator("#match-count")).to_have_text("1 of 8 shown")
    page.keyboard.press("Escape")
    page.locator(f"{ROWS}[row-index='0'] [col-id='duration_ns']").click()
    expect(page.locator("h1")).to_contain_text("wmma_gemm<3, 16>")
    page.go_back()
    expect(page.locator("#match-count")).to_have_text("1 of 8 shown")
    page.get_by_role("button", name="Reset filters").click()
    expect(page.locator("#match-count")).to_have_text("8 shown")


def test_a_row_opens_in_a_new_tab_without_leaving_the_table(served: str, open_page: Open) -> None:
    page = open_page(served)
    link = page.locator(f"{ROWS}[row-index='0'] a.row-link")
    with page.context.expect_page() as opened:
        link.click(modifiers=["Control"])
    expect(opened.value).to_have_url(f"{served}/kernel/0123456789abcdef/0")
    page.wait_for_timeout(300)
    expect(page).to_have_url(f"{served}/")
