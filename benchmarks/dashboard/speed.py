"""How fast the dashboard is on a generated store, and how much memory it takes.

    python -m benchmarks.dashboard.speed [--launches 10000] [--rounds 3] [--check]

Generates the store (``dashboard/store.py``), starts ``ncubble dashboard`` on it, and drives it with
a real Chromium as a person would: first page, sort, filter, search, scroll, kernel pages, source,
comparison, back. Prints

- *first page*: seconds from the server's first answer to a table with rows and their count, in a
  browser that runs;
- *server time*: of every request of that walk, from the last byte asked to the first byte answered
  (p50, p95, worst);
- *kernel page*: the same of the request for a layout that holds the page of a launch, for launches
  no page was made of before;
- *memory*: resident memory of the server afterwards, and its peak.

``--check`` ends with 1 where a figure is over its limit. The files of the store are read by the
system before, as on a machine that has just recorded them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, Request, sync_playwright

from benchmarks.harness.command import NCUBBLE, module
from benchmarks.harness.served import PRINTED

LIMITS = {"first page": 1000.0, "server time p95": 60.0, "kernel page": 300.0, "memory": 600.0}
"""ms, ms, ms, MB: what the product aims at up to 10,000 launches."""
LIMITS_OF_MANY = {"first page": 3000.0, "memory": 800.0}
"""The same for more, up to 100,000."""
MANY = 10_000
START_S = 60.0
SLOWEST = 12


def generate(folder: Path, launches: int, seeds: Sequence[str], detailed: int) -> list[str]:
    """The store in ``folder``, with frames for some runs; ids of launches that have frames."""
    environment = {**os.environ, "NCUBBLE_CACHE": str(folder / "cache")}
    argv = [*module("dashboard.store"), folder / "runs", *seeds, "--launches", str(launches)]
    argv += ["--detailed", str(detailed), "--ids", folder / "ids.json"]
    subprocess.run([*map(str, argv)], env=environment, check=True)
    found: list[str] = json.loads((folder / "ids.json").read_text())
    return found


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, int, float]]:
    """Printed address and process of ``ncubble dashboard`` on the store, and when it first
    answered."""
    environment = {**os.environ, "NCUBBLE_CACHE": str(folder / "cache")}
    argv = [*NCUBBLE, "dashboard", str(folder / "runs"), "--port", "0"]
    with (folder / "log").open("wb") as sink:
        process = subprocess.Popen(argv, stdout=sink, stderr=sink, env=environment, cwd=folder)
    try:
        until = time.monotonic() + START_S
        while not (found := PRINTED.search((folder / "log").read_text())):
            assert process.poll() is None and time.monotonic() < until, (folder / "log").read_text()
            time.sleep(0.01)
        visitor = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with visitor.open(found[1].replace("/?", "/assets/icon.svg?")) as answer:
            answer.read()
        yield found[1], process.pid, time.monotonic()
    finally:
        process.terminate()
        process.wait(20)


def memory_mb(pid: int) -> tuple[float, float]:
    """Resident memory of a process and its peak, in MB (10^6 bytes)."""
    said = Path(f"/proc/{pid}/status").read_text()
    return tuple(int(re.search(rf"{name}:\s+(\d+) kB", said)[1]) * 1.024e-3 for name in ("VmRSS", "VmHWM"))  # type: ignore[index,return-value]


class Timed:
    """Server times of the requests of a page, in ms, by what was asked."""

    def __init__(self, page: Page) -> None:
        self.found: list[tuple[str, float]] = []
        page.on("requestfinished", self._note)

    def _note(self, request: Request) -> None:
        timing = request.timing
        if "/_dash-component-suites/" in request.url or "/_dash-dependencies" in request.url:
            return  # the same for every page
        if "/assets/" not in request.url and timing["responseStart"] >= 0:
            self.found.append((_name(request), timing["responseStart"] - timing["requestStart"]))

    def of(self, part: str) -> list[float]:
        return [took for name, took in self.found if part in name]


def _name(request: Request) -> str:
    """What a request asks for: the outputs of a callback, else its path."""
    body = request.post_data if "_dash-update-component" in request.url else None
    return str(json.loads(body).get("output", "")) if body else re.sub(r"https?://[^/]+", "", request.url)


def first_page(page: Page, url: str, launches: int, since: float) -> tuple[float, float]:
    """Seconds from ``since`` and from the navigation until the table shows rows and their
    number."""
    began = time.monotonic()
    page.goto(url, wait_until="commit")
    page.wait_for_selector(".ag-center-cols-container .ag-row", timeout=60_000)
    page.locator("#match-count", has_text=f"{launches:,}").wait_for(timeout=60_000)
    now = time.monotonic()
    return now - since, now - began


def walk(page: Page, url: str, ids: Sequence[str], quiet: Callable[[], None]) -> None:
    """What a person does on the overview: sort, filter, search, scroll, compare."""
    header = ".ag-header-cell[col-id='{}'] .ag-header-cell-text"
    for column in ("duration_ns", "dram", "busy"):
        page.locator(header.format(column)).first.click()
        quiet()
    for text in ("gemm", "stages=3", "(wmma|softmax)", ""):
        page.locator("#search").fill(text)
        quiet()
    for step in (3000, 9000, 30000, 120000, -200000):
        page.locator(".ag-center-cols-viewport").hover()
        page.mouse.wheel(0, step)
        quiet()
    chosen = "&".join(f"launch={one}" for one in ids[:2])
    for address in (f"/compare?{chosen}", f"/source/{ids[0]}", "/sweep", "/timelines", "/checks", "/open", "/"):
        page.goto(url + address)
        quiet()


def measure(folder: Path, launches: int, ids: Sequence[str], rounds: int, pages: int) -> dict[str, float]:
    """All figures: the median of ``rounds`` first visits, then one walk and ``pages`` of
    launches."""
    firsts, shown = list[float](), list[float]()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        browser.new_page().close()
        for number in range(rounds):
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            timed = Timed(page)
            with serving(folder) as (url, pid, since):
                took, opened = first_page(page, url, launches, since)
                firsts.append(took)
                shown.append(opened)
                if number == rounds - 1:
                    kernels = _walk_all(page, timed, url.partition("/?")[0], ids, pages)
                    resident, peak = memory_mb(pid)
        browser.close()
    everything = [took for _, took in timed.found]
    for name, took in sorted(timed.found, key=lambda one: -one[1])[:SLOWEST]:
        print(f"  slowest: {took:7.1f} ms  {name[:110]}")
    return {
        "first page": 1e3 * statistics.median(firsts),
        "first page worst": 1e3 * max(firsts),
        "navigation": 1e3 * statistics.median(shown),
        "requests": float(len(everything)),
        "server time p50": statistics.median(everything),
        "server time p95": statistics.quantiles(everything, n=20)[-1],
        "server time worst": max(everything),
        "kernel page": statistics.quantiles(kernels, n=20)[-1] if len(kernels) > 1 else max(kernels),
        "kernel page p50": statistics.median(kernels),
        "kernel page worst": max(kernels),
        "memory": resident,
        "memory peak": peak,
    }


def _walk_all(page: Page, timed: Timed, url: str, ids: Sequence[str], pages: int) -> list[float]:
    """The walk, then pages of launches; server times of those, in ms."""

    def quiet() -> None:
        page.wait_for_load_state("networkidle", timeout=60_000)
        page.wait_for_timeout(150)

    walk(page, url, ids, quiet)
    before = len(timed.found)
    chosen = random.Random(2).sample(list(ids), min(pages, len(ids)))  # noqa: S311
    for one in chosen:
        page.goto(f"{url}/kernel/{one}")
        page.locator(".js-plotly-plot .main-svg").first.wait_for(timeout=60_000)
        quiet()
    return [took for name, took in timed.found[before:] if "/_dash-layout" in name and took > 0]


def main() -> int:
    parser = argparse.ArgumentParser(description="How fast the dashboard is on a generated store")
    parser.add_argument("--launches", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pages", type=int, default=30, help="pages of launches that are opened")
    parser.add_argument("--detailed", type=int, default=60, help="runs that have frames")
    parser.add_argument("--check", action="store_true", help="end with 1 where a limit is passed")
    parser.add_argument(
        "--slack", type=float, default=1.0, help="how often the limits of time count, on a busy machine"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--seeds", nargs="*", default=[], help="runs that launches are made of (else the recordings)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ncubble-speed-") as name:
        folder = Path(name)
        ids = generate(folder, given.launches, given.seeds, given.detailed)
        found = measure(folder, given.launches, ids, given.rounds, given.pages)
    limits = LIMITS_OF_MANY if given.launches > MANY else LIMITS
    for key, value in found.items():
        limit = f"   (limit {limits[key]:g})" if key in limits else ""
        print(f"{key:20s} {value:9.1f}{limit}")
    if given.json:
        given.json.write_text(json.dumps({"launches": given.launches, **found}, indent=1) + "\n")
    over = [key for key, limit in limits.items() if found[key] > limit * (1.0 if key == "memory" else given.slack)]
    if over:
        print(f"over the limit: {', '.join(over)}")
    return 1 if given.check and over else 0


if __name__ == "__main__":
    sys.exit(main())
