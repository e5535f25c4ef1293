"""The dataset on disk: writers at once, cuts at any step, what is read for a question, versions."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ncubble.analysis.datasets import log, parts
from ncubble.analysis.datasets.dataset import Dataset
from ncubble.analysis.datasets.parts import DatasetWriter, encode
from ncubble.analysis.datasets.query import Query, run, unknown_metrics, unknown_values
from ncubble.analysis.datasets.schema import GROUP_ROWS, LAUNCHES, METRICS, REPORTS
from ncubble.errors import NcubbleError, ReportError, UsageError


def tables(report: str, launches: int = 2, cause: str = "data_wait", metrics: int = 3) -> dict[str, pa.Table]:
    """Rows of a report that was never measured."""
    told = [
        {"report": report, "launch": n, "label": f"k{n}", "cause": cause, "tensor_elapsed_pct": 10.0 * n, "rank": None}
        for n in range(launches)
    ]
    values = [
        {"metric": f"m{m:03d}", "report": report, "launch": n, "value": float(100 * n + m), "unit": "ns"}
        for n in range(launches)
        for m in range(metrics)
    ]
    return {
        "reports": pa.Table.from_pylist([{"report": report, "path": f"/r/{report}", "complete": True}], REPORTS),
        "launches": pa.Table.from_pylist(told, LAUNCHES),
        "metrics": pa.Table.from_pylist(values, METRICS),
    }


def put(folder: Path, *reports: str, **options: Any) -> None:
    DatasetWriter(folder).put(encode([tables(report, **options) for report in reports]), reports)


def held(folder: Path) -> list[str]:
    return sorted(Dataset.open(folder).reports(["report"]).to_table()["report"].to_pylist())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    log.create(tmp_path / "dataset")
    return tmp_path / "dataset"


def test_what_was_put_is_read_and_a_report_that_is_put_again_takes_the_place_of_the_old_one(folder: Path) -> None:
    put(folder, "a", "b")
    put(folder, "b", "c", cause="tail")
    found = Dataset.open(folder)
    rows = found.launches(["report", "cause"]).to_table().to_pylist()
    assert {(row["report"], row["cause"]) for row in rows} == {("a", "data_wait"), ("b", "tail"), ("c", "tail")}
    assert (found.rows("launches"), found.rows("metrics"), held(folder)) == (6, 18, ["a", "b", "c"])


def test_two_writers_at_once_lose_nothing_and_hold_no_report_twice(folder: Path) -> None:
    names = [[f"{who}{n}" for n in range(12)] + [f"both{n}" for n in range(4)] for who in "xy"]
    threads = [
        threading.Thread(target=lambda mine=mine: [put(folder, name, metrics=1) for name in mine]) for mine in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert held(folder) == sorted({*names[0], *names[1]})


def test_a_cut_at_any_step_leaves_the_state_before_or_after(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, "a", "b")
    steps = 0

    def cut(real: Callable[..., Any], at: int) -> Callable[..., Any]:
        def called(*args: Any, **options: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == at:
                raise KeyboardInterrupt
            return real(*args, **options)

        return called

    for at in range(1, 60):
        steps, copy = 0, folder.with_name(f"copy{at}")
        shutil.copytree(folder, copy)
        with monkeypatch.context() as patched:
            for name in ("fsync", "link", "open"):
                patched.setattr(os, name, cut(getattr(os, name), at))
            patched.setattr(Path, "open", cut(Path.open, at))
            try:
                put(copy, "b", "c", launches=1, metrics=1)
            except KeyboardInterrupt:
                assert held(copy) in (["a", "b"], ["a", "b", "c"])
                assert Dataset.open(copy).launches().count_rows() == 4  # b has one launch less then, and c one
                continue
        assert held(copy) == ["a", "b", "c"]
        break
    else:
        pytest.fail("never ran to its end")
    assert at > 6, "few steps were cut"


def test_many_small_parts_become_one_and_who_opened_the_dataset_before_still_reads_it(folder: Path) -> None:
    for n in range(parts.FEW_PARTS):
        put(folder, f"r{n:02d}", metrics=1)
    before = Dataset.open(folder)
    rows = sorted(before.launches(["report", "launch"]).to_table().to_pylist(), key=str)
    DatasetWriter(folder).compact()
    after = Dataset.open(folder)
    assert len(after.state.parts) == 1
    assert log.sweep(folder, after.state) == 0, "deleted what a reader may hold"
    for one in (before, after):
        assert sorted(one.launches(["report", "launch"]).to_table().to_pylist(), key=str) == rows


def test_what_is_not_listed_is_deleted_once_it_is_a_day_old(folder: Path) -> None:
    put(folder, "a")
    stray, fresh = folder / "parts" / "stray", folder / "parts" / "fresh"
    for path in (stray, fresh):
        path.mkdir()
    old = time.time() - log.GRACE_S - 60
    os.utime(stray, (old, old))
    assert log.sweep(folder, log.read(folder)) == 1
    assert (stray.exists(), fresh.exists(), held(folder)) == (False, True, ["a"])


def test_the_log_is_read_over_entries_that_list_everything(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "WHOLE", 4)
    for n in range(9):
        put(folder, f"r{n}", metrics=1, launches=1)
        assert len(held(folder)) == n + 1
    DatasetWriter(folder).remove(["r0", "r8"])
    assert held(folder) == [f"r{n}" for n in range(1, 8)]


def test_only_the_columns_and_row_groups_that_are_asked_for_are_read(folder: Path) -> None:
    """Everything else is overwritten: it cannot have been read."""
    put(folder, "a", launches=600, metrics=60)
    file = Dataset.open(folder).files("metrics")[0]
    asked = "m002"
    with pq.ParquetFile(file) as found:
        told = found.metadata
        assert told.num_row_groups == -(-600 * 60 // GROUP_ROWS)
    keep = []
    for group in range(told.num_row_groups):
        columns = {told.row_group(group).column(n).path_in_schema: told.row_group(group).column(n) for n in range(5)}
        low, high = columns["metric"].statistics.min, columns["metric"].statistics.max
        if low <= asked <= high:
            keep += [columns["metric"], columns["value"]]
    data = bytearray(file.read_bytes())
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    spared = bytearray(b"\xff" * end)
    for column in keep:
        start = column.dictionary_page_offset or column.data_page_offset
        spared[start : start + column.total_compressed_size] = data[start : start + column.total_compressed_size]
    assert spared.count(b"\xff" * 64) > 0
    tail = data[end:]
    file.write_bytes(b"PAR1" + bytes(spared[4:]) + bytes(tail))
    found = Dataset.open(folder).metrics([asked], ["value"]).to_table()
    assert sorted(found["value"].to_pylist()) == [float(100 * n + 2) for n in range(600)]
    with pytest.raises((OSError, pa.ArrowException)):
        Dataset.open(folder).metrics().to_table()


def test_nothing_is_read_when_a_dataset_is_opened_and_a_scanner_is_made(folder: Path) -> None:
    put(folder, "a")
    scanner = Dataset.open(folder).launches(["label"])
    for file in Dataset.open(folder).files("launches"):
        file.write_bytes(b"")
    with pytest.raises((OSError, pa.ArrowException)):
        scanner.to_table()


@pytest.mark.parametrize(
    ("entry", "said"), [('{"schema": 99}', "newer"), ("{", "damaged"), ('{"schema": 1, "add": 5}', "damaged")]
)
def test_a_log_of_a_newer_version_or_a_damaged_one_is_refused(folder: Path, entry: str, said: str) -> None:
    put(folder, "a")
    (folder / "log" / "00000002.json").write_text(entry)
    with pytest.raises(ReportError, match=said):
        Dataset.open(folder)


def test_a_folder_with_something_else_is_neither_read_nor_written(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="neither a dataset nor an empty folder"):
        log.create(tmp_path)
    with pytest.raises(UsageError, match="no dataset"):
        Dataset.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_dataset_can_be_copied_elsewhere(folder: Path, tmp_path: Path) -> None:
    put(folder, "a")
    folder.rename(tmp_path / "moved")
    assert held(tmp_path / "moved") == ["a"]
    assert str(folder) not in json.dumps(str((tmp_path / "moved" / "log" / "00000001.json").read_text()))


CONDITIONS: list[tuple[str, Callable[[dict[str, Any]], bool]]] = [
    ("tensor_elapsed_pct < 15", lambda row: row["tensor_elapsed_pct"] < 15),
    ("tensor_elapsed_pct>=10 and not launch = 2", lambda row: row["tensor_elapsed_pct"] >= 10 and row["launch"] != 2),
    ("(cause = tail OR launch in (0, 3)) and label != 'k0'", lambda row: row["launch"] == 3 and row["label"] != "k0"),
    ("rank is null", lambda row: True),
    ("rank IS NOT NULL", lambda row: False),
    ('label contains "K1" or cause in ("x", data_wait) and launch > 2', lambda row: row["launch"] in (1, 3)),
    ("label not in (k0,k1)", lambda row: row["launch"] > 1),
    ("rank < 5 or launch == 1", lambda row: row["launch"] == 1),
    ("tensor_elapsed_pct > -1e1", lambda row: True),
]


@pytest.mark.parametrize(("condition", "passes"), CONDITIONS)
def test_a_condition_lets_pass_what_it_says(
    folder: Path, condition: str, passes: Callable[[dict[str, Any]], bool]
) -> None:
    put(folder, "a", launches=4)
    found = Dataset.open(folder)
    everything = found.launches().to_table().to_pylist()
    rows = run(found, Query(where=[condition], columns=["launch"])).to_pylist()
    assert [row["launch"] for row in rows] == [row["launch"] for row in everything if passes(row)]


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("tensor_actve_pct < 5", "tensor_elapsed_pct"),
        ("tensor_elapsed_pct < fast", "a number"),
        ("launch <", "a value"),
        ("launch 5", "an operator"),
        ("(launch = 1", "`\\)`"),
        ("launch = 1 label = k0", "the end"),
        ("__import__('os').system('x')", "unknown column"),
        ("label = 'k", "a value"),
        ("label contains 5; drop", "a column, a value"),
        ("launch contains 1", "not text"),
        ("not " * 60 + "launch = 1", "nested"),
        ("(" * 60 + "launch = 1", "nested"),
        ("x" * 20_000, "longer than"),
        ("warnings = a", "a value"),
    ],
)
def test_a_wrong_condition_is_refused_with_its_place(folder: Path, condition: str, said: str) -> None:
    put(folder, "a")
    with pytest.raises(UsageError, match=said):
        run(Dataset.open(folder), Query(where=[condition]))


def test_rows_are_sorted_limited_and_joined_with_metrics(folder: Path) -> None:
    put(folder, "a", "b", launches=3)
    found = run(
        Dataset.open(folder),
        Query(
            where=["m001 > 100"],
            columns=["report", "launch", "m001"],
            metrics=["m001", "none"],
            sort="launch",
            descending=True,
            limit=3,
        ),
    ).to_pylist()
    assert [(row["launch"], row["m001"]) for row in found] == [(2, 201.0), (2, 201.0), (1, 101.0)]


@pytest.mark.parametrize(
    "query",
    [
        Query(table="nothing"),
        Query(columns=["nothing"]),
        Query(sort="nothing"),
        Query(table="errors", metrics=["m001"]),
    ],
)
def test_a_query_for_what_is_not_there_is_refused(folder: Path, query: Query) -> None:
    put(folder, "a")
    with pytest.raises(NcubbleError):
        run(Dataset.open(folder), query)


def test_a_metric_that_no_launch_has_is_named_with_the_nearest(folder: Path) -> None:
    put(folder, "a")
    found = Dataset.open(folder)
    question = Query(metrics=["m01", "m001"])
    (sentence,) = unknown_metrics(found, run(found, question), question)
    assert sentence.startswith("no launch has the metric 'm01'; nearest: m0")
    assert unknown_metrics(found, run(found, Query(metrics=["m001"])), Query(metrics=["m001"])) == []


def test_a_text_that_no_row_has_is_named_with_those_that_there_are(folder: Path) -> None:
    put(folder, "a", "b")
    put(folder, "c", cause="tail")
    found = Dataset.open(folder)
    (sentence,) = unknown_values(found, Query(where=["cause = datawait and launch < 5"]))
    assert sentence == "no cause is 'datawait'; values: data_wait (4), tail (2); nearest: data_wait"
    assert unknown_values(found, Query(where=["cause = tail", "cause != nothing", "launch = 7"])) == []
    both = unknown_values(found, Query(where=["cause in (tail, 'waves') or report == x"]))
    assert [text.split(";")[0] for text in both] == ["no cause is 'waves'", "no report is 'x'"]
    put(folder, *(f"r{number}" for number in range(20)))
    (many,) = unknown_values(Dataset.open(folder), Query(where=["report = r1x"]))
    assert many.startswith("no report is 'r1x'; 23 values exist; nearest: r1")
