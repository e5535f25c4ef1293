"""Lanes as they lie on disk: what is read, and what is refused."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ncubble.analysis.traces.lanes import FILE, LONGEST, Lanes, folders_with, lane_kind, read_lanes, read_warps
from ncubble.errors import ReportError
from tests.helpers.lane_frames import streams, warps, write


def test_lanes_come_back_as_they_were_saved_with_their_facts(tmp_path: Path) -> None:
    rows = warps(200).assign(index=7, sm=0, cta=1, warp=2, launch=3)
    Lanes("warps", rows, {"argv": ["relay"]}).save(tmp_path)
    found = read_warps(tmp_path)
    assert (found.kind, found.facts) == ("warps", {"argv": ["relay"]})
    assert sorted(found.rows.itertuples(index=False)) == sorted(rows[list(found.rows)].itertuples(index=False))


@pytest.mark.parametrize("facts", ["7", "{", "[" * 100_000])
def test_facts_may_be_anything(tmp_path: Path, facts: str) -> None:
    write(tmp_path, streams())
    table = pq.read_table(tmp_path / FILE)
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, "ncubble.trace": facts}), tmp_path / FILE)
    assert read_lanes(tmp_path).facts == {}


def test_a_long_text_in_many_rows_is_held_once(tmp_path: Path) -> None:
    frame = warps(200_000)
    table = pa.Table.from_pandas(frame.drop(columns="tag"), preserve_index=False)
    tag = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(frame), dtype=np.int32)), ["x" * 100_000])
    marks = {"ncubble.lanes": "1", "ncubble.lanes.kind": "warps"}
    table = table.append_column("tag", tag).replace_schema_metadata(marks)
    pq.write_table(table, tmp_path / FILE)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read = read_lanes(tmp_path).rows
    assert set(read["tag"]) == {"x" * LONGEST} and len(read) == len(frame)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KB; repeated, the texts take 20 GB


def test_what_unpacks_to_too_much_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "run", warps(2000), "warps")
    monkeypatch.setattr("ncubble.analysis.traces.lanes.MOST_UNPACKED_B", 1 << 10)
    with pytest.raises(ReportError, match="unpacks to more than"):
        read_lanes(tmp_path / "run")


@pytest.mark.parametrize(
    ("frame", "changes", "said"),
    [
        (streams(), {"schema": "2"}, "schema 2 is newer"),
        (streams(), {"kind": "other"}, "not a file of lanes"),
        (streams().drop(columns="tag"), {}, "lacks the column 'tag'"),
        (streams().assign(start_ns="now"), {}, "not readable"),
        (streams().assign(end_ns=0), {}, "ends before it starts"),
        (streams().assign(end_ns=float("nan")), {}, "is missing"),
        (streams().assign(tag=None), {}, "is missing"),
    ],
)
def test_a_file_that_is_none_is_refused(
    tmp_path: Path, frame: pd.DataFrame, changes: dict[str, str], said: str
) -> None:
    write(tmp_path / "run", frame, **changes)
    with pytest.raises(ReportError, match=said):
        read_lanes(tmp_path / "run")


def test_links_are_not_followed_and_damaged_files_are_of_no_kind(tmp_path: Path) -> None:
    write(tmp_path / "outside", streams())
    inside = tmp_path / "inside"
    (inside / "run").mkdir(parents=True)
    (inside / "linked").symlink_to(tmp_path / "outside")
    (inside / "run" / FILE).symlink_to(tmp_path / "outside" / FILE)
    assert list(folders_with(FILE, [inside])) == []
    path = write(tmp_path / "cut", streams())
    path.write_bytes(path.read_bytes()[:200])
    assert lane_kind(tmp_path / "cut") == "" and lane_kind(tmp_path / "outside") == "streams"
