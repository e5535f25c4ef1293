"""A dataset on disk: files are whole or missing, and SELECT statements reach nothing else."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ncubble.analysis.datasets import dataset as datasets
from ncubble.analysis.datasets import querying
from ncubble.analysis.datasets.dataset import Dataset, plain_rows
from ncubble.analysis.datasets.schema import ROW, VIEWS
from ncubble.cli.main import app
from ncubble.errors import UsageError


def rows(report: str, launches: int = 2, metrics: int = 3, **cells: Any) -> pa.Table:
    """Rows of a report that was never measured."""
    measured = [
        {
            "report": report,
            "path": f"/r/{report}",
            "launch": number,
            "label": f"k{number}",
            "metrics": [{"metric": f"m{m:03d}", "value": 100.0 * number + m, "unit": "ns"} for m in range(metrics)],
            **cells,
        }
        for number in range(launches)
    ]
    measured[0] |= {"about": {"path": f"/r/{report}", "complete": True}}
    return pa.Table.from_pylist(measured, ROW)


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    made = Dataset.create(tmp_path / "dataset")
    made.put("a", rows("a", 4))
    made.put("b", rows("b", 4))
    return made


def test_reports_are_replaced_and_removed(dataset: Dataset) -> None:
    dataset.put("b", rows("b", 1, cause="tail"))
    dataset.put("c", rows("c", 1))
    dataset.remove(["a"])
    found = dataset.select("SELECT report, cause FROM launches ORDER BY report").to_pylist()
    assert found == [{"report": "b", "cause": "tail"}, {"report": "c", "cause": None}]


def test_an_empty_dataset_has_tables_without_rows(tmp_path: Path) -> None:
    made = Dataset.create(tmp_path / "d")
    assert [made.select(f"FROM {name}").num_rows for name in VIEWS] == [0] * 4


def test_a_killed_writer_leaves_a_draft_that_nobody_reads_and_that_goes_after_a_day(dataset: Dataset) -> None:
    draft = dataset.folder / ".c.parquet.x.parquet"
    draft.write_bytes(b"half")
    Dataset.create(dataset.folder)
    assert draft.exists() and dataset.select("FROM reports").num_rows == 2
    os.utime(draft, (time.time() - 2 * 86400,) * 2)
    Dataset.create(dataset.folder)
    assert not draft.exists()


def test_a_file_of_an_earlier_version_lacks_columns(dataset: Dataset) -> None:
    pq.write_table(rows("c", 1).drop_columns(["tma", "metrics"]), dataset.folder / "c.parquet")
    assert dataset.select("SELECT tma FROM launches WHERE report = 'c'").to_pylist() == [{"tma": None}]


def test_a_folder_of_something_else_is_neither_read_nor_written(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    for made in (Dataset.create, Dataset.open):
        with pytest.raises(UsageError, match="no dataset"):
            made(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    (tmp_path / "mine.txt").rename(tmp_path / datasets.MARK)
    with pytest.raises(UsageError, match="no dataset"):
        Dataset.open(tmp_path)
    (tmp_path / datasets.MARK).write_text('{"schema": 99}')
    with pytest.raises(UsageError, match="another version"):
        Dataset.open(tmp_path)


def test_a_damaged_file_is_named(dataset: Dataset) -> None:
    (dataset.folder / "b.parquet").write_bytes(b"damaged")
    with pytest.raises(UsageError, match=r"b\.parquet: damaged") as caught:
        dataset.select("FROM launches")
    assert "delete it" in caught.value.remedy


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT label FROM launches WHERE launch >= 1 AND label <> 'k2' AND report = 'a'", [("k1",), ("k3",)]),
        (
            "SELECT launch, value, metrics.unit FROM launches JOIN metrics USING (report, launch) "
            "WHERE metric = 'm001' AND value > 100 AND report = 'b' ORDER BY value DESC",
            [(3, 301.0, "ns"), (2, 201.0, "ns"), (1, 101.0, "ns")],
        ),
        ("WITH old AS (FROM reports) SELECT report, path FROM old ORDER BY ALL", [("a", "/r/a"), ("b", "/r/b")]),
        ("SELECT * FROM errors", []),
    ],
)
def test_a_select_reads_the_tables(dataset: Dataset, statement: str, expected: list[tuple[Any, ...]]) -> None:
    assert [tuple(row.values()) for row in dataset.select(statement).to_pylist()] == expected


def test_a_limit_ends_an_endless_result_early(dataset: Dataset) -> None:
    endless = "SELECT a.launch FROM metrics a, metrics b, metrics c, metrics d, metrics e, metrics f, metrics g"
    assert dataset.select(endless, limit=7).num_rows == 7


def test_a_date_that_python_cannot_hold_is_an_error_of_the_query(dataset: Dataset) -> None:
    rows = dataset.select("SELECT DATE '290000-01-01' AS late")
    with pytest.raises(UsageError, match="cannot be shown") as caught:
        plain_rows(rows)
    assert "VARCHAR" in caught.value.remedy


def test_a_folder_that_was_left_half_created_becomes_a_dataset(tmp_path: Path) -> None:
    (tmp_path / ".dataset.json.draft").write_text("{")
    assert Dataset.create(tmp_path).select("SELECT * FROM reports").num_rows == 0


def test_numbers_and_times_come_in_types_that_json_has(dataset: Dataset) -> None:
    selected = dataset.select(
        "SELECT sum(launch) AS total, 1.5 AS decimal, list(launch::HUGEINT) AS all, DATE '2026-01-02' AS day, "
        "NULL AS nothing, 'nan'::DOUBLE AS nan FROM launches WHERE report = 'a'",
    )
    assert json.dumps(plain_rows(selected)) == json.dumps(
        [{"total": 6, "decimal": 1.5, "all": [0, 1, 2, 3], "day": "2026-01-02", "nothing": None, "nan": float("nan")}]
    )


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM glob('{folder}/*')",
        "COPY launches TO '{folder}/copy.csv'",
        "EXPORT DATABASE '{folder}/copy'",
        "ATTACH '{folder}/other.db'",
        "ATTACH '{folder}/other.db'; SELECT 1",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "PRAGMA enable_profiling",
        "CALL enable_logging(storage = 'file', storage_path = '{folder}/copy')",
        "SELECT * FROM enable_logging(storage = 'file', storage_path = '{folder}/copy')",
        "CREATE TABLE copy AS SELECT 1",
        "CREATE VIEW launches AS SELECT 1",
        "DROP VIEW launches",
        "INSERT INTO launches VALUES (1)",
        "DELETE FROM launches",
        "WITH gone AS (DELETE FROM launches RETURNING *) SELECT * FROM gone",
        "SELECT 1; SELECT 2",
        "SELECT * FROM folder",
        "SELECT * FROM query('COPY launches TO ''{folder}/copy.csv''')",
        "",
        "-- nothing",
    ],
)
def test_whatever_does_not_only_read_the_dataset_is_refused(dataset: Dataset, tmp_path: Path, statement: str) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("secret\n1\n")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError) as refused:
        dataset.select(statement.format(file=file, folder=tmp_path))
    assert refused.value.remedy
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT lable FROM launches", "label"),
        ("SELEC label FROM launches", "syntax error"),
        ("SELECT launch, launch + 1 AS launch FROM launches", "duplicate column name 'launch'"),
        ("SELECT label::INTEGER FROM launches", "Could not convert"),
    ],
)
def test_a_wrong_statement_is_refused_with_its_cause(dataset: Dataset, statement: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        dataset.select(statement)


def test_a_statement_that_takes_too_long_is_interrupted(dataset: Dataset) -> None:
    endless = (
        "WITH pairs AS (SELECT a.value AS x, b.value AS y FROM metrics a, metrics b) "
        "SELECT count(*) FROM pairs a, pairs b, pairs c, pairs d, pairs e WHERE a.x + b.y + c.x < d.y + e.x"
    )
    start = time.monotonic()
    with pytest.raises(UsageError, match="not finished after"):
        dataset.select(endless, time_limit_s=0.5)
    assert time.monotonic() - start < 10


def test_rows_and_size_of_the_result_are_limited(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    statement = "SELECT * FROM metrics a, (SELECT launch AS other FROM metrics) b"
    for limit in ("LARGEST_RESULT_B", "MOST_ROWS"):
        with monkeypatch.context() as patched:
            patched.setattr(querying, limit, 10)
            with pytest.raises(UsageError, match="the result"):
                querying.select(dataset, statement, None)


@pytest.mark.parametrize("statement", ["SELECT range(3000000000)", "SELECT repeat('x', 4000000000)"])
def test_the_memory_of_a_query_is_limited_whatever_asks_for_it(dataset: Dataset, statement: str) -> None:
    with pytest.raises(UsageError, match="6 GiB with its rows"):
        dataset.select(statement)


@pytest.mark.parametrize(
    "statement", ["SELECT '=1+1' AS a", 'SELECT 1 AS "=1+1"', "SELECT '@x' AS a", "SELECT '-1' AS a"]
)
def test_csv_holds_no_formulas(dataset: Dataset, statement: str) -> None:
    lines = query(str(dataset.folder), statement, "--csv").stdout.splitlines()
    assert not any(cell.startswith(("=", "@", "-", "+")) for line in lines for cell in line.split(","))


def query(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["query", *arguments])


def test_query_prints_a_table_json_and_csv(dataset: Dataset) -> None:
    dataset.put("c", rows("c", 1))
    statement = "SELECT report, count(*) AS n, 'nan'::DOUBLE AS x FROM launches GROUP BY report ORDER BY report DESC"
    answer = json.loads(query(str(dataset.folder), f"{statement} LIMIT 2", "--json").stdout)
    assert answer["rows"] == [{"report": "c", "n": 1, "x": None}, {"report": "b", "n": 4, "x": None}]
    assert query(str(dataset.folder), statement, "--csv").stdout.splitlines()[:2] == ["report,n,x", "c,1,nan"]
    assert "3 rows" in query(str(dataset.folder), statement).stdout
    assert "9 rows" in query(str(dataset.folder)).stdout
    refused = query(str(dataset.folder), "--json", "--csv").exception
    assert isinstance(refused, UsageError) and "--json" in refused.message
