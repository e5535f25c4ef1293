"""Ingesting folders of reports: each once, damaged and deadly ones alone, resumed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from ncubble.analysis.datasets import ingest as ingesting
from ncubble.analysis.datasets import worker
from ncubble.analysis.datasets.dataset import Dataset
from ncubble.analysis.datasets.ingest import ingest
from ncubble.analysis.diagnosis.results import report_json
from ncubble.analysis.report.reading import NativeReader
from ncubble.cli.main import app
from ncubble.errors import MeasurementError
from ncubble.recordings import RANKS, REPEATS, ROOT

SMALL = ROOT / "tiled_matmul" / "default"
OTHER = REPEATS / "tiled_matmul" / "default"
KILLED = Path(__file__).parents[3] / "data" / "killed"


def reports(folder: Path, **named: Path) -> Path:
    for name, source in named.items():
        shutil.copytree(source, folder / name)
    return folder


def command(code: int, *argv: object) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["ingest", *map(str, argv), "--json"])
    assert result.exit_code == code, result.output
    return dict(json.loads(result.stdout))


def test_a_folder_is_read_once_and_later_only_what_changed(tmp_path: Path) -> None:
    source, out = reports(tmp_path / "r", a=SMALL, b=OTHER), tmp_path / "d"
    broken = source / "broken.ncu-rep"
    broken.write_bytes(b"NVR\0damaged")
    first = command(3, source, "-o", out)
    assert (first["read"], first["reports"]) == (3, 3)
    assert [(error["report"], "damaged" in error["error"]) for error in first["errors"]] == [(str(broken), True)]
    dataset = Dataset.open(out)
    found = {(row["path"], row["launch"]): row for row in dataset.select("FROM launches").to_pylist()}
    assert len(found) == first["launches"] == 6
    for verdict in report_json([source / "a"])["launches"]:
        row = found[verdict["report"], verdict["launch"]]
        assert all(row[name] == verdict[name] for name in ("label", "cause", "duration_ns", "dram_pct"))
        assert row["change"] == verdict["changes"][0]["kind"]
        assert {part: row[f"{part}_pct"] for part in verdict["account"]} == verdict["account"]
    assert dataset.select("SELECT path FROM errors").to_pylist() == [{"path": str(broken)}]
    again = command(3, source, "-o", out)
    assert (again["read"], again["unchanged"], again["reports"]) == (1, 2, 3), "only what could not be read"

    shutil.rmtree(source / "b")
    shutil.copytree(RANKS / "rank0", source / "b")  # changed
    broken.unlink()  # gone
    changed = command(0, source, "-o", out)
    assert (changed["read"], changed["unchanged"], changed["gone"]) == (1, 1, [str(broken)])
    assert (changed["reports"], command(0, source, "-o", out, "--prune")["reports"]) == (3, 2)
    assert (dataset.select("SELECT DISTINCT rank FROM launches WHERE rank IS NOT NULL")["rank"].to_pylist()) == [0]


def test_reports_of_other_rules_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, dataset = reports(tmp_path / "r", a=SMALL), Dataset.create(tmp_path / "d")
    assert ingest(dataset, [source]).read == 1
    assert ingest(dataset, [source]).read == 0
    monkeypatch.setattr(ingesting, "rules_hash", lambda: "of another version")
    assert ingest(dataset, [source]).read == 1
    assert dataset.select("FROM metrics").num_rows > 0


def test_what_lies_elsewhere_is_not_gone(tmp_path: Path) -> None:
    source, dataset = reports(tmp_path / "r", a=SMALL), Dataset.create(tmp_path / "d")
    ingest(dataset, [source])
    (tmp_path / "other").mkdir()
    assert ingest(dataset, [tmp_path / "other"]).gone == {}


def test_a_report_that_kills_its_process_costs_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(KILLED), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("NCUBBLE_WORKERS", "1")
    monkeypatch.setattr(ingesting, "TURNS", 1)  # both in one request
    source, dataset = reports(tmp_path / "r", a=SMALL), Dataset.create(tmp_path / "d")
    shutil.copy(SMALL / "report.ncu-repz", source / "lethal7.ncu-repz")
    done = ingest(dataset, [source])
    assert [(Path(path).name, "SIGKILL" in error) for path, error in done.failed] == [("lethal7.ncu-repz", True)]
    assert dataset.select("SELECT path FROM launches")["path"].to_pylist() == [str(source / "a")]
    assert dataset.select("SELECT error FROM errors")["error"].to_pylist() == [done.failed[0][1]]


def test_a_process_that_hangs_is_ended_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, dataset = reports(tmp_path / "r", a=SMALL), Dataset.create(tmp_path / "d")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setattr(ingesting, "SILENT_S", 0.3)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    (tmp_path / "python").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "python").chmod(0o755)
    [(_, error)] = ingest(dataset, [source]).failed
    assert "showed no progress for 0.3 s" in error and not list(temporary.iterdir())


def test_a_process_reads_all_its_batches_by_one_native_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(NativeReader, "spare", [])
    dataset, readers = Dataset.create(tmp_path / "d"), set[int]()
    for name, path in {"a": SMALL, "b": OTHER}.items():
        request = {"dataset": str(dataset.folder), "reports": {name: str(path)}}
        assert worker.serve(request, lambda: None)["failed"] == []
        assert NativeReader.spare is not None
        (reader,) = NativeReader.spare
        assert reader.process is not None
        readers.add(reader.process.pid)
    reader.close()
    assert len(readers) == 1


def test_an_unfit_machine_ends_the_ingest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, dataset = reports(tmp_path / "r", a=SMALL), Dataset.create(tmp_path / "d")
    monkeypatch.setattr(
        ingesting.ServingProcess, "ask", lambda *_, **__: {"unfit": "the disk is full", "remedy": "free space"}
    )
    with pytest.raises(MeasurementError, match="the disk is full"):
        ingest(dataset, [source])


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (MemoryError(), "needs more than 8 GiB of memory to judge"),
        (IndexError("index 7 is out of bounds for axis 0 with size 3"), "contradicts itself"),
        (pa.ArrowInvalid("Integer value 300 not in range"), "contradicts itself"),
    ],
)
def test_a_report_that_cannot_be_judged_is_told_in_our_words(
    failure: Exception, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise failure

    monkeypatch.setattr(worker, "report_rows", fails)
    path = str(reports(tmp_path / "r", a=SMALL) / "a")
    ((where, error),) = worker.read(Dataset.create(tmp_path / "d"), {path: "1" * 64}, lambda: None)
    assert where == path and said in error.message and (str(failure) or "MemoryError") not in str(error)


def test_an_interrupted_ingest_goes_on_where_it_ended(tmp_path: Path) -> None:
    source, out = reports(tmp_path / "r", a=SMALL, b=OTHER, c=RANKS / "rank0"), tmp_path / "d"
    argv = [sys.executable, "-c", "from ncubble.cli.main import main; main()", "ingest", str(source), "-o", str(out)]
    first = subprocess.Popen(argv, env=os.environ | {"NCUBBLE_WORKERS": "1"}, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not list(out.glob("[!.]*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.05)
    first.send_signal(signal.SIGTERM)
    _, said = first.communicate(timeout=60)
    assert first.returncode == 128 + signal.SIGTERM and "keeps what was read" in said
    rest = command(0, source, "-o", out)
    assert rest["read"] + rest["unchanged"] == rest["reports"] == 3 and rest["unchanged"] >= 1
