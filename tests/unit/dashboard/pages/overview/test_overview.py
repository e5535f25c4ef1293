"""The overview's layout, its columns, and the snapshot that it shows."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from plotly.utils import PlotlyJSONEncoder

from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import OverviewAddress
from ncubble.dashboard.pages.overview import layout as overview
from ncubble.dashboard.pages.overview.figure import left_out
from ncubble.dashboard.pages.overview.table import MOST_PARAMETERS, of_parameters, table_of
from ncubble.dashboard.pages.overview.table_card import columns_of, definitions
from ncubble.dashboard.pages.page import problems
from tests.helpers import dashboard_frames as frames


def shown(store: ReportStore, search: str = "") -> str:
    return json.dumps(overview.layout(store, OverviewAddress.parse(search)), cls=PlotlyJSONEncoder, ensure_ascii=False)


def test_the_first_rows_come_with_the_page_as_its_address_asks(tmp_path: Path) -> None:
    sent = shown(frames.store(tmp_path), "?q=wmma&sort=duration_ns")
    assert '"count": 2' in sent and '"total": 8' in sent and "2 kernels, 2 of 8 launches" in sent
    assert sent.index('"name": "wmma_gemm_deep"') < sent.index('"duration_ns": 400123.0')


def test_the_address_decides_columns_and_their_order(tmp_path: Path) -> None:
    table = table_of(frames.store(tmp_path))
    assert [one.field for one in columns_of(table, OverviewAddress.parse("?columns=tensor,name,nowhere"))] == [
        "tensor",
        "name",
    ]
    usual = [one.field for one in columns_of(table, OverviewAddress.parse("?columns=nowhere"))]
    assert usual[:2] == ["name", "duration_ns"]
    made = definitions(table, OverviewAddress.parse("?columns=tensor,name&sort=-tensor"))
    assert [(one["colId"], one["initialHide"]) for one in made[:3]] == [
        ("tensor", False),
        ("name", False),
        ("duration_ns", True),
    ]
    assert made[0]["initialSort"] == "desc" and "initialSort" not in made[1]


def test_headers_explain_columns_with_unit_and_name_of_ncu(tmp_path: Path) -> None:
    made = {one["colId"]: one for one in definitions(table_of(frames.store(tmp_path)), OverviewAddress.parse(""))}
    tip = made["registers"]["headerTooltip"]
    assert "Registers per thread" in tip and "launch__registers_per_thread" in tip
    assert all(one["headerTooltip"] for one in made.values())


def test_parameters_and_dimensions_get_columns_unless_their_names_are_strange() -> None:
    rows: list[dict[str, Any]] = [
        {"parameters": {"stages": 3, "a b": 1, "<img>": 2, "mode": "x", "flag": True}, "dims": {"m": 8}},
        {"parameters": {"stages": 4}, "dims": {}},
    ]
    found = {one.field: one.kind for one in of_parameters(rows)}
    assert found == {
        "parameters.stages": "number",
        "parameters.mode": "text",
        "parameters.flag": "text",
        "dims.m": "number",
    }
    many = [{"parameters": {f"p{i}": i for i in range(500)}}]
    assert len(of_parameters(many)) == MOST_PARAMETERS


def test_an_empty_store_says_what_to_do_next_in_place_of_the_table(tmp_path: Path) -> None:
    store = ReportStore([tmp_path])
    assert store.start().wait(60)
    sent = shown(store)
    assert "is-empty" in sent
    for step in ("ncubble profile", "ncubble dashboard PATH", "ncubble demo", '"href": "/open"'):
        assert step in sent, step


def test_a_store_that_still_reads_is_not_called_empty(tmp_path: Path) -> None:
    gate = threading.Event()
    store = ReportStore([tmp_path / "a.ncu-rep"], lambda paths: (gate.wait(30) and [], []))
    store.start()
    try:
        assert "is-empty" not in shown(store)
    finally:
        gate.set()


def test_what_the_figure_leaves_out_is_counted_and_said(tmp_path: Path) -> None:
    table = table_of(frames.store(tmp_path))
    assert "1 launch not drawn: tensor or DRAM %" in overview.draw(table, OverviewAddress.parse(""))[1]
    drawn, hint = overview.draw(table, OverviewAddress.parse("?figure=roofline"))
    assert not drawn["data"] and "8 launches not drawn: FLOPs or DRAM bytes not known" in hint
    assert left_out("utilization", 5000, 2000, 10).startswith("Drawn: the 2,000 of 4,990 launches")


def test_the_snapshot_follows_the_store(tmp_path: Path) -> None:
    gate = threading.Event()

    def opener(paths: Any) -> Any:
        gate.wait(30)
        return [frames.gemm()], []

    store = ReportStore([tmp_path / "a.ncu-rep"], opener, frames.judge)
    store.start()
    assert len(table_of(store)) == 0
    gate.set()
    assert store.wait(30)
    assert len(table_of(store)) == 2


def test_a_list_of_failures_has_an_end(tmp_path: Path) -> None:
    store = ReportStore([tmp_path / f"{i}.ncu-rep" for i in range(3)], lambda paths: ([], []))
    from ncubble.dashboard.data.readings import Failure

    many = [Failure(f"{i}.ncu-rep", "damaged") for i in range(5000)]
    store.failures = lambda: many  # type: ignore[method-assign]
    sent = json.dumps(problems(store), cls=PlotlyJSONEncoder)
    assert "5,000 files or launches could not be shown" in sent and "and 4,800 more" in sent
    assert sent.count('"type": "Li"') == 201


def test_with_many_launches_the_table_comes_before_the_figure(tmp_path: Path) -> None:
    few, many = frames.store(tmp_path), frames.store(tmp_path, [frames.hostile(overview.DRAWN_AT_ONCE + 1)])
    assert '"figure_later": false' in shown(few) and '"figure_later": true' in shown(many)
    assert "Drawing." in shown(many) and "tensor pipe active" not in shown(many)
