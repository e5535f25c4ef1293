"""The recorder that the driver loads, compiled with CUPTI played below it: what it writes is what
the reader reads."""

import os
import subprocess
from pathlib import Path

import pytest

from ncubble.analysis.streams.recording import geometry, read_raw
from ncubble.profiling.recorders.raw import REFUSED
from ncubble.profiling.recorders.streams import SOURCE

PLAYED = Path(__file__).resolve().parents[3] / "data" / "played_cupti" / "library.cpp"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, cupti_compiler: list[str]) -> Path:
    """The recorder and the played CUPTI as one program."""
    path = tmp_path_factory.mktemp("library") / "program"
    argv = [*cupti_compiler, "-Wall", "-Wextra", "-o", str(path), str(SOURCE), str(PLAYED), "-pthread"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return path


def run(program: Path, folder: Path, mode: str = "", most: int = 100) -> int:
    """Runs it; returns how it ended."""
    env = {**os.environ, "NCUBBLE_STREAMS_FOLDER": str(folder), "NCUBBLE_STREAMS_MOST": str(most)}
    return subprocess.run([str(program), mode], env=env, timeout=30, check=False).returncode


@pytest.mark.parametrize("mode", ["", "fork"])
def test_what_it_writes_is_read(program: Path, tmp_path: Path, mode: str) -> None:
    assert run(program, tmp_path, mode) == 0
    recording = read_raw(tmp_path)
    names = ["kind", "name", "device", "context", "stream", "start_ns", "end_ns", "bytes", "correlation", "thread"]
    assert recording.rows[names].to_numpy().tolist() == [
        ["copy", "", 0, 1, 7, 0, 10, 1 << 33, 0, 0],
        ["driver", "cuLaunchKernel", 0, 0, 0, 11, 15, 0, 3, 5],
        ["kernel", "two lines", 2, 1, 8, 20, 30, 4096, 3, 0],
    ]
    assert recording.rows.loc[0, ["flags", "source", "target"]].tolist() == [1, 1, 3]
    dropped, refused = recording.notes
    assert dropped.endswith("CUPTI dropped 7 records")
    assert refused.endswith("CUPTI does not record CUDA_EVENT here")


def test_ranges_and_the_geometry_of_kernels_are_written(program: Path, tmp_path: Path) -> None:
    assert run(program, tmp_path, "marks") == 0
    rows = read_raw(tmp_path).rows
    (kernel,) = rows[rows["kind"] == "kernel"][["flags", "source", "target", "bytes"]].to_numpy().tolist()
    assert geometry(*kernel) == ("70000,3,2", "32,4,1", 4096)
    (mark,) = rows[rows["kind"] == "range"][["name", "start_ns", "end_ns", "thread"]].to_numpy().tolist()
    assert mark == ["mine@step", 40, 60, 5]


def test_a_kill_loses_nothing_that_was_handed_over(program: Path, tmp_path: Path) -> None:
    assert run(program, tmp_path, "kill") == -9
    recording = read_raw(tmp_path)
    assert recording.rows["name"].tolist() == ["", "cuLaunchKernel", "two lines"]
    assert "without a final record" in recording.notes[0]


def test_what_comes_after_the_limit_is_counted(program: Path, tmp_path: Path) -> None:
    assert run(program, tmp_path, most=1) == 0
    recording = read_raw(tmp_path)
    assert len(recording.rows) == 1
    assert "2 records exceeded the limit" in recording.notes[0]


def test_another_client_is_told_and_the_program_goes_on(program: Path, tmp_path: Path) -> None:
    assert run(program, tmp_path, "occupied") == 0
    assert (tmp_path / REFUSED).read_text() == "another client of CUPTI is active (PLAYED)"
