"""Rows in the Arrow table are as they were, and columns say the same as rows."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ncubble.analysis.launches.table import SCHEMA, LaunchRows
from ncubble.dashboard.data import index
from ncubble.dashboard.data.index import Known
from ncubble.dashboard.data.store import ReportStore
from ncubble.recordings import H100, ROOT

ODD: list[dict[str, Any]] = [
    {"id": "a/0", "account": [["tensor_busy", 12.5], ["tail", None]], "launch": 1, "busy": 1.0, "grid": "u"},
    {"id": "a/1", "account": [], "launch": 0, "busy": None, "grid": "v"},
    {"id": None, "account": [["tail", 1.0]], "launch": 2**53, "busy": 1.0, "grid": "u"},
    {"id": "a/3", "parameters": {"stages": 3, "copy": "tma", "on": True, "deep": [1, {"x": None}]}, "busy": 2.5},
    {},
]


def test_odd_rows_come_back_with_their_values_and_none_for_the_rest() -> None:
    rows = LaunchRows.of(ODD)
    assert rows == [dict.fromkeys(SCHEMA.names) | row for row in ODD] and rows != ODD
    assert [row | {"more": 1} for row in rows][4] == dict.fromkeys(SCHEMA.names) | {"more": 1}
    with pytest.raises(Exception, match="int"):
        LaunchRows.of([{"launch": 2**70}])


def test_joined_parts_are_as_their_rows() -> None:
    rows = LaunchRows.of(ODD)
    parts = [rows[1:3], rows[:1], LaunchRows.of([{"busy": 0.5}]), rows.at(np.array([2, 0]))]
    assert LaunchRows.joined(parts) == [row for part in parts for row in part]
    assert LaunchRows.joined([]) == []


def test_parts_of_rows_share_their_columns() -> None:
    rows = LaunchRows.of([{"id": "a/0"}, {"id": "a/1"}])
    one, other = rows[:1], rows[1:]
    assert (one.cells("id"), other.cells("id")) == (["a/0"], ["a/1"])
    assert one._columns is other._columns


def test_columns_say_what_rows_say() -> None:
    rows = LaunchRows.of(ODD)[:4]
    assert rows.numbers("busy").tolist()[2:] == [1.0, 2.5] and math.isnan(rows.numbers("busy")[1])
    assert rows.distinct("busy") == [1.0, None, 2.5] and rows.distinct("grid") == ["u", "v", None]
    assert rows.cells("grid") == ["u", "v", "u", None] and rows.cells("shape") == [None] * 4
    codes, first = rows.combined(("busy", "grid"))
    assert codes.tolist() == [0, 1, 0, 2] and first.tolist() == [0, 1, 3]
    some = rows.at(np.array([2, 0]))
    assert not some.differs("busy") and some.differs("account")
    codes, accounts = some.coded("account")
    assert [accounts[code] for code in codes] == some.cells("account") == [[["tail", 1.0]], ODD[0]["account"]]


def test_rows_of_recordings_come_back_from_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path))
    store = ReportStore([H100 / "softmax_online", ROOT / "gemm_tma"]).start()
    assert store.wait(60)
    known = {tmp_path / "one": Known("k", (1, 2), store.rows(), {"k/0": "doubted"})}
    file = index.index_file([tmp_path])
    assert index.remember(file, known) == known and index.recall(file) == known


@pytest.mark.parametrize("head", [b"[]", b"{}", b"{", b'{"rules":1}', None])
def test_a_damaged_index_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: bytes | None) -> None:
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path))
    known = {tmp_path / "one": Known("k", (1, 2), LaunchRows.of([{"id": "k/0"}]), {})}
    file = index.index_file([tmp_path])
    index.remember(file, known)
    first, _, blocks = file.read_bytes().partition(b"\n")[2].partition(b"\n")
    body = first + b"\n" + blocks[:-40] if head is None else head + b"\n" + blocks
    file.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    assert index.recall(file) == {} or head is None
    file.write_bytes(b"0" * 64 + b"\n" + body)
    assert index.recall(file) == {}
