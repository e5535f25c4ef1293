"""Ranks: who tells them, and that their runs do not collide."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ncubble.analysis.datasets.rows import about_run
from ncubble.profiling.ranks import Rank, folder_of, of_environ, rank_of
from ncubble.profiling.runs import Manifest, Run
from ncubble.recordings import RANKS
from tests.helpers.fake_machine import install

OMPI = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}


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


def test_a_dataset_knows_the_rank_of_a_run() -> None:
    row = about_run(Run.load(RANKS / "rank1"))
    assert (row["rank"], row["world_size"], row["rank_from"]) == (1, 2, "RANK")


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
