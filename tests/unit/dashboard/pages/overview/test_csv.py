"""Downloads of what the table lists: their order, their columns, and that no cell becomes a
formula."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from ncubble.dashboard.app.app import create_app
from ncubble.dashboard.pages.addresses import OverviewAddress
from ncubble.dashboard.pages.overview.layout import CSV, JSON, ROWS, as_csv, as_json, block, cell, sent
from ncubble.dashboard.pages.overview.table import COLUMNS, LaunchTable
from tests.helpers import dashboard_frames as frames


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_a_formula_is_made_text(text: str) -> None:
    assert cell(text) == f"'{text}"


def test_numbers_stay_numbers_and_missing_values_stay_empty() -> None:
    assert (cell(-1.5), cell(3), cell(None), cell("plain")) == ("-1.5", "3", "", "plain")
    assert cell([["tensor_busy", 43.1], ["ramp", 2.4]]) == "tensor busy 43.1; ramp 2.4"


def test_a_large_table_comes_in_pieces() -> None:
    rows = [{"id": f"{i:016x}/0", "name": f"k{i}", "parameters": {"stages": i}} for i in range(1001)]
    columns = COLUMNS[:1]
    pieces = list(as_csv(rows, columns))
    assert len(pieces) > 5
    read = list(csv.reader(io.StringIO("".join(pieces))))
    assert read[0] == ["Kernel", "id"] and len(read) == 1002 and read[-1] == ["k1000", f"{1000:016x}/0"]
    assert len(json.loads(b"".join(as_json(rows, columns)))["launches"]) == 1001
    assert json.loads(b"".join(as_json([], columns))) == {"launches": []}


def test_downloads_follow_the_query(tmp_path: Path) -> None:
    client = create_app([], store=frames.store(tmp_path)).server.test_client()
    answer = client.get(f"{CSV}?q=wmma&sort=duration_ns&columns=duration_ns,name,parameters.stages")
    read = list(csv.reader(io.StringIO(answer.get_data(as_text=True))))
    assert read[0] == ["Time [ns]", "Kernel", "stages", "id"]
    assert [line[0] for line in read[1:]] == ["310000.0", "400123.0"]
    assert answer.headers["Content-Disposition"] == 'attachment; filename="launches.csv"'
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    launches = json.loads(client.get(f"{JSON}?q=wmma&columns=name,tensor").data)["launches"]
    assert [set(one) for one in launches] == [{"id", "name", "tensor"}] * 2


def test_rows_come_in_blocks_with_their_counts(tmp_path: Path) -> None:
    client = create_app([], store=frames.store(tmp_path)).server.test_client()
    answer = client.get(f"{ROWS}?start=1&end=3").get_json()
    assert (len(answer["rows"]), answer["count"], answer["total"], answer["pinned"]) == (2, 8, 8, None)
    pin = answer["rows"][0]["id"]
    answer = client.get(f"{ROWS}?q=nothing+matches&pin={pin}").get_json()
    assert (answer["rows"], answer["count"], answer["pinned"]["id"]) == ([], 0, pin)
    assert "not among those loaded" in client.get(f"{ROWS}?pin={'9' * 16}/0").get_json()["said"]


@pytest.mark.parametrize(
    "query", ["start=-5&end=-1", "start=x", "start=99999999", "end=999999999999", "q=%ff%00", "filters=%7B%22a"]
)
def test_no_request_for_rows_fails(tmp_path: Path, query: str) -> None:
    client = create_app([], store=frames.store(tmp_path)).server.test_client()
    answer = client.get(f"{ROWS}?{query}")
    assert answer.status_code == 200 and len(answer.get_json()["rows"]) <= 8


def test_no_request_gets_more_rows_than_the_most() -> None:
    rows = [{"id": f"{index:016x}/0", "name": "gemm", "parameters": {}, "dims": {}} for index in range(700)]
    table = LaunchTable.of(rows)
    asked = [(0, 10**9, 500), (0, -1, 0), (-5, -1, 0), (650, 10**9, 50), (10**30, 10**31, 0), (400, 300, 0), (-9, 4, 4)]
    for start, end, count in asked:
        assert len(block(table, OverviewAddress.parse("?group=none"), start, end)["rows"]) == count, (start, end)


def test_long_names_are_cut_for_the_table_only() -> None:
    row = {"id": "a/0", "name": "n" * 5000, "demangled": "d" * 5000}
    assert len(sent(row)["name"]) < 500 and len(sent(row)["demangled"]) < 500
    assert cell(row["name"]) == "n" * 5000
