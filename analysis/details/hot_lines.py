"""The source lines of a launch that warps were most often found at."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ncubble.analysis.report.frames import stall_columns


def hot_lines(source: pd.DataFrame, limit: int) -> tuple[list[dict[str, Any]], list[str]]:
    """At most ``limit`` lines of a launch's source frame, most samples first, and what is missing.

    A row has ``file`` and ``line`` (where the code names lines), ``sass`` (its hottest
    instruction), ``samples_pct`` of the launch, and ``stall``: the reason of most of its samples
    but ``selected``.
    """
    total = float(source["samples"].sum()) if not source.empty else 0.0
    if not total > 0:
        return [], ["warp samples were not collected: profile with --set source"]
    sampled = source[source["samples"] > 0]
    lines = bool((sampled["line"] > 0).any())
    groups = sampled.groupby(["file", "line"] if lines else "pc", sort=False)
    found = [_row(group, total) for _, group in groups]
    found.sort(key=lambda row: row["samples_pct"], reverse=True)
    return found[:limit], [] if lines else ["the code names no source lines: compile with -lineinfo"]


def _row(group: pd.DataFrame, total: float) -> dict[str, Any]:
    hottest = group.iloc[int(group["samples"].to_numpy().argmax())].to_dict()
    stalls = {name: float(group[name].sum()) for name in stall_columns(group) if name != "selected"}
    main = max(stalls, key=lambda name: stalls[name], default="")
    place = {"file": hottest["file"], "line": int(hottest["line"])} if hottest["line"] else {}
    return {
        **place,
        "sass": hottest["sass"].split(";")[0].strip(),
        "samples_pct": round(100.0 * float(group["samples"].sum()) / total, 1),
        "stall": main if stalls.get(main) else None,
    }
