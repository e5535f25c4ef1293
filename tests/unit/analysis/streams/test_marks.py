"""NVTX ranges and how kernels were launched: as recorders write them and readers read them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from ncubble.analysis.streams.marks import END, START, Geometry, geometry, paired
from ncubble.analysis.streams.records import COLUMNS, read, read_raw, write
from ncubble.profiling.recorders.raw import block_word, grid_words

PLAYED = Path(__file__).resolve().parents[3] / "data" / "played_cupti"


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory):
    """What the Python recorder writes of the played training."""
    folder = tmp_path_factory.mktemp("raw")
    env = {**os.environ, "PYTHONPATH": str(PLAYED), "PLAYED_CUPTI": "training"}
    starter = [sys.executable, "-m", "ncubble.profiling.recorders.start", str(folder), "1000", "-c", "pass"]
    subprocess.run(starter, env=env, check=True, timeout=60)
    return read_raw(folder)


def test_ranges_are_rows_from_their_start_to_their_end(training) -> None:
    ranges = training.rows[training.rows["kind"] == "range"]
    assert ranges["name"].value_counts().to_dict() == {"step": 6, "mine@forward": 6}
    lengths = (ranges["end_ns"] - ranges["start_ns"]).groupby(ranges["name"]).median()
    assert lengths.to_dict() == {"mine@forward": 24_000, "step": 999_000}
    assert set(ranges["thread"]) == {5}


def test_kernels_say_how_they_were_launched_and_their_mangled_names_are_kept(training, tmp_path: Path) -> None:
    kernels = training.rows[training.rows["kind"] == "kernel"]
    product = kernels[kernels["name"].str.contains("NTN")].iloc[0]
    told = geometry(*(int(product[name]) for name in ("flags", "source", "target", "bytes")))
    assert told == Geometry("2,66,1", "384,1,1", 213_188)
    assert training.facts["symbols"] == {"fill(float*, int)": "_Z4fillPfi", "reduce(float*)": "_Z6reducePf"}
    write(training, tmp_path)
    again = read(tmp_path)
    assert json.dumps(again.facts) == json.dumps(training.facts)
    pd.testing.assert_frame_equal(again.rows, training.rows[list(again.rows)])


@pytest.mark.parametrize("grid", [(1, 1, 1), (2**31 - 1, 65535, 65535), (7, 300, 2)])
@pytest.mark.parametrize("block", [(1, 1, 1), (1024, 1, 1), (1, 1024, 1), (4, 4, 64)])
def test_any_geometry_comes_back(grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
    words = (block_word(*block), *grid_words(*grid))
    assert all(0 < word < 2**32 for word in words)
    assert geometry(*words, 5) == Geometry(",".join(map(str, grid)), ",".join(map(str, block)), 5)


def test_recordings_from_before_do_not_say_it() -> None:
    assert geometry(0, 0, 0, 0) is None


def marks(*rows: tuple[str, int, int, int, int]) -> pd.DataFrame:
    """Rows of process, flags, time and number, with a kernel that ends at 90."""
    base = dict.fromkeys(COLUMNS, 0) | {"process": 1}
    kernel = base | {"kind": "kernel", "name": "k", "start_ns": 80, "end_ns": 90}
    made = [
        base | {"kind": "range", "name": name, "process": process, "flags": flags, "extra": number}
        | {"start_ns": time, "end_ns": time}
        for name, process, flags, time, number in rows
    ]  # fmt: skip
    return pd.DataFrame([kernel, *made])


def test_ranges_that_never_end_last_as_long_as_their_process_and_instants_are_none() -> None:
    rows = paired(marks(("open", 1, START, 10, 1), ("now", 1, 1, 20, 2), ("a", 1, START, 30, 3), ("", 1, END, 40, 3)))
    ranges = rows[rows["kind"] == "range"]
    assert ranges[["name", "start_ns", "end_ns"]].to_numpy().tolist() == [["open", 10, 90], ["a", 30, 40]]


def test_numbers_of_ranges_mean_nothing_beyond_their_process() -> None:
    both = marks(("a", 1, START, 10, 1), ("b", 2, START, 20, 1), ("", 2, END, 30, 1), ("", 1, END, 50, 1))
    ranges = paired(both).query("kind == 'range'")
    assert ranges[["name", "end_ns"]].to_numpy().tolist() == [["a", 50], ["b", 30]]
