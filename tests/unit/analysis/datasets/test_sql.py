"""SQL over a dataset: the rows that the options give, and nothing but reading."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ncubble.analysis.datasets import log, sql
from ncubble.analysis.datasets.dataset import Dataset
from ncubble.analysis.datasets.parts import DatasetWriter, encode
from ncubble.analysis.datasets.query import Query, run
from ncubble.analysis.datasets.sql import select
from ncubble.cli.main import app
from ncubble.errors import UsageError
from tests.unit.analysis.datasets.test_dataset import put, tables


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    log.create(tmp_path / "dataset")
    put(tmp_path / "dataset", "a", "b", launches=4)
    return tmp_path / "dataset"


@pytest.mark.parametrize(
    ("statement", "query"),
    [
        (
            "SELECT launch, label FROM launches WHERE launch >= 1 AND label <> 'k2'",
            Query(where=["launch >= 1 and label != k2"], columns=["launch", "label"]),
        ),
        (
            "SELECT * FROM metrics WHERE metric IN ('m001', 'm002') AND value > 100",
            Query(table="metrics", where=["metric in (m001, m002) and value > 100"]),
        ),
        (
            "SELECT report, launch, value AS m001 FROM launches JOIN metrics USING (report, launch) "
            "WHERE metric = 'm001' AND value > 100 ORDER BY value DESC, report",
            Query(
                metrics=["m001"],
                columns=["report", "launch", "m001"],
                where=["m001 > 100"],
                sort="m001",
                descending=True,
            ),
        ),
        ("WITH old AS (FROM reports) SELECT report, path FROM old", Query(table="reports", columns=["report", "path"])),
        ("SELECT rank, warnings FROM launches", Query(columns=["rank", "warnings"])),
        ("SELECT * FROM source", Query(table="source")),
        ("SELECT * FROM errors", Query(table="errors")),
    ],
)
def test_a_select_gives_the_rows_that_the_options_give(folder: Path, statement: str, query: Query) -> None:
    dataset = Dataset.open(folder)
    assert select(dataset, statement).to_pylist() == run(dataset, query).to_pylist()


def test_only_parts_that_the_log_lists_are_read(folder: Path) -> None:
    part = next((folder / "parts").iterdir())
    shutil.copytree(part, part.with_name("unlisted"))
    assert select(Dataset.open(folder), "SELECT count(*) AS n FROM launches")["n"].to_pylist() == [8]


def test_a_limit_ends_an_endless_result_early(folder: Path) -> None:
    endless = "SELECT a.launch FROM metrics a, metrics b, metrics c, metrics d, metrics e, metrics f, metrics g"
    assert select(Dataset.open(folder), endless, limit=7).num_rows == 7


def test_numbers_and_times_come_in_types_that_json_has(folder: Path) -> None:
    rows = select(
        Dataset.open(folder),
        "SELECT sum(launch) AS total, 1.5 AS decimal, list(launch::HUGEINT) AS all, DATE '2026-01-02' AS day, "
        "NULL AS nothing, 'nan'::DOUBLE AS nan FROM launches WHERE report = 'a'",
    ).to_pylist()
    assert json.dumps(rows) == json.dumps(
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
def test_whatever_does_not_only_read_the_dataset_is_refused(folder: Path, tmp_path: Path, statement: str) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("secret\n1\n")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError) as refused:
        select(Dataset.open(folder), statement.format(file=file, folder=tmp_path))
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
def test_a_wrong_statement_is_refused_with_its_cause(folder: Path, statement: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        select(Dataset.open(folder), statement)


def test_a_statement_that_takes_too_long_is_interrupted(folder: Path) -> None:
    endless = (
        "WITH pairs AS (SELECT a.value AS x, b.value AS y FROM metrics a, metrics b) "
        "SELECT count(*) FROM pairs a, pairs b, pairs c, pairs d, pairs e WHERE a.x + b.y + c.x < d.y + e.x"
    )
    start = time.monotonic()
    with pytest.raises(UsageError, match="not finished after"):
        select(Dataset.open(folder), endless, time_limit_s=0.5)
    assert time.monotonic() - start < 10


def test_a_result_that_is_too_large_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "LARGEST_RESULT_B", 1000)
    with pytest.raises(UsageError, match="larger than"):
        select(Dataset.open(folder), "SELECT * FROM metrics a, metrics b")


def query(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["query", *arguments])


def test_the_command_prints_what_sql_selects(folder: Path) -> None:
    DatasetWriter(folder).put(encode([tables("c", launches=1)]), ["c"])
    statement = "SELECT report, count(*) AS n, 'nan'::DOUBLE AS x FROM launches GROUP BY report ORDER BY report DESC"
    answer = query(str(folder), statement, "--json", "--limit", "2")
    rows = [{"report": "c", "n": 1, "x": None}, {"report": "b", "n": 4, "x": None}]
    assert json.loads(answer.stdout) == {"schema": 1, "dataset": str(folder), "sql": statement, "rows": rows}
    assert query(str(folder), statement, "--csv").stdout.splitlines()[:2] == ["report,n,x", "c,1,nan"]
    assert "3 rows" in query(str(folder), statement).stdout
    refused = query(str(folder), statement, "--where", "launch = 1")
    assert isinstance(refused.exception, UsageError)
    assert "--where" in refused.exception.message
