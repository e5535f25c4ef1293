"""Adding files in a real browser: chosen, dropped, refused, cancelled, retried, removed; and runs
that appear."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from ncubble.analysis.report.container import MAGIC
from ncubble.dashboard.data.store import ReportStore
from ncubble.errors import ReportError
from ncubble.profiling.runs import Run
from ncubble.recordings import ROOT
from tests.helpers import dashboard_frames as frames

from .conftest import eventually, serving

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
MADE = {b"gemm": frames.gemm, b"bare": frames.bare}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "cache"))


def opened(paths: Sequence[Path]) -> tuple[list[Any], list[Any]]:
    """Reports by the word behind the magic of a file; damaged where it is another."""
    good, failed = [], []
    for path in paths:
        word = path.read_bytes()[4:8]
        if word in MADE:
            good.append(MADE[word]())
            good[-1].run = Run(path, path, good[-1].run.manifest)
        else:
            failed.append(SimpleNamespace(path=path, error=ReportError(f"{path}: truncated, block 3", "copy it again")))
    return good, failed


@pytest.fixture
def watched(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@pytest.fixture
def url(watched: Path) -> Iterator[str]:
    store = ReportStore([watched], opened, frames.judge, watch=True)
    with serving(store) as address:
        yield address


def file(name: str, content: bytes) -> Any:
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content}


def choose(page: Page, *files: Any) -> None:
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose files").click()
    chooser.value.set_files(list(files))


def drop(page: Page, name: str, content: str) -> None:
    held = (
        "([name, content]) => { const all = new DataTransfer(); all.items.add(new File([content], name)); return all; }"
    )
    made = page.evaluate_handle(held, [name, content])
    page.dispatch_event("main", "dragover", {"dataTransfer": made})
    expect(page.locator("html.dropping")).to_have_count(1)
    page.dispatch_event("main", "drop", {"dataTransfer": made})


def test_chosen_files_lead_to_their_launches_or_say_what_is_wrong(
    url: str, open_page: Open, request: pytest.FixtureRequest
) -> None:
    request.node.expected_errors = ("status of 415", "status of 422")
    page = open_page(f"{url}/open")
    hostile = "<img src=x onerror=alert(1)>.ncu-rep"
    choose(
        page,
        file("good.ncu-rep", MAGIC + b"gemm"),
        file("cut.ncu-rep", MAGIC + b"cut off"),
        file("copy.ncu-rep", MAGIC + b"gemm and more"),
        file("trace.nsys-rep", b"NVIDIA Tegra Profiler Report"),
        file("empty.ncu-rep", b""),
        file(hostile, b"<html>"),
    )
    added = page.locator("#open-added .upload")
    expect(added).to_have_count(3)
    good = added.filter(has_text="good.ncu-rep").first
    expect(good.get_by_role("link")).to_have_count(2)
    expect(added.filter(has_text="cut.ncu-rep")).to_contain_text("Could not be shown: truncated, block 3.")
    expect(added.filter(has_text="cut.ncu-rep")).to_contain_text("Remedy: copy it again")
    expect(added.filter(has_text="Same content as good.ncu-rep")).to_contain_text("copy.ncu-rep")
    sending = page.locator("#open-sending .upload")
    expect(sending).to_have_count(3)
    expect(sending.filter(has_text="trace.nsys-rep")).to_contain_text("Nsight Systems")
    expect(sending.filter(has_text="empty.ncu-rep")).to_contain_text("the file is empty")
    expect(sending.filter(has_text=hostile)).to_contain_text("markup")
    assert page.locator("img").count() == 0 and "cache" not in page.locator("main").inner_text()
    expect(page.locator("#open-failed")).to_contain_text("cut.ncu-rep")
    sending.first.get_by_role("button", name="Dismiss").click()
    expect(sending).to_have_count(2)
    good.get_by_role("link").first.click()
    expect(page.locator("h1")).to_contain_text("wmma_gemm")
    page.goto(f"{url}/open")
    page.get_by_role("button", name="Remove: good.ncu-rep").click()
    expect(added.filter(has_text="good.ncu-rep")).to_have_count(0)
    expect(added.filter(has_text="copy.ncu-rep").get_by_role("link")).to_have_count(2)  # now shown in its stead


def test_a_file_dropped_on_any_page_leads_to_the_page_that_opens_it(url: str, open_page: Open) -> None:
    page = open_page(f"{url}/compare")
    expect(page.locator("h1")).to_be_visible()
    drop(page, "dropped.ncu-rep", MAGIC.decode() + "bare")
    expect(page).to_have_url(f"{url}/open")
    expect(page.locator("#open-added .upload")).to_contain_text("dropped.ncu-rep")
    expect(page.locator("#open-added a", has_text="copy_kernel")).to_be_visible()
    expect(page.locator("html.dropping")).to_have_count(0)
    expect(page.locator("#new-launches")).to_have_text("2 new launches")
    page.locator("#new-launches").click()
    expect(page).to_have_url(f"{url}/")
    expect(page.locator("#new-launches")).to_be_hidden()


def test_an_upload_shows_its_progress_and_can_be_cancelled(url: str, open_page: Open) -> None:
    page = open_page(f"{url}/open")
    held: list[Route] = []
    page.route("**/upload?name=*", lambda route: held.append(route) if len(held) == 0 else route.continue_())
    choose(page, file("large.ncu-rep", MAGIC + b"gemm" + bytes(3_000_000)), file("next.ncu-rep", MAGIC + b"bare"))
    row = page.locator("#open-sending .upload", has_text="large.ncu-rep")
    expect(row.get_by_role("progressbar")).to_be_visible()
    expect(row).to_contain_text("of 3.0 MB, 0 %")
    expect(page.locator("#open-sending .upload", has_text="next.ncu-rep")).to_contain_text("waiting")
    row.get_by_role("button", name="Cancel").click()
    expect(row).to_contain_text("cancelled, nothing was kept")
    expect(page.locator("#open-added .upload")).to_contain_text("next.ncu-rep")
    expect(page.locator("#open-added")).not_to_contain_text("large.ncu-rep")
    row.get_by_role("button", name="Retry").click()
    expect(page.locator("#open-added .upload", has_text="large.ncu-rep").get_by_role("link")).to_have_count(2)
    expect(row.get_by_role("progressbar")).to_have_count(0)


def test_a_server_that_is_gone_is_said_and_the_file_can_be_sent_again(
    url: str, open_page: Open, request: pytest.FixtureRequest
) -> None:
    request.node.expected_errors = ("ERR_FAILED",)
    page = open_page(f"{url}/open")
    page.route("**/upload?size=*", lambda route: route.abort())
    choose(page, file("late.ncu-rep", MAGIC + b"bare"))
    row = page.locator("#open-sending .upload")
    expect(row).to_contain_text("the server could not be reached")
    page.unroute("**/upload?size=*")
    row.get_by_role("button", name="Retry").press("Enter")
    expect(page.locator("#open-added .upload")).to_contain_text("late.ncu-rep")


def test_runs_that_appear_are_noticed_on_every_page(url: str, watched: Path, open_page: Open) -> None:
    page = open_page(f"{url}/open")
    expect(page.locator("#open-watched")).to_contain_text("detected automatically")
    eventually(page, "() => document.querySelectorAll('#open-watched td')[1]?.textContent", "0")
    page.get_by_role("link", name="Compare").click()
    (watched / "new.ncu-rep").write_bytes(MAGIC + b"gemm")
    expect(page.locator("#new-launches")).to_have_text("2 new launches")
    page.get_by_role("link", name="Open").click()
    expect(page.locator("#open-watched td").nth(2)).to_have_text("2")
    page.get_by_role("button", name="Rescan now").press("Enter")
    expect(page.locator("#open-watched td").nth(1)).to_have_text("1")


def test_a_real_report_is_read_outside_of_the_server(tmp_path: Path, open_page: Open) -> None:
    loaded = "ncu_report" in sys.modules
    recorded = min(ROOT.rglob("report.ncu-repz"), key=lambda path: path.stat().st_size)
    given = Path(shutil.copy(recorded, tmp_path / "from the mail.ncu-repz"))
    with serving(ReportStore([])) as url:
        page = open_page(f"{url}/open")
        expect(page.locator("#open-watched")).to_contain_text("No folder was given")
        choose(page, given)
        expect(page.locator("#open-added").get_by_role("link").first).to_contain_text(recorded.parts[-3])
        page.close()  # before its server: it asks for news
    assert ("ncu_report" in sys.modules) is loaded


def test_the_page_is_labelled_and_fits(url: str, open_page: Open) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = open_page(f"{url}/open", color_scheme="dark")
    choose(page, file("x" * 180 + ".ncu-rep", MAGIC + b"gemm"), file("damaged.ncu-rep", MAGIC + b"?"))
    expect(page.locator("#open-added .upload")).to_have_count(2)
    expect(page.locator("#open-failed .note")).to_have_count(1)
    for width, scheme in ((1280, "dark"), (1920, "light")):
        page.set_viewport_size({"width": width, "height": 800})
        page.get_by_role("radio", name=scheme).check(force=True)
        assert page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
        found = Axe().run(page, context="main").response["violations"]
        assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == [], scheme
