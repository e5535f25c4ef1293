"""The account of a trace: on lanes of a few regions, and on every trace that ships."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ncubble.analysis.traces import account as traces
from ncubble.analysis.traces.account import ORDER, TraceAccount, trace_account
from ncubble.analysis.traces.lanes import FILE, Lanes, folders_with, lane_kind, read_warps
from ncubble.errors import ReportError
from ncubble.recordings import LANES, ROOT

TRACES = [run for run in folders_with(FILE, [LANES, ROOT.parent / "h100-lanes"]) if lane_kind(run) == "warps"]


def lanes(*regions: tuple[int, str, float, float], sm: int = 0, cta: int = 0, launch: int = 0) -> pd.DataFrame:
    """Regions as (warp, tag, start, end); the index of a region is its place among its tag's."""
    seen: dict[tuple[int, str], int] = {}
    rows = []
    for warp, tag, start, end in regions:
        index = seen[warp, tag] = seen.get((warp, tag), -1) + 1
        place = {"sm": sm, "cta": cta, "warp": warp, "launch": launch}
        lane = f"launch {launch} SM {sm} CTA {cta} warp {warp}"
        rows.append(
            {"lane": lane, "group": "warp", "tag": tag, "start_ns": start, "end_ns": end, "index": index} | place
        )
    return pd.DataFrame(rows)


def told(*frames: pd.DataFrame) -> TraceAccount:
    """The account of all frames together, which sums to 100 in every reading."""
    found = trace_account(pd.concat(frames, ignore_index=True))
    assert found is not None
    for reading in (found.parts, found.at_least, found.at_most):
        assert list(reading) == list(ORDER) and sum(reading.values()) == pytest.approx(100.0)
    return found


def large(parts: Any) -> dict[str, float]:
    """Parts that are not 0, rounded."""
    return {part: round(pct, 1) for part, pct in parts.items() if pct > 0.01}


def test_a_warp_that_waits_leaves_its_sub_core_idle() -> None:
    regions = [(0, "compute", 0, 60), (0, "wait_data", 60, 90), (0, "store", 90, 100)]
    found = told(lanes(*regions))
    assert large(found.parts) == {"compute": 60.0, "data_wait": 30.0, "epilogue": 10.0}
    assert found.at_least == found.at_most == found.parts
    assert (found.sms, found.launches, found.duration_ns) == (1, 1, 100.0) and next(iter(found.bubbles)) == "data_wait"


def test_warps_of_one_sub_core_cover_each_other_and_those_of_others_do_not() -> None:
    turns = [(0, "compute", 0, 50), (0, "wait_data", 50, 100)]
    same = told(lanes(*turns, (4, "wait_data", 0, 50), (4, "compute", 50, 100)))
    assert large(same.parts) == {"compute": 100.0} and large(same.at_least) == {"compute": 100.0}
    assert same.at_most["compute"] == pytest.approx(50.0)
    other = told(lanes(*turns, (1, "compute", 0, 50), (1, "wait_data", 50, 100), (2, "compute", 0, 100)))
    assert other.parts["compute"] == pytest.approx(100 * (0.5 + 0.5 + 1) / 3)
    assert other.at_least["compute"] == pytest.approx(100.0)


def test_a_product_in_flight_is_work_though_its_warp_waits_for_the_next_tile() -> None:
    regions = [(0, "compute", 0, 10), (0, "wait_data", 10, 50), (0, "wait_mma", 50, 60), (0, "wait_data", 60, 100)]
    assert large(told(lanes(*regions)).parts) == {"compute": 60.0, "data_wait": 40.0}


def test_a_wait_at_a_barrier_is_put_down_to_what_the_others_do() -> None:
    first = [(0, "compute", 0, 10), (0, "wait_sync", 10, 100)]
    others = [(1, "compute", 0, 10), (1, "wait_data", 10, 40), (1, "load", 40, 60), (1, "wait_slot", 60, 100)]
    found = told(lanes(*first, *others))
    assert large(found.parts) == {"compute": 10.0, "data_wait": 30.0, "copy_cost": 20.0, "sync_wait": 40.0}


def test_a_loader_that_waits_holds_nothing_up() -> None:
    found = told(lanes((0, "compute", 0, 100), (1, "wait_slot", 0, 90), (1, "load", 90, 100)))
    assert large(found.parts) == {"compute": 100.0}


def test_ramp_gaps_and_tail_are_time_before_between_and_behind_ctas() -> None:
    first = lanes((0, "wait_data", 0, 10), (0, "compute", 10, 40), cta=0)
    second = lanes((0, "compute", 60, 80), cta=1)
    other_sm = lanes((0, "compute", 0, 100), sm=1, cta=2)
    found = told(first, second, other_sm)
    assert large(found.parts) == {"compute": 75.0, "ramp": 5.0, "tail": 10.0, "wave_gap": 10.0}
    assert found.sms == 2


def test_launches_count_each_by_its_own_length() -> None:
    found = told(lanes((0, "compute", 0, 30)), lanes((0, "compute", 100, 110), (0, "wait_data", 110, 170), launch=1))
    assert found.launches == 2 and found.duration_ns == 50.0
    assert large(found.parts) == {"compute": 40.0, "data_wait": 60.0}


def test_time_outside_of_regions_and_unknown_tags_are_named_other() -> None:
    found = told(lanes((0, "compute", 0, 40), (0, "dequantize", 40, 60), (0, "store", 80, 100)))
    assert large(found.parts) == {"compute": 40.0, "epilogue": 20.0, "other": 40.0}


def test_without_computing_warps_there_is_no_account() -> None:
    assert trace_account(lanes((0, "load", 0, 10))) is None
    flying = lanes((0, "compute", 0, 10)).assign(warp=-1)
    assert trace_account(flying) is None


def test_of_a_long_trace_the_beginning_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MOST_ROWS", 1)
    found = told(lanes((0, "compute", 0, 40), (0, "wait_data", 40, 100)))
    assert large(found.parts) == {"compute": 100.0} and "first 1 intervals" in found.notes[0]


@pytest.mark.parametrize("run", TRACES, ids=lambda run: run.name)
def test_every_recorded_trace_has_an_account_within_its_bounds(run: Path) -> None:
    found = told(read_warps(run).rows)
    assert found.at_most["compute"] - 0.1 <= found.parts["compute"] <= found.at_least["compute"] + 0.1
    assert found.duration_ns > 1e3


def test_deeper_pipelines_wait_less_for_data() -> None:
    waits = {
        name: told(read_warps(LANES / f"trace-{name}").rows).parts["data_wait"]
        for name in ("tensor_core_gemm-stages1", "tensor_core_gemm-stages2", "single", "double")
    }
    assert waits["tensor_core_gemm-stages1"] > waits["tensor_core_gemm-stages2"] + 20
    assert waits["single"] > waits["double"] + 30


@pytest.mark.parametrize(
    "damage",
    [
        {"warp": "many"},
        {"sm": float("nan")},
        {"launch": 10**18},
        {"start_ns": float("inf"), "end_ns": float("inf")},
        {"kind": "streams"},
        {"lacks": "cta"},
    ],
)
def test_a_damaged_trace_is_refused(tmp_path: Path, damage: dict[str, Any]) -> None:
    rows = lanes((0, "compute", 0, 10)).drop(columns=damage.pop("lacks", []))
    Lanes(damage.pop("kind", "warps"), rows.assign(**damage), {}).save(tmp_path)
    with pytest.raises(ReportError, match=r"lanes\.parquet"):
        read_warps(tmp_path)
