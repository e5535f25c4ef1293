"""Takes the pictures of README from the recorded runs: ``make images`` writes docs/images/*.png, each below 200 kB."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

from ncubble.dashboard.app import create_app
from ncubble.dashboard.data import ReportStore
from ncubble.dashboard.server import Server

REPOSITORY = Path(__file__).parents[2]
IMAGES = REPOSITORY / "docs" / "images"
RECORDED = Path("recordings/h200")
SHOWN = RECORDED / "triton_gemm" / "stages2"
LARGEST_B = 200_000


def main() -> None:
    """Serve the recordings, photograph overview and kernel page."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium is not installed (apt-get install chromium)")
    os.chdir(REPOSITORY)  # The page shows the paths that it was given.
    store = ReportStore([RECORDED]).start()
    store.wait()
    address = next(row["id"] for row in store.rows() if Path(row["path"]) == SHOWN)
    server = Server(create_app([], store=store), "127.0.0.1", 0)
    threading.Thread(target=server.run, daemon=True).start()
    IMAGES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu", "--disable-lcd-text"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
        page.goto(server.url)
        expect(page.locator("#match-count")).to_have_text(f"{len(store.rows())} shown")
        taken = [_photograph(page, "overview.png", ".scatter-card")]
        page.goto(f"{server.url.rstrip('/')}/kernel/{address}")
        expect(page.locator(".js-plotly-plot")).to_have_count(5)
        taken.append(_photograph(page, "bubbles.png", "section.card:has(h2:text-is('Timeline'))"))
        browser.close()
    server.close()
    if large := [f"{path}: {path.stat().st_size} B" for path in taken if path.stat().st_size > LARGEST_B]:
        raise SystemExit(f"larger than {LARGEST_B} B: {', '.join(large)}")


def _photograph(page: Page, name: str, last: str) -> Path:
    """The page from below its header to the end of the element ``last``, as a picture that is as wide as the window."""
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
