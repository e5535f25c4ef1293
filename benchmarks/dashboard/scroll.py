"""How smoothly the Source page scrolls: a launch of 20,000 instructions and 6,000 source lines, in
real Chromium.

    python -m benchmarks.dashboard.scroll [--rows 20000] [--lines 6000] [--json]

The launch is made up. Wheel events scroll its SASS from the first row to the last;
``requestAnimationFrame`` gives the time of each frame. Dropped are as many frames as the display
stood still for. Prints frame times in ms, the size of the payload, the server's time for it, the
time to the first rows, and the CPU time of the page's main thread for each step that showed new
rows, which other programs on the machine hardly change.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from playwright.sync_api import Page, sync_playwright

from ncubble.analysis.account.stalls import CLASSES
from ncubble.dashboard.app.app import create_app
from ncubble.dashboard.app.serving import Server
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.source.layout import pack

REASONS = ("long_scoreboard", "short_scoreboard", "barrier", "wait", "mio_throttle", "math_pipe_throttle", "selected")
SASS = (
    "LDGSTS.E.BYPASS.128 [R{0}+{2:#x}], desc[UR4][R{1}.64], !P0",
    "HMMA.16816.F32 R{0}, R{1}, R{2}, R{0}",
    "LDSM.16.M88.4 R{0}, [R{1}+{2:#x}]",
    "IMAD.WIDE.U32 R{0}, R{1}, 0x40, R{2}",
    "@!P1 FFMA R{0}, R{1}, c[0x0][{2:#x}], R{0}",
)
FRAMES = """() => {
    window.frames_ = [];
    const tick = (now) => {
        window.frames_.push(now);
        if (window.frames_ !== null) window.next_ = requestAnimationFrame(tick);
    };
    window.next_ = requestAnimationFrame(tick);
}"""
STOP = "() => { cancelAnimationFrame(window.next_); return window.frames_; }"
WHEEL_PX = 400
WHEEL_S = 0.010


def listing(rows: int, lines: int) -> tuple[pd.DataFrame, dict[str, str]]:
    """A source frame of ``rows`` instructions in three files of ``lines`` lines together, and the
    files' texts."""
    rng = np.random.default_rng(3)
    numbers = rng.integers(0, 255, (rows, 3))
    sass = [SASS[index % len(SASS)].format(*numbers[index]) for index in range(rows)]
    names = [f"/home/someone/{name}" for name in ("gemm.cu", "tile.cuh", "copy.cuh")]
    file = np.repeat(np.arange(3), -(-rows // 3))[:rows]
    each = lines // 3
    samples = (rng.pareto(1.2, rows) * 8).round()
    shares = rng.dirichlet(np.full(len(REASONS), 0.4), rows)
    frame = pd.DataFrame(
        {
            "launch": 0,
            "pc": np.arange(rows) * 16,
            "sass": sass,
            "opcode": [text.split()[1 if text.startswith("@") else 0] for text in sass],
            "file": np.array(names)[file],
            "line": 1 + (np.arange(rows) * 7) % each,
            "samples": samples,
            "executed": rng.integers(1, 4096, rows) * 512.0,
        }
    )
    for number, reason in enumerate(REASONS):
        frame[reason] = (samples * shares[:, number]).round()
    text = "\n".join(
        f"    const float x{line} = a[{line} * 0x20 + threadIdx.x];  // tile {line}" for line in range(each)
    )
    return frame, dict.fromkeys(names, text)


def store(rows: int, lines: int, folder: Path) -> ReportStore:
    """A loaded store of one report with such a launch, and an account that gave its samples to
    parts."""
    from tests.helpers import dashboard_frames as frames

    report: Any = frames.gemm()
    report.source, report.files = listing(rows, lines)
    report.source_of = lambda launch: report.source if launch == 0 else report.source.iloc[0:0]
    weights = pd.DataFrame(0.0, index=range(rows), columns=list(CLASSES))
    for part, reason in zip(("data_wait", "smem_wait", "sync_wait", "issue", "copy_cost"), REASONS, strict=False):
        weights[part] = report.source[reason]
    parts = dict.fromkeys(("data_wait", "smem_wait", "sync_wait", "issue", "copy_cost"), 10.0)

    def account(asked: Any, launch: int) -> Any:
        return SimpleNamespace(parts={**parts, "tensor_busy": 50.0}, weights=weights, unit="tensor")

    path = folder / "a.ncu-rep"
    path.touch()
    loaded = ReportStore([path], lambda asked: ([report], []), frames.judge, account).start()
    loaded.wait(60)
    return loaded


def scroll(page: Page, rows: int) -> dict[str, float]:
    """Wheel from the first SASS row to the last; frame times in ms, while the wheel turns."""
    grid = page.locator("#source-sass")
    box = grid.bounding_box()
    assert box is not None
    grid.evaluate("(grid) => (grid.scrollTop = 0)")
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    cdp = page.context.new_cdp_session(page)
    cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = _counters(cdp)
    page.evaluate(FRAMES)
    for _ in range(rows * 18 // WHEEL_PX + 20):
        page.mouse.wheel(0, WHEEL_PX)
        time.sleep(WHEEL_S)
    stamps, after = page.evaluate(STOP), _counters(cdp)
    drawn = after["LayoutCount"] - before["LayoutCount"]
    last = page.locator(f"#source-sass .code-row[data-at='{rows - 1}']")
    last.wait_for(timeout=10_000)
    work = {"cpu_ms_per_step": 1e3 * (after["TaskDuration"] - before["TaskDuration"]) / max(1.0, drawn)}
    return {**frame_times([float(stamp) for stamp in stamps]), **work}


def _counters(cdp: Any) -> dict[str, float]:
    return {one["name"]: float(one["value"]) for one in cdp.send("Performance.getMetrics")["metrics"]}


def frame_times(stamps: list[float]) -> dict[str, float]:
    """Statistics of the time between frames, in ms; ``dropped`` frames are those the display showed
    nothing new in."""
    times = np.diff(np.array(stamps))
    display = float(statistics.median(times))
    missed = np.clip(np.round(times / display) - 1, 0, None)
    p50, p95, p99 = (float(value) for value in np.percentile(times, [50, 95, 99]))
    found = {"frames": float(len(times)), "p50_ms": p50, "p95_ms": p95, "p99_ms": p99, "max_ms": float(times.max())}
    return {**found, "dropped": float(missed[times > 1.5 * display].sum())}


def measure(rows: int, lines: int, chromium: str = "/usr/bin/chromium") -> dict[str, float]:
    """Serve the launch, open its page and scroll through it."""
    with tempfile.TemporaryDirectory() as folder:
        loaded = store(rows, lines, Path(folder))
        entry = loaded.find("0123456789abcdef", 0)
        assert entry is not None
        started = time.perf_counter()
        packed = pack(loaded, entry)
        served_ms = 1e3 * (time.perf_counter() - started)
        server = Server(create_app([], store=loaded), "127.0.0.1", 0)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            found = _in_browser(f"{server.url}source/0123456789abcdef/0", rows, chromium)
        finally:
            server.close()
            thread.join(20)
    sizes = {"payload_kb": len(packed) / 1e3, "json_kb": len(gzip.decompress(packed)) / 1e3}
    return {"rows": float(rows), "server_ms": served_ms, **sizes, **found}


def _in_browser(url: str, rows: int, chromium: str) -> dict[str, float]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        started = time.perf_counter()
        page.goto(url)
        page.locator("#source-sass .code-row").first.wait_for()
        first = time.perf_counter() - started
        page.wait_for_timeout(500)
        nodes = page.evaluate("() => document.querySelectorAll('.code-row').length")
        found = scroll(page, rows)
        browser.close()
    return {"first_rows_ms": 1e3 * first, "row_nodes": float(nodes), **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--lines", type=int, default=6_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.rows, options.lines)
    if options.json:
        print(json.dumps({name: round(value, 2) for name, value in found.items()}))
        return
    for name, value in found.items():
        print(f"{name:>14}  {value:10.1f}")


if __name__ == "__main__":
    main()
