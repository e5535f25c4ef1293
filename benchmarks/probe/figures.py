"""The drawings of pipelining within a kernel, as measured: what the warps of one CTA did, from
recordings that ship.

Usage: python -m benchmarks.probe.figures [OUT]    (OUT: docs/images; writes trace-*.png, and prints the table)
Needs playwright with a chromium, and Pillow.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.harness.command import REPOSITORY
from ncubble.analysis.traces.lanes import cut, read_lanes
from ncubble.recordings import LANES


@dataclass(frozen=True)
class Drawing:
    """One figure: the recording, what it is called, and how many tiles lie between two of a CTA in
    its index."""

    name: str
    title: str
    stride: int


DRAWINGS = (
    Drawing("single", "One buffer, all warps alike", 1),
    Drawing("double", "Double buffering: two buffers, all warps alike", 1),
    Drawing("specialized", "Warp specialization with one buffer", 132),
    Drawing("both", "Warp specialization and double buffering", 132),
)
SPAN_NS = 6000.0
WIDTH, LEFT, RIGHT, TOP, ROW, GAP = 900, 112, 14, 62, 21, 3
COLORS = {"load": "#3f7fbf", "compute": "#3a9a63", "store": "#d9822b", "copy in flight": "#a9c9ea"}
WAIT = "#eceff3"
LEGEND = (*COLORS, "waits")
PAIRS = (
    ("load", "compute"),
    ("compute", "store"),
    ("load", "compute", "store"),
    ("compute", "copy in flight"),
)


def numbered(lanes: pd.DataFrame, drawing: Drawing) -> pd.DataFrame:
    """``lanes`` with ``number``: which of its tiles a CTA is at."""
    return lanes.assign(number=lanes["index"] // drawing.stride)


def steady(lanes: pd.DataFrame) -> float:
    """Where a stretch of the middle begins: with a tile's computing, in ns."""
    middle = (float(lanes["start_ns"].min()) + float(lanes["end_ns"].max())) / 2
    starts = lanes.loc[(lanes["tag"] == "compute") & (lanes["start_ns"] > middle), "start_ns"]
    return float(starts.min()) - 60.0


def rows_of(lanes: pd.DataFrame) -> list[tuple[str, str]]:
    """(lane, what stands beside it): warps by number, then what is in flight."""
    own = lanes[["lane", "group", "warp"]].drop_duplicates().sort_values(["warp", "lane"])
    warps = own[own["warp"] >= 0]
    named = [
        (lane, f"warp {warp}" if group == "warp" else f"{group} {warp}")
        for lane, group, warp in zip(warps["lane"], warps["group"], warps["warp"], strict=True)
    ]
    copies = own.loc[own["warp"] < 0, "lane"]
    return named + [(lane, f"copies {place}" if len(copies) > 1 else "copies") for place, lane in enumerate(copies, 1)]


def share(told: dict[str, Any], what: tuple[str, ...]) -> float:
    """Percent of the SM's time in which all of ``what`` are under way."""
    return float(next((one["pct_of_span"] for one in told["overlaps"] if set(one["what"]) == set(what)), 0.0))


def picture(lanes: pd.DataFrame, told: dict[str, Any], drawing: Drawing) -> tuple[str, int]:
    """The SVG of a recording, and its height."""
    low = steady(lanes)
    shown = numbered(cut(lanes, low, low + SPAN_NS), drawing)
    rows = rows_of(shown)
    height = TOP + len(rows) * ROW + 26
    scale = (WIDTH - LEFT - RIGHT) / SPAN_NS
    parts = [_head(drawing, told), _legend()]
    for place, (lane, label) in enumerate(rows):
        y = TOP + place * ROW
        parts.append(_text(LEFT - 8, y + ROW - 7, label, anchor="end"))
        for one in shown[shown["lane"] == lane].itertuples():
            x, width = LEFT + (one.start_ns - low) * scale, (one.end_ns - one.start_ns) * scale
            parts.append(_box(x, y, width, one.tag, one.number))
    parts.append(_axis(TOP + len(rows) * ROW, scale))
    size = f'width="{WIDTH}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="DejaVu Sans, sans-serif">'
    hatch = (
        '<defs><pattern id="wait" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<rect width="5" height="5" fill="{WAIT}"/><rect width="1" height="5" fill="#c3cad3"/></pattern></defs>'
    )
    return f'{head}{hatch}<rect {size} fill="#ffffff"/>{"".join(parts)}</svg>', height


def _head(drawing: Drawing, told: dict[str, Any]) -> str:
    load, store, copies = (share(told, (what, "compute")) for what in ("load", "store", "copy in flight"))
    said = (
        f"one CTA on an H200, {SPAN_NS / 1e3:g} of {told['span_ns'] / 1e3:.0f} µs · beside computing: "
        f"loading {load:.0f} %, storing {store:.0f} %, copies in flight {copies:.0f} % of the time"
    )
    return _text(12, 20, drawing.title, size=14, weight="bold") + _text(12, 37, said, size=11, color="#4a5560")


def _legend() -> str:
    parts, x = [], float(LEFT)
    for name in LEGEND:
        fill = COLORS.get(name, "url(#wait)")
        parts.append(f'<rect x="{x}" y="45" width="12" height="10" fill="{fill}" stroke="#6b7680" stroke-width="0.4"/>')
        parts.append(_text(x + 17, 54, name, size=10.5))
        x += 34 + 6.4 * len(name)
    parts.append(_text(x + 6, 54, "numbers: which tile of the CTA", size=10.5, color="#4a5560"))
    return "".join(parts)


def _box(x: float, y: float, width: float, tag: str, number: int) -> str:
    waits = tag.startswith("wait")
    fill = "url(#wait)" if waits else COLORS.get(tag, "#999999")
    box = f'<rect x="{x:.1f}" y="{y}" width="{max(width, 0.5):.1f}" height="{ROW - GAP}" fill="{fill}"'
    box += "/>" if waits else ' stroke="#ffffff" stroke-width="0.5"/>'
    if waits or width < 17:
        return box
    text = f"{tag} {number}" if width > 6.2 * len(f"{tag} {number}") + 4 and tag in ("load", "compute") else f"{number}"
    color = "#26323d" if tag == "copy in flight" else "#ffffff"
    return box + _text(x + width / 2, y + 13, text, size=10.5, color=color, anchor="middle")


def _axis(y: int, scale: float) -> str:
    parts = []
    for step in range(int(SPAN_NS / 1000) + 1):
        x = LEFT + 1000 * step * scale
        parts.append(f'<line x1="{x}" x2="{x}" y1="{y}" y2="{y + 5}" stroke="#4a5560"/>')
        last = step == int(SPAN_NS / 1000)
        parts.append(_text(x, y + 18, f"{step} µs" if last else f"{step}", anchor="end" if last else "middle"))
    return "".join(parts)


def _text(
    x: float,
    y: float,
    text: str,
    size: float = 11,
    color: str = "#26323d",
    anchor: str = "start",
    weight: str = "normal",
) -> str:
    look = f'font-size="{size}" fill="{color}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{escape(text)}</text>'


def write_png(svg: str, height: int, path: Path) -> None:
    """Draws ``svg`` with a browser, in twice its size and 64 colours."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": height}, device_scale_factor=2)
        page.set_content(f'<body style="margin:0">{svg}</body>')
        page.screenshot(path=str(path))
        browser.close()
    with Image.open(path) as drawn:
        few = drawn.convert("RGB").quantize(64, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def table() -> str:
    """What overlaps in each recording, as a table of Markdown."""
    head = ["", "per tile", *(" + ".join(pair) for pair in PAIRS), "loaders wait for a slot", "launch without probe"]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for drawing in DRAWINGS:
        told, lanes = read_lanes(LANES / f"trace-{drawing.name}").facts, _lanes(drawing)
        tiles = numbered(lanes[lanes["tag"] == "compute"], drawing)["number"].nunique()
        cells = [f"{share(told, pair):.1f} %" for pair in PAIRS]
        waits = [one["pct"] for one in told["shares"] if (one["group"], one["tag"]) == ("loader", "wait_slot")]
        cells += [f"{waits[0]:.1f} %" if waits else "-", f"{told['cost']['off_us']:.1f} µs"]
        lines.append("| " + " | ".join([drawing.name, f"{told['span_ns'] / tiles:.0f} ns", *cells]) + " |")
    return "\n".join(lines)


def _lanes(drawing: Drawing) -> pd.DataFrame:
    return read_lanes(LANES / f"trace-{drawing.name}").rows


def main() -> None:
    """Draw all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    images = REPOSITORY / "docs" / "images"
    parser.add_argument("out", nargs="?", type=Path, default=images, help="folder of the pictures (docs/images)")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for drawing in DRAWINGS:
        svg, height = picture(_lanes(drawing), read_lanes(LANES / f"trace-{drawing.name}").facts, drawing)
        path = out / f"trace-{drawing.name}.png"
        write_png(svg, height, path)
        print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")
    print(table())


if __name__ == "__main__":
    main()
