"""Ranks: who tells them, that their runs do not collide, and that the same launch of all ranks is
matched."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ncubble.analysis.compare.ranks import RankLaunch, by_rank, largest, most_apart, place
from ncubble.analysis.datasets.rows import about_run
from ncubble.analysis.diagnosis.results import ReportResult, judge_all
from ncubble.analysis.report.launch_key import LaunchKey
from ncubble.analysis.report.report import LaunchIdentity, open_reports
from ncubble.profiling.ranks import Rank, folder_of, numbered, of_environ, rank_of
from ncubble.profiling.runs import MANIFEST, Manifest, Run
from ncubble.recordings import RANKS, ROOT
from tests.helpers.ablations import ABLATED
from tests.helpers.dashboard_frames import verdict
from tests.helpers.fake_machine import install

OMPI = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
STAGES = [ROOT / "async_pipeline" / f"stages{n}" for n in (3, 4)]


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({}, {}),
        (OMPI, {"rank": 3, "size": 4, "local_rank": 1, "source": "OMPI_COMM_WORLD_RANK"}),
        (
            {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"},
            {"rank": 0, "size": 2, "local_rank": 0, "source": "RANK"},
        ),
        ({"RANK": "1"}, {}),  # anybody's variable
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, {}),  # a batch script, not a step
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, {}),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, {"rank": 1, "size": 2, "local_rank": None, "source": "PMI_RANK"}),
        ({"PMI_RANK": "2", "PMI_SIZE": "2"}, {}),
        ({"PMI_RANK": "-1", "PMI_SIZE": "x"}, {}),
        ({"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "9", **OMPI}, "OMPI_COMM_WORLD_RANK"),
    ],
)
def test_a_rank_is_told_by_the_launcher(environ: Mapping[str, str], told: Any) -> None:
    found = of_environ(environ)
    assert (found["source"] if isinstance(told, str) else found) == told


def test_ranks_do_not_share_a_folder() -> None:
    ranks = [of_environ(OMPI | {"OMPI_COMM_WORLD_RANK": str(n), "OMPI_COMM_WORLD_SIZE": "12"}) for n in (2, 11)]
    assert [folder_of(Path("o"), rank, named=True) for rank in ranks] == [Path("o/rank02"), Path("o/rank11")]
    assert folder_of(Path("runs/p-T"), ranks[0], named=False) == Path("runs/p-T-rank02")
    assert folder_of(Path("o"), {}, named=True) == Path("o")


@pytest.mark.parametrize(
    ("path", "rank", "program"),
    [
        ("j/report.rank0.ncu-rep", 0, "j/report.*.ncu-rep"),
        ("j/prog_rank_12.ncu-repz", 12, "j/prog_*.ncu-repz"),
        ("j/rank3/report.ncu-rep", 3, "j/*"),
        ("j/gpu1/x.ncu-rep", 1, "j/*/x.ncu-rep"),
        ("j/franky2.ncu-rep", None, ""),
        ("j/report_2.ncu-rep", None, ""),
        ("j/rank99999999.ncu-rep", None, ""),
    ],
)
def test_a_rank_is_told_by_a_name(path: str, rank: int | None, program: str) -> None:
    found = rank_of(Run(Path(path), Path(path)))
    assert (found.rank, found.program) == (rank, program) if found else rank is None


def test_the_manifest_goes_before_the_name() -> None:
    manifest = Manifest(rank={"rank": 1, "size": 4, "local_rank": 1, "source": "RANK"})
    path = Path("j/rank7")
    assert rank_of(Run(path, path / "report.ncu-rep", manifest)) == Rank(1, 4, "RANK", "j")
    text = Manifest.from_json(manifest.to_json(), path)
    assert text.rank == manifest.rank and Manifest.from_json('{"schema": 1}', path).rank == {}


def test_names_that_differ_in_one_number_are_ranks_if_they_count_from_0() -> None:
    paths = [Path(f"a/report_{n}.ncu-rep") for n in range(3)] + [Path("b/stages_2.ncu-rep"), Path("b/stages_4.ncu-rep")]
    found = numbered([*paths, Path("c/only_0.ncu-rep")])
    assert {str(path): rank.rank for path, rank in found.items()} == {f"a/report_{n}.ncu-rep": n for n in range(3)}


def launched(rank: int, launch: int, time: float | None, kernel: str = "k", **parts: float) -> RankLaunch:
    values = {"duration_ns": time, "tensor_elapsed_pct": 50.0, "dram_pct": None}
    values |= {"tensor_busy": 50.0, "data_wait": 50.0} | parts
    key = LaunchKey(kernel=kernel, grid="1,1,1", block="32,1,1")
    return RankLaunch(Rank(rank, 4, "RANK", "p"), key, f"r{rank}", launch, kernel, values)


def test_launches_are_matched_by_kernel_grid_and_order() -> None:
    placed = [launched(rank, n, 100.0 + 10 * rank * n, "ab"[n % 2]) for rank in range(3) for n in range(4)]
    [program] = by_rank(placed).programs
    assert [(one.kernel, one.ordinal) for one in program.matched] == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    last = program.matched[3]
    assert last.launches == {0: ("r0", 3), 1: ("r1", 3), 2: ("r2", 3)}
    assert (last.values["duration_ns"].min, last.values["duration_ns"].median, last.values["duration_ns"].max) == (
        100.0,
        130.0,
        160.0,
    )
    assert (last.skew_pct, last.slowest, last.missing) == (pytest.approx(60 / 130 * 100), 2, (3,))
    assert "dram_pct" not in last.values and program.ranks[2] == {"launches": 4, "duration_ns": 520.0}
    assert largest(program.matched, 1) == [last]


def test_what_differs_most_is_a_part_in_which_ranks_differ() -> None:
    [program] = by_rank([launched(0, 0, 1.0), launched(1, 0, None, sync_wait=9.0, data_wait=41.0)]).programs
    found = most_apart(program.matched[0])
    assert found is not None and (found[0], found[1].max_rank) == ("data_wait", 0)
    assert program.matched[0].values["duration_ns"].n == 1
    [even] = by_rank([launched(0, 0, 1.0), launched(1, 0, 1.0)]).programs
    assert most_apart(even.matched[0]) is None


def test_reports_of_ranks_are_found_by_name_and_by_manifest(tmp_path: Path) -> None:
    """Recordings of one GPU stand in for ranks."""
    for rank, source in enumerate(STAGES):
        shutil.copy(source / "report.ncu-repz", tmp_path / f"job_{rank}.ncu-repz")
        shutil.copytree(source, tmp_path / "run" / f"rank{rank}")
        manifest = json.loads((source / MANIFEST).read_text()) | {"rank": {"rank": rank, "size": 2, "source": "RANK"}}
        (tmp_path / "run" / f"rank{rank}" / MANIFEST).write_text(json.dumps(manifest))
    shutil.copy(STAGES[0] / "report.ncu-repz", tmp_path / "alone.ncu-repz")
    reports, _ = open_reports([tmp_path])
    found = by_rank(*place(reports, judge_all(reports, [])))
    assert [path.rpartition("/")[2] for path in found.unranked] == ["alone.ncu-repz"]
    assert {program.sources: (sorted(program.ranks), len(program.matched)) for program in found.programs} == {
        ("name",): ([0, 1], 1),
        ("RANK",): ([0, 1], 1),
    }
    assert json.loads(json.dumps(found.to_json(), default=str))["programs"][0]["matched"][0]["kernel"]
    row = about_run(reports[-1].run)
    assert (row["rank"], row["world_size"], row["rank_from"]) == (1, 2, "RANK")


def test_one_report_of_several_gpus_has_a_rank_for_each() -> None:
    buses = pd.DataFrame([[0, 0x9D, 0], [0, 0x19, 0], [0, 0x9D, 0], [0, np.nan, 0]], index=range(4))
    path = Path("one/report.ncu-rep")
    report: Any = SimpleNamespace(
        path=path,
        run=Run(path, path),
        wide=lambda names: buses,
    )
    report.launch = lambda number: SimpleNamespace(
        number=number, report=report, identity=LaunchIdentity(grid="1,1,1", block="1,1,1")
    )
    verdicts = [verdict("k", 1.0, "none", report=str(path), launch=launch, label="one") for launch in range(4)]
    placed, unranked = place([report], ReportResult(verdicts))
    assert [(launch.launch, launch.rank.rank, launch.rank.source) for launch in placed] == [
        (0, 1, "gpu"), (1, 0, "gpu"), (2, 1, "gpu"),
    ]  # fmt: skip
    assert {launch.label for launch in placed} == {"k"}  # the kernel, not the file
    assert not unranked and "each GPU counts as a rank" in " ".join(by_rank(placed).notes)
    report.wide = lambda names: buses.iloc[[0, 2]]
    assert place([report], ReportResult(verdicts)) == ([], [str(path)])


def test_processes_that_are_profiled_below_a_launcher_write_runs_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ranks at once, as mpirun starts them; ncu is played."""
    install(monkeypatch, tmp_path)
    code = "from ncubble.cli.main import main; main()"
    argv = [sys.executable, "-c", code, "profile", "--out", "job", "--", sys.executable, "-c", ""]
    ranks = [OMPI | {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2"} for rank in range(2)]
    processes = [
        subprocess.Popen(argv, cwd=tmp_path, env=os.environ | rank, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for rank in ranks
    ]
    said = [process.communicate()[1].decode()[-500:] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    told = [Run.load(tmp_path / "job" / f"rank{rank}").manifest.rank for rank in range(2)]
    assert [(one["rank"], one["size"], one["source"]) for one in told] == [
        (rank, 2, "OMPI_COMM_WORLD_RANK") for rank in range(2)
    ]


def test_names_that_all_differ_are_one_program_if_each_has_another_rank() -> None:
    placed = [replace(launched(n, 0, 1.0), rank=Rank(n, 4, "RANK", f"runs/p-T{n}")) for n in range(2)]
    [program] = by_rank(placed).programs
    assert (program.name, program.matched[0].missing) == ("runs/p-T*", (2, 3))


def test_the_ranks_of_a_recorded_program_are_matched() -> None:
    reports, failures = open_reports([RANKS])
    assert not failures
    placed, unranked = place(reports, judge_all(reports, []))
    (program,) = by_rank(placed, unranked).programs
    assert (program.size, program.sources, [*program.ranks]) == (2, ("RANK",), [0, 1])
    assert len(program.matched) == 4
    for one in program.matched:
        assert (one.label, one.slowest, one.missing) == (one.kernel, 1, ())
        assert one.skew_pct == pytest.approx(40, abs=2)  # rank 1 has half as many rows again: 50 of 125 %


def test_ranks_are_compared_as_measured_where_every_one_was() -> None:
    measured = [{"tensor_busy": 50.0, "data_wait": wait, "remainder": 50.0 - wait} for wait in (20.0, 45.0)]
    placed = [replace(launched(rank, 0, 1.0), measured=measured[rank]) for rank in range(2)]
    (launch,) = by_rank(placed).programs[0].matched
    assert launch.measured and (launch.values["data_wait"].min, launch.values["data_wait"].max) == (20.0, 45.0)
    assert launch.values["remainder"].max_rank == 0
    mixed = by_rank([placed[0], launched(1, 0, 1.0)])
    (launch,) = mixed.programs[0].matched
    assert not launch.measured and launch.values["data_wait"].min == 50.0 and "remainder" not in launch.values
    assert "1 of the launches were ablated, but not on all ranks, so estimates are compared" in mixed.notes


def test_a_rank_that_was_ablated_is_found_with_its_run(tmp_path: Path) -> None:
    shutil.copytree(ABLATED, tmp_path / "rank0")
    reports, _ = open_reports([tmp_path])
    ((launch,), _) = place(reports, judge_all(reports, []))
    assert launch.measured and launch.measured["data_wait"] == pytest.approx(30.3, abs=0.1)
