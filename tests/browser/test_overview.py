"""The table of launches and its scatter, in a real browser."""

from __future__ import annotations

import csv
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from ncubble.dashboard.data.store import ReportStore
from tests.helpers import dashboard_frames as frames

from .conftest import eventually, serving

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
ROWS = ".ag-center-cols-container .ag-row"
POINTS = "() => document.querySelector('.js-plotly-plot')?.data?.reduce((sum, trace) => sum + trace.x.length, 0)"


def first_cells(page: Page, column: str) -> list[str]:
    return page.locator(f"{ROWS} [col-id='{column}']").all_inner_texts()


def test_every_launch_has_a_row_ordered_by_recoverable_idle_time(served: str, open_page: Open) -> None:
    page = open_page(served)
    expect(page.locator("#match-count")).to_contain_text(", 8 launches")
    expect(page.locator(ROWS)).to_have_count(8)
    first = page.locator(f"{ROWS}[row-index='0']")
    expect(first).to_contain_text("wmma_gemm<3, 16>")
    expect(first).to_contain_text("228 µs")
    expect(page.locator(f"{ROWS}[row-index='7']")).to_contain_text("unknown_kernel")


def test_values_that_were_not_collected_say_so(served: str, open_page: Open) -> None:
    page = open_page(served)
    row = page.locator(ROWS, has_text="unknown_kernel")
    for column in ("duration_ns", "busy", "dram", "account", "recoverable_ns"):
        expect(row.locator(f"[col-id='{column}']")).to_have_text("not collected")


def test_the_damaged_file_is_named_with_its_reason(served: str, open_page: Open) -> None:
    problems = open_page(served).locator("#overview-problems")
    expect(problems).to_contain_text("damaged.ncu-rep")
    expect(problems).to_contain_text("file ends inside block 3")


def test_the_search_narrows_table_and_scatter_and_reset_widens_them(served: str, open_page: Open) -> None:
    page = open_page(served)
    expect(page.locator("#match-count")).to_contain_text(", 8 launches")
    eventually(page, POINTS, 7)
    page.keyboard.press("/")
    page.keyboard.type("wmma")
    expect(page.locator("#match-count")).to_contain_text("2 of 8 launches")
    eventually(page, POINTS, 2)
    page.get_by_role("button", name="Reset filters").click()
    expect(page.locator("#match-count")).to_contain_text(", 8 launches")
    expect(page.locator("#search")).to_have_value("")
    eventually(page, POINTS, 7)


def test_a_search_that_matches_nothing_says_so(served: str, open_page: Open) -> None:
    page = open_page(served)
    page.locator("#search").fill("no such kernel")
    expect(page.locator("#match-count")).to_contain_text("0 of 8 launches")
    nothing = page.locator("#nothing-matches")
    expect(nothing).to_contain_text("No launch matches")
    nothing.get_by_role("button", name="Show all launches").click()
    expect(page.locator("#match-count")).to_contain_text(", 8 launches")
    expect(nothing).to_be_hidden()
    expect(page.locator(ROWS)).to_have_count(8)


def test_a_column_sorts_with_missing_values_last_in_both_directions(served: str, open_page: Open) -> None:
    page = open_page(f"{served}/?columns=name,tensor")
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
    expect(page.locator("#match-count")).to_contain_text("1 of 8 launches")


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

    store = ReportStore([tmp_path / f"{i}.ncu-rep" for i in range(5)], opener, frames.judge)
    with serving(store) as url:
        try:
            page = open_page(url)
            expect(page.locator("#loading-state")).to_contain_text("reading 0 of 5")
            gates[0].set()
            expect(page.locator("#match-count")).to_contain_text(", 2 launches")
            expect(page.locator("#overview-summary")).to_contain_text("4 of 5 reports read")
            gates[1].set()
            expect(page.locator("#match-count")).to_contain_text(", 4 launches")
            expect(page.locator("#loading-state")).to_be_empty()
            page.close()  # before its server: it asks for news
        finally:
            for gate in gates:
                gate.set()


def test_a_hostile_name_is_text(served: str, open_page: Open) -> None:
    page = open_page(served)
    expect(page.locator(f"{ROWS} a", has_text="<img src=x onerror=").first).to_be_visible()
    page.goto(f"{served}/kernel/00000000deadbeef/0")
    expect(page.locator("h1")).to_contain_text("<img src=x onerror=")
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    assert page.locator("img").count() == 0
    assert "owned" not in page.title().replace(frames.HOSTILE, "")


def test_no_page_is_wider_than_the_window(served: str, open_page: Open) -> None:
    page = open_page(served)
    expect(page.locator(ROWS)).to_have_count(8)
    wider = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    for width in (390, 1001, 1024, 1101, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(wider) <= 0, width
    page.goto(f"{served}/kernel/00000000deadbeef/0")
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    assert page.evaluate(wider) <= 0


def test_filters_survive_a_look_at_a_launch(served: str, open_page: Open) -> None:
    page = open_page(served)
    cell = page.locator(".ag-header-cell[col-id='cause']")
    cell.hover()
    cell.locator(".ag-header-cell-filter-button").click()
    page.locator(".ag-filter input[type='text']").first.fill("copy")
    expect(page.locator("#match-count")).to_contain_text("1 of 8 launches")
    page.keyboard.press("Escape")
    page.locator(f"{ROWS}[row-index='0'] [col-id='duration_ns']").click()
    expect(page.locator("h1")).to_contain_text("wmma_gemm<3, 16>")
    page.go_back()
    expect(page.locator("#match-count")).to_contain_text("1 of 8 launches")
    page.get_by_role("button", name="Reset filters").click()
    expect(page.locator("#match-count")).to_contain_text(", 8 launches")


def test_a_row_opens_in_a_new_tab_without_leaving_the_table(served: str, open_page: Open) -> None:
    page = open_page(served)
    link = page.locator(f"{ROWS}[row-index='0'] a.row-link")
    with page.context.expect_page() as opened:
        link.click(modifiers=["Control"])
    expect(opened.value).to_have_url(f"{served}/kernel/0123456789abcdef/0")
    page.wait_for_timeout(300)
    expect(page).to_have_url(f"{served}/")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The dashboard of 600 launches: more blocks than the table asks for at once."""
    with serving(frames.store(tmp_path_factory.mktemp("many"), [frames.hostile(600)])) as url:
        yield url


def row(page: Page, index: int) -> Any:
    return page.locator(f"{ROWS}[row-index='{index}']")


def select(page: Page, index: int) -> None:
    page.locator(f".ag-pinned-left-cols-container .ag-row[row-index='{index}'] input").click()


def test_a_copied_address_shows_the_same_view_elsewhere(served: str, open_page: Open) -> None:
    page = open_page(served)
    page.locator("#search").fill("wmma|copy_kernel")
    expect(page.locator("#match-count")).to_contain_text("3 of 8 launches")
    page.locator(".ag-header-cell[col-id='busy'] .ag-header-cell-text").click()
    page.get_by_text("Columns", exact=True).click()
    page.locator("#time-unit").get_by_text("µs").click()
    expect(row(page, 0).locator("[col-id='duration_ns'] .first")).to_have_text("310")
    page.locator("#columns-search").fill("regist")
    page.get_by_label("Registers").check()
    expect(page.locator(".ag-header-cell[col-id='registers']")).to_be_visible()
    page.locator("#figure-kind").get_by_text("roofline").click()
    eventually(
        page,
        "() => ['q=', 'sort=-busy', 'columns=', 'figure=', 'time=us'].every((part) => location.search.includes(part))",
        True,
    )
    other = open_page(page.url)
    expect(other.locator("#match-count")).to_contain_text("3 of 8 launches")
    expect(row(other, 0)).to_contain_text("wmma_gemm_deep")
    expect(row(other, 0).locator("[col-id='duration_ns'] .first")).to_have_text("310")
    expect(other.get_by_label("Registers")).to_be_checked()
    expect(other.locator("#search")).to_have_value("wmma|copy_kernel")
    expect(other.locator("#figure-kind input[value='roofline']")).to_be_checked()
    expect(other.locator("#scatter-hint")).to_contain_text("3 launches not drawn")


def test_what_is_no_regular_expression_is_said(served: str, open_page: Open) -> None:
    page = open_page(f"{served}/?sort=nowhere")
    expect(page.locator("#query-said")).to_contain_text("1 sort order of this address cannot be read")
    page.locator("#search").fill("onerror=(")
    expect(page.locator("#query-said")).to_contain_text("is not a regular expression")
    expect(page.locator("#match-count")).to_contain_text("0 of 8 launches")


def test_the_browser_holds_the_rows_in_sight_only(many: str, open_page: Open) -> None:
    page = open_page(f"{many}/?group=none")
    expect(page.locator("#match-count")).to_contain_text(", 600 launches")
    expect(row(page, 0)).to_contain_text("_599")
    assert page.locator(ROWS).count() < 80
    eventually(page, POINTS, 600)
    page.locator(".ag-body-viewport").evaluate("(place) => { place.scrollTop = place.scrollHeight; }")
    expect(row(page, 599)).to_contain_text("_0")
    expect(page.locator(ROWS, has_text="…")).to_have_count(0)


def test_a_selection_outlives_order_search_and_a_look_at_a_launch(many: str, open_page: Open) -> None:
    page = open_page(f"{many}/?group=none")
    expect(row(page, 0)).to_contain_text("_599")
    select(page, 0)
    select(page, 1)
    link = page.get_by_role("link", name="Compare 2 launches")
    expect(link).to_have_attribute("href", "/compare?launch=00000000deadbeef/599&launch=00000000deadbeef/598")
    page.locator("#search").fill("_7$")
    expect(page.locator("#match-count")).to_contain_text("1 of 600 launches")
    expect(link).to_be_visible()
    page.get_by_role("button", name="Reset filters").click()
    expect(page.locator("#match-count")).to_contain_text(", 600 launches")
    expect(page.locator(".ag-pinned-left-cols-container .ag-row-selected")).to_have_count(2)
    row(page, 2).locator("[col-id='duration_ns']").click()
    expect(page).to_have_url(f"{many}/kernel/00000000deadbeef/597")
    page.go_back()
    expect(page.get_by_role("link", name="Compare 2 launches")).to_be_visible()
    select(page, 0)
    expect(page.locator("#compare-selected")).to_be_hidden()


def test_other_launches_are_held_against_the_pinned_one(served: str, open_page: Open) -> None:
    page = open_page(f"{served}/?q=wmma")
    expect(page.locator(ROWS)).to_have_count(2)
    assert page.get_by_role("button", name="Pin as baseline").is_disabled()
    select(page, 0)
    page.get_by_role("button", name="Pin as baseline").click()
    expect(page.locator(".ag-floating-top")).to_contain_text("baseline")
    expect(row(page, 1).locator("[col-id='duration_ns']")).to_contain_text("−22.5 %")
    expect(row(page, 1).locator("[col-id='busy']")).to_contain_text("+53.8 pt")
    expect(row(page, 1).locator("[col-id='busy'] .delta")).to_have_class("delta better")
    neutral = row(page, 1).locator("[col-id='dram'] .delta")
    expect(neutral).to_have_class("delta")
    expect(neutral).to_have_attribute("title", "against the pinned launch")
    expect(page).to_have_url(f"{served}/?q=wmma&pin=0123456789abcdef/0")
    other = open_page(page.url)
    expect(other.locator(".ag-floating-top")).to_contain_text("wmma_gemm<3, 16>")
    other.get_by_role("button", name="Unpin baseline").click()
    expect(other.locator(".ag-floating-top .ag-row")).to_have_count(0)
    expect(other.locator(".delta")).to_have_count(0)


def test_keys_move_open_select_and_compare(served: str, open_page: Open) -> None:
    page = open_page(served)
    expect(page.locator(ROWS)).to_have_count(8)
    focused = "() => document.activeElement.closest('.ag-row')?.getAttribute('row-index')"
    for key, place in (("j", "0"), ("j", "1"), ("k", "0")):
        page.keyboard.press(key)
        eventually(page, focused, place)
    page.keyboard.press("Space")
    page.keyboard.press("j")
    page.keyboard.press("Space")
    expect(page.get_by_role("link", name="Compare 2 launches")).to_be_visible()
    page.keyboard.press("c")
    expect(page).to_have_url(f"{served}/compare?launch=0123456789abcdef/0&launch=00000000deadbeef/3")
    expect(page.locator(ROWS)).to_have_count(0)  # the address changes before the page does
    page.go_back()
    expect(page.locator(ROWS)).to_have_count(8)
    page.keyboard.press("j")
    eventually(page, focused, "0")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{served}/kernel/0123456789abcdef/0")
    expect(page.locator(ROWS)).to_have_count(0)
    page.go_back()
    expect(page.locator(ROWS)).to_have_count(8)
    page.wait_for_timeout(1500)  # by then all rows are drawn for good
    assert page.evaluate(focused) is None  # the focus of the last visit went with it


def test_a_saved_view_is_listed_opened_and_deleted(served: str, open_page: Open) -> None:
    page = open_page(f"{served}/?q=wmma")
    expect(page.locator("#match-count")).to_contain_text("2 of 8 launches")
    page.get_by_text("Views", exact=True).click()
    page.locator("#view-name").fill("<b>GEMMs</b>")
    page.get_by_role("button", name="Save", exact=True).click()
    page.goto(served)
    expect(page.locator("#match-count")).to_contain_text(", 8 launches")
    page.get_by_text("Views", exact=True).click()
    page.get_by_role("link", name="<b>GEMMs</b>").click()
    expect(page.locator("#match-count")).to_contain_text("2 of 8 launches")
    page.get_by_text("Views", exact=True).click()
    page.get_by_role("button", name="Delete view <b>GEMMs</b>").click()
    expect(page.locator("#saved-views")).to_have_text("No saved view yet.")


def test_downloads_hold_what_the_table_lists(served: str, open_page: Open) -> None:
    page = open_page(f"{served}/?q=onerror&columns=name,duration_ns&sort=duration_ns")
    expect(page.locator("#match-count")).to_contain_text("4 of 8 launches")
    page.get_by_text("Download", exact=True).click()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="CSV").click()
    with Path(waiting.value.path()).open(newline="") as file:
        read = list(csv.reader(file))
    assert read[0] == ["Kernel", "Time [ns]", "id"]
    assert [line[1] for line in read[1:]] == ["10000.0", "20000.0", "30000.0", "40000.0"]


def test_a_filter_of_times_reads_units(served: str, open_page: Open) -> None:
    page = open_page(served)
    cell = page.locator(".ag-header-cell[col-id='duration_ns']")
    cell.hover()
    cell.locator(".ag-header-cell-filter-button").click()
    field = page.locator(".ag-filter input[type='text']").first
    field.fill("0.31 ms")
    expect(page.locator("#match-count")).to_contain_text("1 of 8 launches")
    field.fill("310")
    expect(page.locator("#match-count")).to_contain_text("1 of 8 launches")
    eventually(page, "() => decodeURIComponent(location.search).includes('310000')", True)


READ = {
    "1.5 ms": 1.5e6,
    "1,5 ms": 1.5e6,
    "1,500 ns": 1500,
    "0,500 ms": 5e5,
    "1,234,567.5 ns": 1234567.5,
    "12,34 us": 12340,
    "-2,5 s": -2.5e9,
    "1,2,3 ms": None,
    "1.500,5 ms": None,
    "1,50,000 ns": None,
    "2e3 ns": 2000,
    "7": 7000,
}


def test_commas_of_times_and_keys_after_a_switch_and_hatches_of_parts(served: str, open_page: Open) -> None:
    page = open_page(served)
    expect(page.locator(ROWS)).to_have_count(8)
    read = page.evaluate("(texts) => texts.map((text) => window.dashAgGridFunctions.ncReadTime(text))", list(READ))
    assert dict(zip(READ, read, strict=True)) == pytest.approx(READ)
    account = row(page, 0).locator(".account-cell > span")
    images = account.evaluate_all("(all) => all.map((one) => getComputedStyle(one).backgroundImage)")
    assert images[0] == "none" and len(set(images)) >= 6
    page.get_by_role("radio", name="dark").check(force=True)
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("?")
    expect(page.locator("#help")).to_be_hidden()


def test_an_answer_that_fails_is_said_and_can_be_asked_for_again(
    served: str, open_page: Open, request: pytest.FixtureRequest
) -> None:
    request.node.expected_errors = ("500",)
    page = open_page(served)
    expect(page.locator("#match-count")).to_contain_text(", 8 launches")
    page.route("**/_launches/rows*", lambda route: route.fulfill(status=500, body=""))
    page.locator("#search").fill("wmma")
    expect(page.locator("#query-said")).to_contain_text("The rows did not come (status 500)")
    page.unroute("**/_launches/rows*")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#match-count")).to_contain_text("2 of 8 launches")


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The dashboard of two reports with the same kernels."""
    twin = frames.gemm()
    twin.key = "f" * 64
    with serving(frames.store(tmp_path_factory.mktemp("grouped"), [frames.gemm(), twin])) as url:
        yield url


def test_a_kernel_opens_to_its_launches_and_the_address_keeps_it(grouped: str, open_page: Open) -> None:
    page = open_page(grouped)
    expect(page.locator("#match-count")).to_have_text("2 kernels, 4 launches")
    expect(page.locator("#headline-claim")).to_contain_text("GPU time lost")
    expect(page.locator(ROWS)).to_have_count(2)
    group = row(page, 0)
    expect(group).to_contain_text("×2")
    expect(group.locator("[col-id='duration_ns'] .first")).to_have_text("800 µs")
    group.locator("[col-id='duration_ns']").click()
    expect(page.locator(ROWS)).to_have_count(4)
    expect(row(page, 0).locator("button[aria-expanded='true']")).to_be_visible()
    assert "open=" in page.url
    found = Axe().run(page).response["violations"]
    assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
    other = open_page(page.url)
    expect(other.locator(ROWS)).to_have_count(4)
    other.keyboard.press("j")
    other.keyboard.press("Enter")
    expect(other.locator(ROWS)).to_have_count(2)
    other.keyboard.press("Enter")
    expect(other.locator(ROWS)).to_have_count(4)
    other.keyboard.press("j")
    other.keyboard.press("Enter")
    expect(other.locator("h1")).to_contain_text("wmma_gemm<3, 16>")


def test_rows_by_launch_and_an_order_that_reset_takes_back(grouped: str, open_page: Open) -> None:
    page = open_page(grouped)
    page.locator("#group-by").get_by_text("launch").click()
    expect(page.locator(ROWS)).to_have_count(4)
    expect(page).to_have_url(f"{grouped}/?group=none")
    expect(page.locator("#overview-order")).to_have_text("most recoverable idle time first")
    page.locator(".ag-header-cell[col-id='busy'] .ag-header-cell-text").click()
    expect(page.locator("#overview-order")).to_have_text("by Busy %, largest first")
    page.get_by_role("button", name="Reset filters").click()
    expect(page.locator("#overview-order")).to_have_text("most recoverable idle time first")
    expect(page).to_have_url(f"{grouped}/?group=none")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_is_wrong_for_assistive_technology(served: str, open_page: Open, scheme: str) -> None:
    page = open_page(f"{served}/?pin=0123456789abcdef/0", color_scheme=scheme)
    expect(page.locator(ROWS)).to_have_count(8)
    page.wait_for_timeout(300)
    found = Axe().run(page).response["violations"]
    assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
