"""Rows of the table: groups of launches that open, in an order, with words that tell them apart."""

from __future__ import annotations

from typing import Any

import pytest

from ncubble.analysis.launches.table import LaunchRows
from ncubble.dashboard.data.rows import ranked
from ncubble.dashboard.pages.addresses import OverviewAddress
from ncubble.dashboard.pages.overview.layout import block
from ncubble.dashboard.pages.overview.listing import head_words, listing, member_words
from ncubble.dashboard.pages.overview.table import LaunchTable


def row(number: int, name: str, ns: float, lost: float, unit: str = "tensor", **changes: Any) -> dict[str, Any]:
    base = {
        "id": f"{number:016x}/{number}",
        "name": name,
        "kernel": name,
        "duration_ns": ns,
        "recoverable_ns": lost,
        "cause": "data wait",
        "cause_key": "data_wait",
        "cause_pct": 20.0,
        "busy": 50.0,
        "account": [["tensor_busy", 50.0], ["data_wait", 50.0]],
        "measured": None,
        "parameters": {"stages": number},
        "dims": {"m": 64},
        "label": f"stages={number}",
        "shape": "m=64",
        "report": f"run {number}",
        "path": f"runs/{number}",
        "device": "NVIDIA H200",
        "gpu": "H200",
        "unit": unit,
        "launch": number,
        "grid": "1,1,1",
        "block": "32,1,1",
        "nvtx": None,
    }
    return base | changes


ROWS = [
    row(0, "copy", 9e6, 8e6, "DRAM"),
    row(1, "gemm", 3e6, 1e6),
    row(2, "gemm", 2e6, 3e6),
    row(3, "attention", 1e6, 5e5),
]


def shown(rows: list[dict[str, Any]], query: str = "") -> list[dict[str, Any]]:
    table = LaunchTable.of(rows)
    return list(listing(table, OverviewAddress.parse(query)).rows(table, 0, 99))


def names(rows: list[dict[str, Any]], query: str = "") -> list[str]:
    return [one["name"] for one in shown(rows, query)]


def test_kernels_of_the_tensor_pipe_come_first_then_the_most_recoverable() -> None:
    gemm, attention, copy = shown(ROWS)
    assert [one["name"] for one in (gemm, attention, copy)] == ["gemm", "attention", "copy"]
    assert (gemm["duration_ns"], gemm["recoverable_ns"], gemm["count"], gemm["depth"]) == (5e6, 4e6, 2, 0)
    assert gemm["time_pct"] == pytest.approx(100 * 5 / 15, abs=1e-3)
    assert attention["id"] == ROWS[3]["id"] and attention["group"] is None
    assert gemm["detail"] == "2 runs · stages 1, 2" and attention["detail"] == "stages=3 · run 3"


def test_a_group_opens_to_its_launches() -> None:
    name = shown(ROWS)[0]["group"]
    opened = shown(ROWS, f"?open={name}")
    assert [(one["depth"], one.get("title")) for one in opened[:3]] == [(0, None), (1, "stages=1"), (1, "stages=2")]
    assert opened[0]["open"] and opened[1]["detail"] == "run 1 · launch 1"
    assert [one["id"] for one in opened[1:3]] == [ROWS[1]["id"], ROWS[2]["id"]]
    assert names(ROWS, "?open=000000000000") == ["gemm", "attention", "copy"]


def test_launches_of_runs_with_the_same_parameters_are_told_apart_by_their_paths() -> None:
    same = {"parameters": {"stages": 2}, "report": "gemm stages=2", "launch": 0}
    lines = member_words(LaunchRows.of([row(1, "gemm", 3e6, 1e6, **same), row(2, "gemm", 2e6, 1e6, **same)]))
    assert len(set(lines)) == 2 and lines[1][1] == "runs/2 · launch 0"


def test_launches_alike_are_told_apart_by_their_number() -> None:
    same = [row(n, "gemm", 1e6, 1e5, parameters={"stages": 1}, report="run", path="r") for n in (4, 5)]
    name = shown(same)[0]["group"]
    assert [one["title"] for one in shown(same, f"?open={name}")[1:]] == ["launch 4", "launch 5"]


def test_the_order_of_a_column_holds_for_groups_and_within_them() -> None:
    assert names(ROWS, "?sort=-duration_ns") == ["copy", "gemm", "attention"]
    assert names(ROWS, "?sort=duration_ns") == ["attention", "gemm", "copy"]
    assert names(ROWS, "?sort=name") == ["attention", "copy", "gemm"]
    assert names(ROWS, "?sort=-gpu,-duration_ns") == ["copy", "gemm", "attention"]
    name = shown(ROWS)[0]["group"]
    opened = shown(ROWS, f"?sort=-recoverable_ns&open={name}")
    assert [one.get("title") for one in opened] == [None, None, "stages=2", "stages=1", None]
    missing = [*ROWS, row(9, "bare", 1e5, 0.0, busy=None)]
    assert names(missing, "?sort=-busy")[-1] == names(missing, "?sort=busy")[-1] == "bare"


def test_another_gpu_or_unit_is_another_row() -> None:
    other = [*ROWS, row(5, "gemm", 1e6, 1e5, device="NVIDIA H100"), row(6, "gemm", 1e6, 1e5, "L2")]
    assert names(other).count("gemm") == 3


def test_rows_by_problem_are_those_of_one_report_and_rows_by_launch_are_launches() -> None:
    same = [*ROWS, row(1, "gemm", 1e6, 1e5, id="f" * 16 + "/1")]
    assert [one.get("count") for one in shown(same, "?group=problem") if one["name"] == "gemm"] == [None, 2]
    assert [one["id"] for one in shown(ROWS, "?group=none")] == [one["id"] for one in ROWS]


def test_small_kernels_share_a_row_that_opens() -> None:
    small = [*ROWS, *(row(n, f"tiny{n}", 1e4, 1e3) for n in range(10, 15))]
    last = shown(small)[-1]
    assert (last["id"], last["name"], last["duration_ns"], last["cause"]) == ("small", "5 more kernels", 5e4, None)
    again = [*small, row(20, "gemm", 1e4, 1e3, device="NVIDIA H100"), row(21, "tiny10", 1e4, 1e3, device="NVIDIA H100")]
    assert shown(again)[-1]["name"] == "5 more kernels and 1 more of those above"
    opened = shown(small, "?open=small")
    assert len(opened) == 9 and {one["depth"] for one in opened[4:]} == {1}


def test_the_head_follows_what_is_listed() -> None:
    table = LaunchTable.of(ROWS)
    words = head_words(table, OverviewAddress.parse(""))
    assert words["matches"] == "3 kernels, 4 launches"
    assert words["order"] == "kernels of the tensor pipe first, then most recoverable idle time first"
    words = head_words(table, OverviewAddress.parse("?q=gemm&sort=-duration_ns,name"))
    assert words["matches"] == "1 kernel, 2 of 4 launches"
    assert words["order"] == "by Time, largest first, then Kernel, A to Z"
    assert words["claim"].startswith("1 kernel, 80 % of 5.00 ms")
    nothing = block(table, OverviewAddress.parse("?q=nowhere"))
    assert (nothing["rows"], nothing["count"], nothing["head"]["claim"]) == ([], 0, "No launch")


def test_every_row_survives_a_store_of_bare_launches() -> None:
    unknown = {"name": "k", "cause": "unknown", "cause_key": "unknown", "cause_pct": None, "account": []}
    nothing = dict.fromkeys(("duration_ns", "measured", "device", "unit"))
    beside = {"path": "p", "report": "r", "label": "", "shape": ""}
    rows = [{"id": f"{n:016x}/0", "launch": n, **unknown, **nothing, **beside} for n in range(3)]
    (found,) = shown(rows)
    assert (found["count"], found["duration_ns"], found["time_pct"], found["judged"]) == (3, None, None, 0)


def test_the_same_launch_of_all_ranks_shares_a_row_and_the_furthest_apart_comes_first() -> None:
    def of_rank(number: int, rank: int | None, name: str, ns: float) -> dict[str, Any]:
        run = {"path": f"job/rank{rank}", "report": f"rank{rank}"} if rank is not None else {}
        return row(number, name, ns, 1e5, rank=rank, program="job/*" if run else None, **run)

    times: list[tuple[str, int | None, float]] = [("gemm", 0, 2e6), ("gemm", 1, 3e6), ("gemm", 0, 4e6)]
    times += [("gemm", 1, 4e6), ("copy", 0, 1e6), ("gemm", None, 5e6)]
    rows = ranked(LaunchRows.of([of_rank(at, rank, name, ns) for at, (name, rank, ns) in enumerate(times)]))
    found = shown(list(rows), "?group=rank")
    assert [(one["name"], one.get("count"), one["rank_spread_pct"]) for one in found] == [
        ("gemm", 2, 40.0),
        ("gemm", 2, 0.0),
        ("copy", None, None),
        ("gemm", None, None),
    ]
    assert found[0]["detail"] == "40.0 % apart, slowest rank 1 · 2.00 ms to 3.00 ms · 2 ranks · #0"
    opened = shown(list(rows), f"?group=rank&open={found[0]['group']}")
    assert [one["title"] for one in opened[1:3]] == ["rank 0", "rank 1"]
    assert "by Ranks apart %, largest first" in head_words(LaunchTable.of(rows), OverviewAddress(group="rank"))["order"]
