"""Packed rows are as they were: order, types, and whatever a cell may hold; and columns say the
same as rows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from ncubble.analysis.launches.cells import CodedCells, NumberCells
from ncubble.analysis.launches.packed import PackedRows
from ncubble.dashboard.data import index
from ncubble.dashboard.data.index import Known
from ncubble.dashboard.data.packing import from_bytes, to_bytes
from ncubble.dashboard.data.store import ReportStore
from ncubble.recordings import ROOT

ODD: list[dict[str, Any]] = [
    {"id": "a/0", "account": [["tensor_busy", 12.5], ["tail", None]], "launch": 1, "share": 1.0, "good": True},
    {"id": "a/1", "account": [], "launch": 0, "share": None, "good": False},
    {"id": None, "account": [["tail", 1.0], ["tail", 2.0]], "launch": 2**53, "share": -0.0, "good": True},
    {"id": "a/2", "account": [["tail"]], "launch": 3, "share": "text", "good": []},
    {"account": [[1, 2.0]], "id": "a/3", "roofs": {"dram": 4.8}, "words": ["a", "b"]},
    {"id": "alone", "roofs": {"dram": 4.8}, "dims": {"dram": -0.0}, "none": {}},
    {"id": "alone"},
    {},
]


def through_json(rows: PackedRows) -> PackedRows:
    said, blocks = to_bytes(rows)
    return from_bytes(orjson.loads(orjson.dumps(said)), blocks)


def test_odd_rows_come_back_with_their_order_and_types() -> None:
    packed = PackedRows.of(ODD)
    for rows in (packed, through_json(packed)):
        assert [repr(row) for row in rows] == [repr(row) for row in ODD]
        assert rows == ODD and rows != ODD[1:] and [len(row) for row in rows] == list(map(len, ODD))
    assert "roofs" in packed[4] and "roofs" not in packed[0] and packed[0].get("roofs", 1) is None
    assert packed[0].get("no field", 1) == 1 and packed[6] | {"more": 1} == {"id": "alone", "more": 1}


def test_rows_of_recordings_come_back() -> None:
    store = ReportStore([ROOT / "softmax_online", ROOT / "gemm_tma"]).start()
    assert store.wait(60)
    rows = store.rows()
    assert [repr(row) for row in through_json(rows)] == [repr(dict(row)) for row in rows]


def test_joined_parts_are_as_their_rows() -> None:
    packed = PackedRows.of(ODD)
    parts = [packed[1:3], packed[:1], ODD[3:5], PackedRows.of(ODD[5:]), [{"share": 0.5}]]
    joined = PackedRows.joined(parts)
    assert [repr(row) for row in joined] == [repr(row) for part in parts for row in part]
    assert PackedRows.joined([]) == [] and PackedRows.joined([packed]).columns is packed.columns


def test_columns_say_what_rows_say() -> None:
    rows = PackedRows.of([{"a": x, "b": y} for x, y in ((1.0, "u"), (None, "v"), (1.0, "u"), (2.5, "v"))])
    assert rows.numbers("a").tolist()[::2] == [1.0, 1.0] and math.isnan(rows.numbers("a")[1])
    assert rows.distinct("a") == [1.0, None, 2.5] and rows.distinct("b") == ["u", "v"]
    assert rows.cells("b") == ["u", "v", "u", "v"] and rows.cells("c") == [None] * 4
    codes, first = rows.combined(("a", "b"))
    assert codes.tolist() == [0, 1, 0, 2] and first.tolist() == [0, 1, 3]
    some = rows.at(np.array([2, 0]))
    assert not some.differs("a") and not some.differs("b") and rows.differs("a") and rows.differs("b")
    assert rows.at(np.array([1, 0])).differs("a") and some.whole().columns["b"].value(1) == "u"


@pytest.mark.parametrize(
    "said", [b"[]", b"{}", b"{", b'{"rules":1}', b'{"launches":{"rows":1,"columns":{"a":{"type":"|u1","at":0}}}}']
)
def test_an_index_that_says_nothing_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path))
    known = {tmp_path / "one": Known("k", (1, 2), ({"id": "k/0"},), {"k/0": "doubted"})}
    file = index.index_file([tmp_path])
    assert index.remember(file, known) == known and index.recall(file) == known
    head, _, blocks = file.read_bytes().partition(b"\n")[2].partition(b"\n")
    given = [orjson.loads(head) | orjson.loads(said)] if said.startswith(b'{"') else []
    for body in (said + b"\n" + blocks, *(orjson.dumps(one) + b"\n" + blocks for one in given)):
        file.write_bytes(index.hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
        assert index.recall(file) == {}


def test_a_code_without_a_value_is_refused() -> None:
    said, blocks = to_bytes(PackedRows.of([{"a": "x"}, {"a": "y"}]))
    said["columns"]["a"]["values"] = ["x"]
    with pytest.raises(ValueError, match="a code without a value"):
        from_bytes(said, blocks)


def test_values_of_rows_that_went_are_not_kept() -> None:
    rows = PackedRows.of([{"id": "first"}])
    for number in range(20):
        rows = PackedRows.joined([rows, [{"id": f"new {number}"}]])[1:]
    column = rows.whole().columns["id"]
    assert isinstance(column, CodedCells) and column.values == ["new 19"]


def test_numbers_stay_numbers_beside_rows_that_lack_them() -> None:
    rows = PackedRows.joined([PackedRows.of([{"busy": 1.5}, {"busy": None}]), [{"busy": None}], [{"other": 1}]])
    assert isinstance(rows.columns["busy"], NumberCells)
    assert rows.cells("busy") == [1.5, None, None, None]
    assert list(map(dict, rows))[2:] == [{"busy": None}, {"other": 1}]
