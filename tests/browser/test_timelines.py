"""The Timelines page in a real browser: made-up lanes, a zoom that stays in the address, and the
empty state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from ncubble.analysis.traces.lanes import run_id
from ncubble.dashboard.data.store import ReportStore
from tests.helpers.lane_frames import streams, warps, write

from .conftest import eventually, serving

pytestmark = pytest.mark.browser
Open = Callable[..., Page]


def test_a_zoom_shows_detail_stays_in_the_address_and_is_undone(
    tmp_path: Path, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ncubble.dashboard.pages.timelines.figures.MOST_DRAWN", 400)
    write(tmp_path / "copies", streams())
    write(tmp_path / "roles", warps(4_000), "warps")
    with serving(ReportStore([tmp_path])) as url:
        page = open_page(f"{url}/timelines")
        expect(page.locator(".sentence")).to_contain_text("upload and kernel overlap for 38.1 %")
        page.get_by_role("link", name="roles", exact=True).click()
        expect(page.locator("#lanes-hint")).to_contain_text("This is the middle section of")
        page.get_by_role("button", name="Whole run").click()
        expect(page.locator("#lanes-hint")).to_contain_text("summarized in steps of")
        place = page.locator(".js-plotly-plot .nsewdrag").first
        box = place.bounding_box()
        assert box is not None
        for at, act in ((0.40, page.mouse.down), (0.43, page.mouse.up)):
            page.mouse.move(box["x"] + at * box["width"], box["y"] + box["height"] / 2, steps=4)
            act()
        expect(page.locator("#lanes-hint")).not_to_contain_text("summed up")
        assert f"run={run_id(tmp_path / 'roles')}&from=" in page.url
        page.reload()
        expect(page.locator("#lanes-hint")).to_contain_text("intervals.")
        expect(page.locator("#lanes-hint")).not_to_contain_text("summed up")
        page.get_by_role("button", name="Whole run").click()
        expect(page.locator("#lanes-hint")).to_contain_text("summarized in steps of")
        assert "from=" not in page.url
        page.close()  # before its server


def test_without_lanes_the_page_says_how_to_record_them(tmp_path: Path, open_page: Open) -> None:
    with serving(ReportStore([tmp_path])) as url:
        page = open_page(f"{url}/timelines", color_scheme="dark")
        expect(page.locator("section.card")).to_have_count(2)
        expect(page.locator("main")).to_contain_text("To record it:")
        expect(page.locator("main")).to_contain_text("ncubble trace NAME")
        expect(page.locator("main")).to_contain_text(str(tmp_path))
        page.close()  # before its server


def test_keys_and_the_wheel_move_the_window_and_a_search_dims_the_rest(tmp_path: Path, open_page: Open) -> None:
    write(tmp_path / "copies", streams())
    run = run_id(tmp_path / "copies")
    with serving(ReportStore([tmp_path])) as url:
        page = open_page(f"{url}/timelines?run={run}")
        expect(page.locator("#lanes-times")).to_contain_text("In total 42.0 µs")
        expect(page.locator(".js-plotly-plot .xtick").first).to_be_visible()
        page.keyboard.press("w")
        expect(page.locator("#lanes-times")).to_contain_text("In this window of 29.4 µs")
        assert "&from=6300&to=35700" in page.url
        page.keyboard.press("d")
        expect(page.locator("#lanes-times")).to_contain_text("In this window of 29.4 µs")
        page.wait_for_url("**&from=12600&to=42000")  # not beyond the end
        place = page.locator(".js-plotly-plot .nsewdrag").first.bounding_box()
        assert place is not None
        page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
        page.keyboard.down("Control")
        page.mouse.wheel(0, -100)
        page.keyboard.up("Control")
        expect(page.locator("#lanes-times")).to_contain_text("In this window of 23.5 µs")
        page.keyboard.press("/")
        page.keyboard.type("gemm")
        expect(page.locator("#lanes-found")).to_have_text("3 of 12 intervals")
        before = page.url
        page.keyboard.press("w")  # typed, no zoom
        expect(page.locator("#lanes-found")).to_have_text("0 of 12 intervals")
        assert page.url == before
        page.close()  # before its server


BRIGHT = """() => {
  const plot = document.querySelector('.js-plotly-plot');
  return (plot?._fullData || []).flatMap((trace) =>
    Array.from(trace.y, (lane, at) => [trace.name, (trace.marker.opacity[at] ?? trace.marker.opacity) === 1])
  ).filter(([name, bright]) => bright).map(([name]) => name);
}"""


def test_a_search_moves_to_hits_outside_of_the_window(tmp_path: Path, open_page: Open) -> None:
    frame = streams()
    write(tmp_path / "copies", frame.assign(tag=frame["tag"].where(frame.index != 9, "gemm<rare>")))
    run = run_id(tmp_path / "copies")
    with serving(ReportStore([tmp_path])) as url:
        page = open_page(f"{url}/timelines?run={run}&from=0&to=8000")
        expect(page.locator("#lanes-times")).to_contain_text("In this window of 8.00 µs")
        expect(page.locator(".js-plotly-plot .xtick").first).to_be_visible()
        page.get_by_label("Find a lane or region").fill("GEMM")
        expect(page.locator("#lanes-found")).to_have_text("3 of 12 intervals")
        eventually(page, BRIGHT, [])
        for key, told, window in (
            ("Enter", "1 of 3 intervals: gemm in kernel · stream 2 at 10.0 µs", "from=9000&to=19000"),
            ("Enter", "2 of 3 intervals: gemm in kernel · stream 2 at 20.0 µs", "from=19000&to=29000"),
            ("Enter", "3 of 3 intervals: gemm<rare> in kernel · stream 2 at 30.0 µs", "from=29000&to=39000"),
            ("Enter", "1 of 3 intervals: gemm in kernel · stream 2 at 10.0 µs", "from=9000&to=19000"),
            ("Shift+Enter", "3 of 3 intervals: gemm<rare> in kernel · stream 2 at 30.0 µs", "from=29000&to=39000"),
        ):
            page.keyboard.press(key)
            expect(page.locator("#lanes-found")).to_have_text(told)
            page.wait_for_url(f"**&{window}")
        eventually(page, BRIGHT, ["gemm&lt;rare&gt;"])
        page.get_by_label("Find a lane or region").fill("")
        expect(page.locator("#lanes-found")).to_have_text("")
        page.close()  # before its server


def test_the_run_that_is_shown_is_in_sight_and_marked(tmp_path: Path, open_page: Open) -> None:
    for number in range(14):
        write(tmp_path / f"run{number:02}", streams())
    with serving(ReportStore([tmp_path])) as url:
        page = open_page(f"{url}/timelines?run={run_id(tmp_path / 'run13')}")
        line = page.locator(".sides li", has=page.get_by_role("link", name="run13"))
        expect(line).to_be_in_viewport(ratio=0.9)
        expect(line).not_to_have_css("box-shadow", "none")
        page.close()  # before its server


STRIP = """() => {
  const strip = document.getElementById('lanes-ruler').getBoundingClientRect();
  return [Math.round(strip.bottom) <= window.innerHeight, strip.height > 20];
}"""
TICKS = "() => document.querySelectorAll('#lanes-ruler > span').length > 2"
NAMES = """() => (document.querySelector('.js-plotly-plot')?._fullLayout?.yaxis.ticktext || []).slice(0, 1)"""


def test_the_time_axis_stays_in_view_under_lanes_taller_than_the_window(tmp_path: Path, open_page: Open) -> None:
    write(tmp_path / "roles", warps(40), "warps")
    with serving(ReportStore([tmp_path])) as url:
        page = open_page(f"{url}/timelines", viewport={"width": 1280, "height": 300})
        eventually(page, TICKS, True)
        page.locator(".js-plotly-plot").first.evaluate(
            "plot => window.scrollTo(0, plot.getBoundingClientRect().top - 60)"
        )
        eventually(page, STRIP, [True, True])
        assert page.evaluate(NAMES) == []
        page.close()  # before its server


def test_names_of_lanes_leave_room_for_the_lanes_in_a_narrow_window(tmp_path: Path, open_page: Open) -> None:
    frame = warps(40)
    write(tmp_path / "roles", frame.assign(lane="a rather long name of " + frame["lane"]), "warps")
    with serving(ReportStore([tmp_path])) as url:
        page = open_page(f"{url}/timelines", viewport={"width": 390, "height": 844})
        eventually(page, f"() => ({NAMES})().length", 1)
        (name,) = page.evaluate(NAMES)
        assert name.startswith("… ") and len(name) <= 18
        page.set_viewport_size({"width": 1280, "height": 844})
        eventually(page, f"() => ({NAMES})().length", 0)
        page.close()  # before its server
