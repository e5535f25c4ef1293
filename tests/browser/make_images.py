"""Takes the pictures of README from the recorded runs: ``make images`` writes docs/images/*.png,
each below 300 kB."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from ncubble.dashboard.app.app import create_app
from ncubble.dashboard.app.serving import Server
from ncubble.dashboard.data.store import ReportStore

REPOSITORY = Path(__file__).parents[2]
IMAGES = REPOSITORY / "docs" / "images"
RECORDED = (Path("recordings/h200"), Path("recordings/h200-full"))
LARGEST_B = 300_000


def main() -> None:
    """Serve the recordings, photograph five pages."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium is not installed (apt-get install chromium)")
    os.chdir(REPOSITORY)  # The page shows the paths that it was given.
    store = ReportStore(RECORDED).start()
    store.wait()
    server = Server(create_app([], store=store), "127.0.0.1", 0)
    threading.Thread(target=server.run, daemon=True).start()
    IMAGES.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=20_000)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu", "--disable-lcd-text"]
        )
        taken = list(_photographs(browser, server.url.rstrip("/"), store))
        browser.close()
    server.close()
    if large := [f"{path}: {path.stat().st_size} B" for path in taken if path.stat().st_size > LARGEST_B]:
        raise SystemExit(f"larger than {LARGEST_B} B: {', '.join(large)}")


def _photographs(browser: Browser, url: str, store: ReportStore) -> Iterator[Path]:
    ids = {Path(row["path"]): row["id"] for row in store.rows()}
    triton = RECORDED[0] / "triton_gemm"
    light = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
    light.goto(url)
    expect(light.locator("#match-count")).to_contain_text(f", {len(store.rows())} launches")
    expect(light.locator(".scatter-card .js-plotly-plot .point").first).to_be_visible()
    yield _photograph(light, "overview.png", ".scatter-card")
    light.goto(f"{url}/kernel/{ids[RECORDED[1] / 'gemm_tma' / 'stages2-full']}")
    expect(light.locator(".js-plotly-plot .main-svg").nth(4)).to_be_attached()
    light.wait_for_timeout(2000)
    yield _photograph(light, "bubbles.png", "section.card:has(h2:text-is('Timeline')) .js-plotly-plot")
    light.goto(f"{url}/sweep?kernel=triton_gemm&x=stages")
    expect(light.locator(".js-plotly-plot .main-svg").nth(4)).to_be_attached()
    yield _photograph(light, "sweep.png", "section.card:has(h2:text-is('Predicted and measured'))")
    dark = browser.new_page(viewport={"width": 1280, "height": 720}, color_scheme="dark")
    dark.goto(f"{url}/source/{ids[triton / 'stages2']}")
    expect(dark.locator("h1")).to_contain_text("Source of")
    dark.wait_for_timeout(3000)
    path = IMAGES / "source.png"
    dark.screenshot(path=path, clip={"x": 0.0, "y": 48.0, "width": 1280.0, "height": 672.0})
    yield path
    dark.goto(f"{url}/compare?launch={ids[triton / 'stages2']}&launch={ids[triton / 'stages4']}")
    expect(dark.locator(".js-plotly-plot .main-svg").nth(3)).to_be_attached()
    yield _photograph(dark, "compare.png", "section.card:has(h2:text-is('Bubble accounts'))")


def _photograph(page: Page, name: str, last: str) -> Path:
    """The page from below its header to the end of the element ``last``, as a picture that is as
    wide as the window."""
    page.wait_for_timeout(800)
    page.mouse.move(0, 0)
    box = page.locator(last).bounding_box()
    if box is None:
        raise RuntimeError(f"{name}: nothing on the page matches {last}")
    path, top = IMAGES / name, 48.0
    clip = {"x": 0.0, "y": top, "width": 1280.0, "height": box["y"] + box["height"] + 14.0 - top}
    page.screenshot(path=path, full_page=True, clip=clip)  # type: ignore[arg-type]
    return path


if __name__ == "__main__":
    main()
