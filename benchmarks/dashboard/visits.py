"""How long a visitor waits: from the start of the navigation to the first figure that is painted.

    python -m benchmarks.dashboard.visits [--visits 12] [--pages /sweep …] [--other CHECKOUT]

Serves the recordings that ship with ncubble, and a page of bare Dash with one figure of plotly, and
visits both in turns with a real Chromium at rest. A *cold* visit is the first one of a browser: it
has none of the files. A *warm* one is the next visit of the same browser. Prints medians in ms, the
ratio to the bare page, and the processor time of the page's main thread, which a busy machine
changes less. ``--other`` visits the dashboard of another checkout, too.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, sync_playwright

from benchmarks.harness.command import REPOSITORY
from benchmarks.harness.served import Served
from ncubble.recordings import LANES, PROGRAM, ROOT

PAGES = ("/", "/kernel", "/sweep?kernel=triton_gemm&x=stages", "/program", "/compare", "/timelines")
BARE = """
from dash import Dash, dcc, html
from waitress import create_server
app = Dash()
figure = {"data": [{"type": "bar", "x": list("abcdefgh"), "y": [8, 3, 5, 2, 7, 1, 4, 6]}], "layout": {"title": "bare"}}
app.layout = html.Div([html.H1("A page"), dcc.Graph(figure=figure)])
server = create_server(app.server, host="127.0.0.1", port=0, threads=8)
print(f"http://127.0.0.1:{server.effective_port}/", flush=True)
server.run()
"""
PAINTED = """
window.painted = new Promise((note) => {
  const look = () => {
    if (!document.querySelector("SELECTOR")) requestAnimationFrame(look);
    else requestAnimationFrame(() => setTimeout(() => note(performance.now())));
  };
  requestAnimationFrame(look);
  setTimeout(() => note(NaN), 20000);
});
"""
"""What notes when a figure has been painted: in the frame after the one that finds its marks."""
MARKS = ".js-plotly-plot .trace, .ag-center-cols-container .ag-row"
"""Marks of a figure with data (an empty one has none), and rows of the first page's table."""
RECORDINGS = (ROOT, LANES, PROGRAM)
KERNEL = "gemm_ws"


@contextmanager
def bare(folder: Path) -> Iterator[str]:
    """The address of a page of Dash with one figure."""
    process = subprocess.Popen([sys.executable, "-c", BARE], stdout=subprocess.PIPE, cwd=folder, text=True)
    try:
        yield process.stdout.readline().strip()  # type: ignore[union-attr]
    finally:
        process.terminate()
        process.wait(20)


def visit(context: BrowserContext, url: str) -> tuple[float, float]:
    """Milliseconds from the start of the navigation to the first painted figure, and of processor
    time that the main thread of the page took until then."""
    page = context.new_page()
    page.add_init_script(PAINTED.replace("SELECTOR", MARKS))
    counters = context.new_cdp_session(page)
    counters.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(url, wait_until="commit")
    took = float(page.evaluate("window.painted"))
    counted = {each["name"]: each["value"] for each in counters.send("Performance.getMetrics")["metrics"]}
    page.close()
    return took, 1e3 * counted["TaskDuration"]


def visits(browser: Browser, url: str, cookie: str) -> list[tuple[float, float]]:
    """A cold visit and a warm one."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    if cookie:
        name, _, value = cookie.partition("=")
        context.add_cookies([{"name": name, "value": value, "domain": "127.0.0.1", "path": "/"}])
    found = [visit(context, url) for _ in range(2)]
    context.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="How long a visitor of the dashboard waits")
    parser.add_argument("--visits", type=int, default=12)
    parser.add_argument("--pages", nargs="*", default=PAGES)
    parser.add_argument("--other", type=Path, help="another checkout, visited in turns with this one")
    given = parser.parse_args()
    sources = {"": REPOSITORY} | ({"other ": given.other} if given.other else {})
    found: dict[str, list[list[tuple[float, float]]]] = {}
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        for recording in RECORDINGS:
            shutil.copytree(recording, Path(name, "runs", recording.name))
        addresses = {"bare Dash": (stack.enter_context(bare(Path(name))), "")}
        for side, checkout in sources.items():
            folder = Path(name, f"served {side}")
            folder.mkdir()
            served = stack.enter_context(Served(Path(name, "runs"), folder, 600.0, checkout))
            served.wait(300)
            launch = next(row["id"] for row in served.rows() if row["name"] == KERNEL)
            for path in given.pages:
                path_of = path.replace("/kernel", f"/kernel/{launch}")
                addresses[side + path] = f"http://{served.host}{path_of}", served.cookie
        driver = stack.enter_context(sync_playwright())
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        browser.new_page().close()
        for _ in range(given.visits):
            for page, (url, cookie) in addresses.items():
                found.setdefault(page, []).append(visits(browser, url, cookie))
                print(page, found[page][-1], flush=True)
        browser.close()
    table = {
        page: [statistics.median(one[visit][kind] for one in rounds) for visit in (0, 1) for kind in (0, 1)]
        for page, rounds in found.items()
    }
    least = table["bare Dash"]
    print(f"{'':34s}{'cold, ms':>10s}{'ratio':>8s}{'thread':>8s}{'warm, ms':>10s}{'ratio':>8s}{'thread':>8s}")
    for page, (cold, cold_cpu, warm, warm_cpu) in table.items():
        first = f"{cold:10.0f}{cold / least[0]:8.2f}{cold_cpu:8.0f}"
        print(f"{page[:34]:34s}{first}{warm:10.0f}{warm / least[2]:8.2f}{warm_cpu:8.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
