"""Packed rows come back as they were: order, types, and whatever a cell may hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from ncubble.dashboard.data import index
from ncubble.dashboard.data.index import Known
from ncubble.dashboard.data.packing import Packing, Unpacking
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


def through_json(rows: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    packing = Packing()
    packed = orjson.loads(orjson.dumps(packing.pack(rows)))
    shapes, objects = (orjson.loads(orjson.dumps(one)) for one in (packing.shapes, packing.objects))
    return Unpacking(shapes, objects).unpack(packed)


def test_odd_rows_come_back_with_their_order_and_types() -> None:
    assert [repr(row) for row in through_json(ODD)] == [repr(row) for row in ODD]


def test_rows_of_recordings_come_back_and_share_their_texts() -> None:
    store = ReportStore([ROOT / "softmax_online", ROOT / "gemm_tma"]).start()
    assert store.wait(60)
    rows = store.rows()
    found = through_json(rows)
    assert [repr(row) for row in found] == [repr(row) for row in rows]
    assert len({id(row["device"]) for row in found}) == len({row["device"] for row in found}) < len(found)


def test_rows_of_one_kind_have_one_shape() -> None:
    packing = Packing()
    packing.pack({"id": f"a/{number}", "busy": number / 7} for number in range(50))
    assert packing.shapes == [(("id", "busy"), "to")]


@pytest.mark.parametrize(
    "line", [b"[]", b"{}", b"{", b'{"path":"p","key":"k","signature":[],"doubts":{},"rows":[[9,[],[]]]}']
)
def test_an_index_with_a_line_that_says_nothing_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes
) -> None:
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path))
    known = {tmp_path / "one": Known("k", (1, 2), ({"id": "k/0"},), {"k/0": "doubted"})}
    file = index.index_file([tmp_path])
    index.remember(file, known)
    assert index.recall(file) == known
    body = file.read_bytes().partition(b"\n")[2] + b"\n" + line
    file.write_bytes(index.hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    assert index.recall(file) == {}
