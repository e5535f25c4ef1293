"""Source and SASS side by side, in a real Chromium: correlation, causes, steps, search, addresses,
hostile text."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from ncubble.analysis.account.account import BubbleAccount, account
from ncubble.analysis.account.stalls import CLASSES
from ncubble.dashboard.data.store import ReportStore
from tests.helpers import dashboard_frames as frames

from .conftest import eventually, serving

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
ROWS, LINES, HOT = 20_000, 6_000, 12_345
WAITING = {"tensor_busy": 70.0, "data_wait": 30.0}
FILE, HEADER = "/home/someone/gemm.cu", f"/inc/{frames.HOSTILE}.cuh"
BIG = "/source/0123456789abcdef/0"
BARE = "/source/fedcba9876543210/0"
HOSTILE = "/source/00000000deadbeef/0"
FRAMES = "() => { window.drawn = 0; const f = () => { window.drawn += 1; requestAnimationFrame(f); }; f(); }"
TOP = "(grid) => grid.scrollTop"


class Coded(frames.FakeReport):
    """A made-up report that can be asked for the code of one launch."""

    def source_of(self, launch: int) -> pd.DataFrame:
        return self.source[self.source["launch"] == launch].reset_index(drop=True)

    def memo(self, number: int) -> dict[object, Any]:
        """Of the long listing, the waits for data are known to be at the hot instruction."""
        known = super().memo(number)
        if len(self.source) == ROWS:
            weights = pd.DataFrame(0.0, index=range(ROWS), columns=list(CLASSES))
            weights.loc[HOT, "data_wait"] = 5000.0
            known[getattr(account, "__wrapped__")] = BubbleAccount(number, "tensor", WAITING, weights=weights)  # noqa: B009
        return known


def coded(report: frames.FakeReport, source: pd.DataFrame, files: dict[str, str]) -> Coded:
    known = {field.name: getattr(report, field.name) for field in dataclasses.fields(frames.FakeReport)}
    made = Coded(**{**known, "source": source})
    made.files = files  # type: ignore[attr-defined]
    return made


def listing() -> pd.DataFrame:
    """Instructions of all lines of one file, one of them hot, and two of a line in a header."""
    rows = pd.RangeIndex(ROWS)
    frame = pd.DataFrame(
        {
            "launch": 0,
            "pc": rows * 16,
            "sass": [f"IMAD.WIDE R{row % 255}, R2, {row:#x}, R4" for row in rows],
            "opcode": "IMAD.WIDE",
            "file": FILE,
            "line": 1 + rows % LINES,
            "samples": 1.0,
            "executed": 4096.0,
            "long_scoreboard": 0.0,
            "selected": 1.0,
        }
    )
    frame.loc[HOT, ["sass", "opcode", "samples", "long_scoreboard"]] = ["BAR.SYNC 0x0", "BAR.SYNC", 5001.0, 5000.0]
    frame.loc[[500, 15_000], ["file", "line", "samples", "long_scoreboard"]] = [HEADER, 10, 301.0, 300.0]
    return frame


def reports() -> list[Any]:
    text = "\n".join(f"int x{line} = {line};  // {frames.HOSTILE}" for line in range(1, LINES + 1))
    small = (
        frames.source(0).drop(columns=["long_scoreboard", "barrier", "selected"]).assign(samples=0.0, line=0, file="")
    )
    strange, waiting = frames.hostile(), frames.gemm()
    waiting.verdicts[0] = dataclasses.replace(waiting.verdicts[0], account=WAITING)
    return [
        coded(waiting, listing(), {FILE: text}),
        coded(frames.bare(), small, {}),
        coded(
            strange,
            strange.source,
            {f"/home/someone/{frames.HOSTILE}.cu": "<script>document.title='owned'</script>\n" * 90},
        ),
    ]


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("code")
    made = reports()
    paths = [folder / f"{number}.ncu-rep" for number in range(len(made))]
    for path in paths:
        path.touch()
    by_path = dict(zip(paths, made, strict=True))

    def opener(asked: Any) -> Any:
        return [by_path[Path(path)] for path in asked], []

    store = ReportStore(paths, opener, frames.judge)
    store.start().wait(30)
    with serving(store) as url:
        yield url


def chosen(page: Page, pane: str = "sass") -> Any:
    return page.locator(f"#source-{pane} .code-row.chosen")


def query(page: Page, wanted: str) -> None:
    eventually(page, "() => decodeURIComponent(location.search)", wanted)


def test_the_hottest_instruction_and_its_line_are_seen_first(code: str, open_page: Open) -> None:
    page = open_page(code + BIG)
    expect(chosen(page)).to_contain_text("BAR.SYNC")
    expect(chosen(page)).to_contain_text("long scoreboard")
    expect(chosen(page, "lines")).to_contain_text(f"int x{1 + HOT % LINES} =")
    expect(page.locator("#source-detail")).to_contain_text("% of kernel time: data wait 30.0")
    assert page.locator(".code-row").count() < 200
    assert page.locator("#source-sass").get_attribute("aria-rowcount") == str(ROWS + 1)
    query(page, "")


def test_a_line_marks_its_instructions_and_an_instruction_its_line(code: str, open_page: Open) -> None:
    page = open_page(f"{code}{BIG}?file={FILE}&line=2")
    expect(chosen(page)).to_contain_text("0x1")
    page.locator("#source-lines .code-row", has_text="int x3 =").click()
    expect(chosen(page)).to_contain_text("0x2")
    query(page, f"?file={FILE}&line=3&pc=32")
    page.keyboard.press("u")
    expect(chosen(page)).to_contain_text(f"{LINES + 2:#x}")
    expect(page.locator("#source-count")).to_have_text("use 2 of 4")
    page.locator(
        "#source-sass .code-row.chosen + .code-row, #source-sass .code-row", has_text=f"{LINES + 4:#x}"
    ).first.click()
    expect(chosen(page, "lines")).to_contain_text("int x5 =")
    query(page, f"?pc={16 * (LINES + 4)}")
    page.reload()
    expect(chosen(page)).to_contain_text(f"{LINES + 4:#x}")
    page.locator("#source-lines .code-row", has_text="int x7 =").hover()
    page.locator("#source-sass .rested").first.wait_for()


def test_the_heat_follows_the_cause_and_its_rows_are_stepped_through(code: str, open_page: Open) -> None:
    page = open_page(f"{code}{BIG}?by=long_scoreboard")
    expect(page.locator("#source-by")).to_have_value("long_scoreboard")
    page.keyboard.press("n")
    expect(page.locator("#source-count")).to_have_text("hot instruction 2 of 3")
    expect(page.locator("#source-file option:checked")).to_contain_text(frames.HOSTILE)
    expect(page.locator(".source-note")).to_contain_text("--set source")
    page.locator("#source-only").check()
    expect(page.locator("#source-sass")).to_have_attribute("aria-rowcount", "4")
    query(page, "?pc=8000&by=long_scoreboard&only=1")
    page.locator("#source-by").select_option("data_wait")
    expect(page.locator("#source-sass")).to_have_attribute("aria-rowcount", "2")
    expect(page.get_by_text("30.0 % of kernel time in 1 instruction")).to_be_visible()
    page.locator("#source-op").select_option("barrier")
    expect(page.get_by_text("30.0 % of kernel time in 1 instruction")).to_be_visible()
    query(page, "?pc=197520&by=data_wait&op=barrier&only=1")
    page.reload()
    expect(page.locator("#source-sass")).to_have_attribute("aria-rowcount", "2")


def test_search_takes_expressions_counts_and_goes_on(code: str, open_page: Open) -> None:
    page = open_page(code + BIG)
    expect(chosen(page)).to_contain_text("BAR.SYNC")
    page.keyboard.press("/")
    page.keyboard.type(r"R4$|0x1f[0-9]{2}\b|BAR")
    expect(page.locator("#source-count")).to_have_text(f"{ROWS} in SASS, 0 in this file")
    page.locator("#source-find").fill(r"IMAD.*0x1f4\b|BAR")
    expect(page.locator("#source-count")).to_have_text("2 in SASS, 0 in this file")
    page.keyboard.press("Enter")
    expect(chosen(page).locator("mark")).to_have_text(["IMAD.WIDE", " R245, R2, ", "0x1f4"])
    page.locator("#source-find").fill("(")
    expect(page.locator("#source-count")).to_have_text("not a regular expression")


def test_arrows_move_the_selection_and_tab_the_pane(code: str, open_page: Open) -> None:
    page = open_page(f"{code}{BIG}?pc=0")
    page.locator("#source-sass").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    query(page, "?pc=32")
    active = page.locator("#source-sass").get_attribute("aria-activedescendant")
    assert active == chosen(page).get_attribute("id")
    page.keyboard.press("End")
    expect(chosen(page)).to_contain_text(f"{ROWS - 1:#x}")
    page.keyboard.press("Shift+Tab")
    eventually(page, "() => document.activeElement.id", "source-lines")


def test_a_click_on_the_map_goes_there(code: str, open_page: Open) -> None:
    page = open_page(f"{code}{BIG}?pc=0")
    sass = page.locator("#source-sass")
    expect(chosen(page)).to_contain_text("0x0000")
    box = page.locator(".minimap").nth(1).bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 8, box["y"] + box["height"] * 0.75)
    assert sass.evaluate(TOP) == pytest.approx(0.75 * ROWS * 18, rel=0.02)


def test_twenty_thousand_rows_scroll(code: str, open_page: Open) -> None:
    """Loose bounds, for a busy machine."""
    page = open_page(f"{code}{BIG}?pc=0")
    expect(chosen(page)).to_contain_text("0x0000")
    box = page.locator("#source-sass").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 100, box["y"] + 200)
    page.evaluate(FRAMES)
    for _ in range(60):
        page.mouse.wheel(0, 600)
    eventually(page, "() => document.querySelector('#source-sass').scrollTop", 36_000)
    page.locator("#source-sass .code-row[data-at='2000']").wait_for()
    assert page.evaluate("() => window.drawn") >= 5
    assert page.locator("#source-sass .code-row").count() < 100


def test_what_is_lacking_is_said_with_its_remedy(code: str, open_page: Open) -> None:
    page = open_page(code + BARE)
    expect(page.get_by_text("Warp samples: not collected")).to_be_visible()
    expect(page.get_by_text("built without line information")).to_be_visible()
    expect(page.locator("#source-sass .code-row").first).to_contain_text("HMMA")
    expect(page.locator("#hot-next")).to_be_disabled()
    page.goto(f"{code}/source/fedcba9876543210/1")
    expect(page.locator(".source-viewer .note")).to_contain_text("--set source")
    assert page.locator(".code-row").count() == 0


def test_code_that_tries_to_be_markup_stays_text(code: str, open_page: Open) -> None:
    page = open_page(code + HOSTILE)
    expect(page.locator("#source-lines .code-row").first).to_contain_text("<script>document.title='owned'</script>")
    expect(page.locator("#source-sass .code-row").first).to_contain_text(frames.HOSTILE)
    expect(page.locator("#source-file option").first).to_contain_text("<img src=x")
    assert page.locator("main img, main script").count() == 0
    assert page.title() != "owned"


def test_a_page_that_is_left_lets_go_of_keys_and_address(code: str, open_page: Open) -> None:
    page = open_page(f"{code}{BIG}?pc=0")
    expect(chosen(page)).to_contain_text("0x0000")
    page.keyboard.press("n")
    page.get_by_role("link", name="← All launches").click()
    expect(page.locator("h1")).to_have_text("Launches")
    page.keyboard.press("n")
    page.wait_for_timeout(400)
    assert page.url == f"{code}/"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(code: str, open_page: Open, scheme: str) -> None:
    small = {"width": 1280, "height": 560}  # fewer rows in the document: axe looks at each
    page = open_page(f"{code}{BIG}?by=long_scoreboard", color_scheme=scheme, bypass_csp=True, viewport=small)
    expect(chosen(page)).to_contain_text("BAR.SYNC")
    found = Axe().run(page, context="main").response["violations"]
    assert [(one["id"], [node["html"][:160] for node in one["nodes"][:3]]) for one in found] == []
