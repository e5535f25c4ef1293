"""Ingesting folders of reports: each once, damaged and deadly ones alone, interrupted and resumed,
also on Dask."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from ncubble.analysis.datasets import log
from ncubble.analysis.datasets.dataset import Dataset
from ncubble.analysis.datasets.ingest import batches as ingest_many
from ncubble.analysis.datasets.ingest import dask_crew as ingest_dask
from ncubble.analysis.datasets.ingest.crew import Batch, LocalCrew
from ncubble.analysis.datasets.ingest.dask_crew import DaskCrew
from ncubble.analysis.datasets.ingest.plan import BATCH, BATCH_B, batches, plan
from ncubble.analysis.datasets.ingest.process import Died, IngestProcess, Made, Outcome, Unfit, WantedReport
from ncubble.analysis.datasets.rows import report_id
from ncubble.analysis.datasets.schema import REPORTS
from ncubble.analysis.diagnosis.results import report_json, rules_hash
from ncubble.cli.main import app
from ncubble.errors import MeasurementError
from ncubble.recordings import REPEATS, ROOT

SMALL = ROOT / "softmax_online" / "default"
OTHER = REPEATS / "tiled_matmul" / "default"
KILLED = Path(__file__).parents[3] / "data" / "killed"


def settle(*files: Path) -> None:
    """Let files look as if they had been written a while ago."""
    old = time.time() - 3600
    for file in files:
        for path in (file, *file.rglob("*")) if file.is_dir() else (file,):
            os.utime(path, (old, old))


def reports(folder: Path, **named: Path) -> Path:
    for name, source in named.items():
        shutil.copytree(source, folder / name)
        settle(folder / name)
    return folder


@pytest.fixture(scope="module")
def command() -> Any:
    return lambda *argv: CliRunner().invoke(app, ["ingest", *map(str, argv), "--workers", "1", "--json"])


def told(result: Any, code: int = 0) -> dict[str, Any]:
    assert result.exit_code == code, result.output
    return dict(json.loads(result.stdout))


def test_a_folder_is_read_once_and_later_only_what_changed(tmp_path: Path, command: Any) -> None:
    source, out = reports(tmp_path / "r", a=SMALL, b=OTHER), tmp_path / "d"
    (source / "broken.ncu-rep").write_bytes(b"NVR\0damaged")
    settle(source / "broken.ncu-rep")
    first = told(command(source, "-o", out), 3)
    assert (first["read"], first["errors"], first["reports"]) == (3, 1, 3)
    verdicts = report_json([source / "a"])["launches"]
    found = Dataset.open(out)
    rows = {(row["path"], row["launch"]): row for row in found.launches().to_table().to_pylist()}
    assert len(rows) == first["launches"] > len(verdicts) > 0
    for verdict in verdicts:
        row = rows[verdict["report"], verdict["launch"]]
        assert all(row[name] == verdict[name] for name in ("label", "cause", "disease", "duration_ns", "dram_pct"))
        assert {part: row[f"{part}_pct"] for part in verdict["account"] or {}} == (verdict["account"] or {})
    [error] = found.errors().to_table().to_pylist()
    assert error["path"].endswith("broken.ncu-rep") and "damaged" in error["error"]
    again = told(command(source, "-o", out))
    assert (again["read"], again["unchanged"], again["reports"]) == (0, 3, 3)

    shutil.rmtree(source / "b")
    shutil.copytree(SMALL, source / "b")  # changed
    (source / "broken.ncu-rep").unlink()  # gone
    os.utime(source / "a" / "report.ncu-repz")  # touched: the content is the same
    changed = told(command(source, "-o", out))
    assert (changed["read"], changed["unchanged"], changed["gone"]) == (1, 1, [str(source / "broken.ncu-rep")])
    assert changed["launches"] == 2 and changed["reports"] == 3
    pruned = told(command(source, "-o", out, "--prune"))
    assert (pruned["reports"], pruned["failed"], pruned["launches"]) == (2, 0, 2)


class Scripted:
    """A crew without processes: what becomes of a batch is a function of it."""

    workers = 2

    def __init__(self, outcome: Any) -> None:
        self.outcome, self.out, self.asked = outcome, list[Batch](), list[Batch]()

    def submit(self, batch: Batch) -> None:
        self.out.append(batch)
        self.asked.append(batch)

    def next(self) -> tuple[Batch, Outcome]:
        batch = self.out.pop(0)
        found = self.outcome(batch)
        if isinstance(found, Exception):
            raise found
        return batch, found


def _made(batch: Batch) -> Made:
    known = [ingest_many.KnownReport(one.path, one.stamp) for one in batch]
    error = MeasurementError("x", "y")
    return Made(
        ingest_many.encode([ingest_many.failed_rows(one, error) for one in known]), tuple(one.report for one in known)
    )


def _planned(tmp_path: Path, count: int) -> tuple[Path, ingest_many.IngestPlan]:
    log.create(tmp_path / "d")
    wanted = tuple(WantedReport(f"/nowhere/{n}", "s", size=1) for n in range(count))
    return tmp_path / "d", ingest_many.IngestPlan(wanted)


def test_a_report_that_kills_whoever_reads_it_costs_itself_alone(tmp_path: Path) -> None:
    folder, planned = _planned(tmp_path, 37)
    deadly = {"/nowhere/5", "/nowhere/30"}
    crew = Scripted(lambda batch: Died("died (SIGKILL)") if deadly & {one.path for one in batch} else _made(batch))
    tally = ingest_many.ingest_planned(folder, planned, crew)
    errors = Dataset.open(folder).errors().to_table().to_pylist()
    assert {row["path"] for row in errors if "SIGKILL" in row["error"]} == deadly
    assert (tally.read, len(errors), Dataset.open(folder).rows("reports")) == (37, 37, 37)
    assert max(sum(batch == asked for asked in crew.asked) for batch in crew.asked) <= 2


def test_a_death_that_does_not_come_back_costs_no_report(tmp_path: Path) -> None:
    folder, planned = _planned(tmp_path, 20)
    deaths = iter([True, False, True])
    tally = ingest_many.ingest_planned(
        folder, planned, Scripted(lambda batch: Died("died (SIGKILL)") if next(deaths, False) else _made(batch))
    )
    assert (tally.read, tally.deaths) == (20, 2)
    assert not any("SIGKILL" in row["error"] for row in Dataset.open(folder).errors().to_table().to_pylist())


@pytest.mark.parametrize("end", [MeasurementError("the cluster was lost", ""), KeyboardInterrupt(), Unfit("disk", "")])
def test_whatever_ends_an_ingest_what_was_committed_stays_and_the_rest_is_planned_anew(
    tmp_path: Path, end: BaseException | Unfit
) -> None:
    folder, planned = _planned(tmp_path, 64)
    turns = iter(range(100))

    def outcome(batch: Batch) -> Any:
        if next(turns) < 3:
            return _made(batch)
        if isinstance(end, KeyboardInterrupt):
            raise end
        return end

    with pytest.raises((MeasurementError, KeyboardInterrupt)):
        ingest_many.ingest_planned(folder, planned, Scripted(outcome))
    assert Dataset.open(folder).rows("reports") == 24


def test_batches_are_bounded_by_count_and_by_bytes() -> None:
    many = [WantedReport(str(n), "", size=100) for n in range(1000)]
    cut = batches(many, 2)
    assert [one for batch in cut for one in batch] == many and max(map(len, cut)) == BATCH
    assert [len(batch) for batch in batches(many[:10], 4)] == [1] * 10
    large = [WantedReport(str(n), "", size=BATCH_B // 2 + n % 2 * BATCH_B) for n in range(200)]
    assert all(len(batch) == 1 or sum(one.size for one in batch) <= BATCH_B for batch in batches(large, 1))
    assert batches([], 3) == []


def test_what_was_written_a_moment_ago_is_looked_at_again(tmp_path: Path) -> None:
    source = reports(tmp_path / "r", a=SMALL)
    log.create(tmp_path / "d")
    assert plan(Dataset.open(tmp_path / "d"), [source]).wanted[0].stamp
    os.utime(source / "a" / "run.json")
    assert plan(Dataset.open(tmp_path / "d"), [source]).wanted[0].stamp == ""


def test_a_folder_that_cannot_be_looked_at_does_not_make_its_reports_gone(tmp_path: Path, command: Any) -> None:
    log.create(tmp_path / "d")
    known = ingest_many.KnownReport(str(tmp_path / "r" / "a"), "s")
    made = ingest_many.encode([ingest_many.failed_rows(known, MeasurementError("x", "y"))])
    ingest_many.DatasetWriter(tmp_path / "d").put(made, [known.report])
    assert plan(Dataset.open(tmp_path / "d"), [tmp_path / "r"]).gone == {}
    assert command(tmp_path / "r", "-o", tmp_path / "d").exit_code != 0
    (tmp_path / "r").mkdir()
    assert list(plan(Dataset.open(tmp_path / "d"), [tmp_path / "r"]).gone.values()) == [known.path]


def test_a_process_that_hangs_is_ended_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    (tmp_path / "python").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "python").chmod(0o755)
    with IngestProcess(silent_s=0.3) as process:
        assert process.ingest((WantedReport("/x", ""),), False) == Died("showed no progress for 0.3 s")
        assert process.process.process is None
    assert [path.name for path in tmp_path.iterdir()] == ["python"]


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A scheduler and one worker, each a process, in which deadly reports kill; the scheduler's
    address and process."""
    env = os.environ | {"PYTHONPATH": str(KILLED)}
    address = folder / "scheduler.json"
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": env}
    start = [sys.executable, "-m"]
    arguments = ["--scheduler-file", str(address), "--no-dashboard"]
    scheduler = subprocess.Popen(  # type: ignore[call-overload]
        [*start, "distributed.cli.dask_scheduler", *arguments, "--port", "0", "--host", "127.0.0.1"], **options
    )
    worker = subprocess.Popen(  # type: ignore[call-overload]
        [*start, "distributed.cli.dask_worker", *arguments, "--no-nanny", "--nthreads", "1", "--death-timeout", "30"],
        **options,
    )
    try:
        for _ in range(600):
            if address.exists() and address.read_text().endswith("}"):
                break
            time.sleep(0.05)
        yield json.loads(address.read_text())["address"], scheduler
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait()


def test_on_a_cluster_a_deadly_report_costs_itself_and_a_lost_scheduler_nothing_that_was_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(ingest_dask, "AWAY_S", 1.0)
    source = reports(tmp_path / "r", a=SMALL, b=OTHER)
    shutil.copy(SMALL / "report.ncu-repz", source / "lethal7.ncu-repz")
    log.create(tmp_path / "d")
    with cluster(tmp_path) as (address, scheduler):
        with DaskCrew(address, False) as crew:
            while not crew.client.nthreads():
                time.sleep(0.05)
            crew.examine(str(source / "a"))
            planned = plan(Dataset.open(tmp_path / "d"), [source])
            tally = ingest_many.ingest_planned(tmp_path / "d", planned, crew)
        found = Dataset.open(tmp_path / "d")
        [error] = found.errors().to_table().to_pylist()
        assert error["path"].endswith("lethal7.ncu-repz") and "SIGKILL" in error["error"]
        assert (tally.read, found.rows("reports"), tally.deaths) == (3, 3, 2)

        with DaskCrew(address, False) as crew:
            scheduler.send_signal(signal.SIGKILL)
            with pytest.raises(MeasurementError, match="the cluster was lost"):
                ingest_many.ingest_planned(
                    tmp_path / "d", ingest_many.IngestPlan((WantedReport(str(source / "a"), ""),)), crew
                )
    assert Dataset.open(tmp_path / "d").rows("reports") == 3


def test_workers_of_this_machine_outlive_a_deadly_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(KILLED))
    source = reports(tmp_path / "r", a=SMALL)
    shutil.copy(SMALL / "report.ncu-repz", source / "lethal7.ncu-repz")
    log.create(tmp_path / "d")
    with LocalCrew(1, True) as crew:
        planned = plan(Dataset.open(tmp_path / "d"), [source])
        tally = ingest_many.ingest_planned(tmp_path / "d", planned, crew)
    found = Dataset.open(tmp_path / "d")
    assert (tally.read, found.rows("launches"), found.rows("errors")) == (2, 1, 1)
    assert min(found.rows(table) for table in ("timeline", "source", "rules")) > 0, "--details"
    assert found.table("source").to_table(columns=["sass", "stalls"]).num_rows > 100


def test_what_is_asked_for_again_is_planned_again(tmp_path: Path) -> None:
    source = reports(tmp_path / "r", a=SMALL, b=SMALL)
    log.create(tmp_path / "d")
    whole, broken = plan(Dataset.open(tmp_path / "d"), [source]).wanted
    rows = [{"report": report_id(one.path), "path": one.path, "stamp": one.stamp} for one in (whole, broken)]
    rows[0] |= {"complete": True, "details": False, "rules": "older", "sha256": "s", "facts": "f"}
    rows[1] |= {"complete": False, "rules": rules_hash()}
    made = ingest_many.encode([{"reports": pa.Table.from_pylist(rows, REPORTS)}])
    ingest_many.DatasetWriter(tmp_path / "d").put(made, [row["report"] for row in rows])

    def wanted(**options: bool) -> list[WantedReport]:
        return list(plan(Dataset.open(tmp_path / "d"), [source], **options).wanted)

    found = plan(Dataset.open(tmp_path / "d"), [source])
    assert (found.wanted, found.unchanged, found.stale) == ((), 2, 1)
    assert wanted(rejudge=True) == wanted(details=True) == [whole]
    assert wanted(retry=True) == [broken]
    os.utime(source / "a" / "run.json", (1, 1))
    assert [(one.sha256, one.facts) for one in wanted()] == [("s", "f")], "its content is compared"
