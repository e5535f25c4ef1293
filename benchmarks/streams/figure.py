"""The figures of docs/streams.md from recordings that ship: one pipeline from pinned and from
pageable memory, and the streams of a run with the warps within one of its kernels.

Usage: python -m benchmarks.streams.figure [OUT]    (OUT: docs/images; writes streams-*.png)
       python -m benchmarks.streams.figure OUT RUN  (streams-levels.png of that run of `ncubble streams --warps`)
Needs kaleido with a Chromium.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go

from ncubble.analysis.streams.account import levels_of
from ncubble.analysis.traces.lanes import FILE, WARPS, read_lanes
from ncubble.dashboard.pages.timelines.figures import MICROSECONDS, lanes_figure
from ncubble.dashboard.pages.timelines.levels import levels_figure
from ncubble.recordings import LANES, LEVELS

SHOWN = {"pinned": "streams-pipeline", "pageable": "streams-pageable"}
SPAN_NS = 3.0e6
"""One run of the pipeline from pinned memory: 32 chunks. From pageable memory it is a tenth of
one."""
WIDTH, HEIGHT = 1100, 330


def engines(name: str, memory: str) -> pd.DataFrame:
    """The lanes of a recording with those of an engine as one, and the idle time of the SMs below
    them."""
    lanes = pd.read_parquet(LANES / name / FILE).astype({"lane": str, "group": str, "tag": str})
    zero = lanes["start_ns"].min()
    idle = lanes["lane"] == "no SM works"
    lanes["group"] = [
        f"{memory} · {'no SM works' if one else group}" for one, group in zip(idle, lanes["group"], strict=True)
    ]
    lanes["tag"] = lanes["tag"].str.replace("stream_pipeline", "kernel").str.replace(", pageable", "")
    return lanes.assign(lane=lanes["group"], start_ns=lanes["start_ns"] - zero, end_ns=lanes["end_ns"] - zero)


def pipelines(out: Path) -> None:
    frame = pd.concat([engines(name, memory) for memory, name in SHOWN.items()], ignore_index=True)
    frame = frame[frame["start_ns"] < SPAN_NS]
    order = {"H2D": 0, "SMs": 1, "D2H": 2, "no SM works": 3}
    place = [(list(SHOWN).index(group.split(" · ")[0]), order[group.split(" · ")[1]]) for group in frame["group"]]
    frame = frame.assign(place=place).sort_values("place", kind="stable").drop(columns="place")
    figure = lanes_figure(frame, (0.0, SPAN_NS), unit=MICROSECONDS).figure.checked
    figure.update_xaxes(title="us since the first copy")
    write(figure, out / "streams-pipeline.png", HEIGHT)


def levels(run: Path, out: Path) -> None:
    """Streams above, warps of the launch in the middle below."""
    found = levels_of(*(read_lanes(folder).rows for folder in (run, run / WARPS)))
    if found is None:
        raise SystemExit(f"{run}: its warps belong to no kernel of its streams")
    figure = levels_figure(found).checked
    write(figure, out / "streams-levels.png", int(figure.layout.height))


def write(figure: go.Figure, path: Path, height: int) -> None:
    """Draws ``figure`` on white."""
    figure.update_layout(
        template="plotly_white", font={"family": "DejaVu Sans, sans-serif", "size": 12}, paper_bgcolor="white"
    )
    figure.write_image(path, width=WIDTH, height=height)


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/images")
    if len(sys.argv) <= 2:
        pipelines(out)
    levels(Path(sys.argv[2]) if len(sys.argv) > 2 else LEVELS / "streams-levels", out)


if __name__ == "__main__":
    main()
