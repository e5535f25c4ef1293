"""Records as they lie on disk: cut off, damaged, without times, of several processes, with ranges
and geometry; and the run directory again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from ncubble.analysis.streams.account import account_json, accounts
from ncubble.analysis.streams.recording import (
    COLUMNS,
    END,
    FILE,
    START,
    Recording,
    geometry,
    paired,
    read,
    read_raw,
    readable,
)
from ncubble.analysis.streams.work import short_name
from ncubble.errors import ReportError
from ncubble.profiling.recorders import raw
from ncubble.profiling.recorders.raw import RawWriter, block_word, grid_words
from ncubble.recordings import LANES
from tests.helpers.stream_frames import Script

PLAYED = Path(__file__).resolve().parents[3] / "data" / "played_cupti"
ZERO = 1_800_000_000_000_000_000


def folder_with(folder: Path, *kernels: tuple[int, int], pid: int = 9, devices: int = 1) -> Path:
    """A folder of one process. Kernels: times in ns since the epoch."""
    writer = RawWriter(folder, pid, 100)
    for start, end in kernels:
        for device in range(devices):
            number = writer.number("square")
            writer.add((raw.KERNEL, device, 1, 7, start, end, 0, 0, 1, 0, number, 0, 0, 0, 1, 0))
    writer.close(dropped=0)
    return folder


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """What the Python recorder writes of the played training."""
    folder = tmp_path_factory.mktemp("raw")
    env = {**os.environ, "PYTHONPATH": str(PLAYED), "PLAYED_CUPTI": "training"}
    starter = [sys.executable, "-m", "ncubble.profiling.recorders.start", str(folder), "1000", "-c", "pass"]
    subprocess.run(starter, env=env, check=True, timeout=60)
    return read_raw(folder)


def test_times_count_from_the_first_record_to_the_nanosecond(tmp_path: Path) -> None:
    recording = read_raw(folder_with(tmp_path, (ZERO + 7, ZERO + 12), (ZERO, ZERO + 3)))
    assert recording.rows[["start_ns", "end_ns"]].to_numpy().tolist() == [[0, 3], [7, 12]]
    assert recording.notes == ()


def test_work_without_a_time_is_left_out_and_named(tmp_path: Path) -> None:
    recording = read_raw(folder_with(tmp_path, (0, 0), (ZERO, ZERO + 3), (ZERO + 9, ZERO + 2)))
    assert len(recording.rows) == 1
    assert recording.notes == ("2 kernels and copies without a usable time were dropped",)


def test_what_a_killed_recorder_left_is_read_and_another_file_is_refused(tmp_path: Path) -> None:
    path = folder_with(tmp_path, (ZERO, ZERO + 3), (ZERO + 5, ZERO + 6)) / "records-9.bin"
    path.write_bytes(path.read_bytes()[:-5])
    (tmp_path / "names-9.txt").write_text("")
    assert read_raw(tmp_path).rows["name"].tolist() == ["?"]
    (tmp_path / "end-9.json").write_text("{")
    assert "ended without a final record" in read_raw(tmp_path).notes[0]
    path.write_bytes(b"MZ" + bytes(200))
    with pytest.raises(ReportError, match="not a recording"):
        read_raw(tmp_path)


def test_an_empty_recording_has_no_accounts(tmp_path: Path) -> None:
    assert accounts(read_raw(tmp_path)) == []
    assert accounts(read_raw(folder_with(tmp_path))) == []


def test_every_process_and_device_has_its_account(tmp_path: Path) -> None:
    for pid in (9, 11):
        folder_with(tmp_path, (ZERO + pid, ZERO + pid + 40), pid=pid, devices=2)
    found = accounts(read_raw(tmp_path))
    assert [one.name for one in found] == [f"process {pid} GPU {device}" for pid in (9, 11) for device in (0, 1)]
    assert all(account_json(one)["engines"] == [{"engine": "SMs", "busy_us": 0.04, "busy_pct": 100}] for one in found)


def test_a_recording_comes_back_as_it_was_written(tmp_path: Path, training: Recording) -> None:
    played = Script().kernel(0, 10, 20).copy((3, 4), 20, 80).kernel(5, 81, 90).recording()
    for recording in (played, training):
        recording.write(tmp_path)
        again = read(tmp_path)
        pd.testing.assert_frame_equal(again.rows, recording.rows[list(again.rows)], check_dtype=False)
        assert json.dumps(again.facts) == json.dumps(recording.facts)
        one, other = (account_json(accounts(each)[0]) for each in (recording, again))
        assert json.dumps(one) == json.dumps(other)


SHIPPED = {"streams-pipeline": "dependency", "streams-pageable": "pageable_copy", "streams-torch": "dependency"}


@pytest.mark.parametrize(("name", "cause"), SHIPPED.items())
def test_recordings_that_ship_are_told_their_cause(name: str, cause: str) -> None:
    (account,) = accounts(read(LANES / name))
    told = account_json(account)
    assert told["causes"][0]["cause"] == cause
    assert told["causes"][0]["pct_of_idle"] > 75
    assert sum(one["us"] for one in told["causes"]) == pytest.approx(told["sm_idle_us"])
    assert "unknown" not in {one["cause"] for one in told["causes"]}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"name": [None]}, "a value is missing"),
        ({"name": [["square"]]}, "not readable"),
        ({"bytes": [None]}, "a value is missing"),
        ({"bytes": [0.5]}, "not readable"),
        ({"end_ns": -1}, "ends before it starts"),
        ({"start_ns": -5}, "ends before it starts"),
    ],
)
def test_a_recording_with_impossible_values_is_refused(tmp_path: Path, columns: dict[str, object], said: str) -> None:
    kernels = read_raw(folder_with(tmp_path, (ZERO, ZERO + 3))).rows
    Recording(kernels.assign(**columns)).write(tmp_path)
    with pytest.raises(ReportError, match=said):
        read(tmp_path)
    (tmp_path / FILE).write_bytes(b"PAR1 nothing")
    with pytest.raises(ReportError, match="not readable"):
        read(tmp_path)


def test_what_a_file_tells_of_itself_may_be_anything(tmp_path: Path) -> None:
    table = pq.read_table(read_raw(folder_with(tmp_path, (ZERO, ZERO + 3))).write(tmp_path))
    told = json.dumps({"schema": 1, "notes": 7, "facts": [7]}).encode()
    pq.write_table(table.replace_schema_metadata({b"ncubble.activity": told}), tmp_path / FILE)
    found = read(tmp_path)
    assert (found.notes, found.facts) == ((), {})


def test_only_what_was_queued_between_profiler_start_and_stop_counts() -> None:
    script = Script().kernel(0, 10, 20).calls("cuProfilerStart", 30, 31).kernel(32, 50, 60).kernel(34, 90, 99)
    recording = script.calls("cuProfilerStop", 40, 41).kernel(42, 100, 110).recording()
    (account,) = accounts(recording)
    assert (account.kernels, account.span_ns) == (2, 49_000)
    assert accounts(recording, whole=True)[0].kernels == 4


def test_a_kernel_is_called_by_its_function_and_demangled_where_that_is_possible() -> None:
    assert short_name("at::native::(anonymous namespace)::CatArray<float, 2>(float*)") == "CatArray"
    assert short_name("wait_for_it(int)") == "kernel wait_for_it"
    assert readable("_ZN2at6native4copyIfEEvPT_i") == "at::native::copy<float>(float*, int)"
    assert readable("_Znonsense") == "_Znonsense"
    assert readable("square") == "square"


def test_ranges_are_rows_from_their_start_to_their_end(training: Recording) -> None:
    ranges = training.rows[training.rows["kind"] == "range"]
    assert ranges["name"].value_counts().to_dict() == {"step": 6, "mine@forward": 6}
    lengths = (ranges["end_ns"] - ranges["start_ns"]).groupby(ranges["name"]).median()
    assert lengths.to_dict() == {"mine@forward": 24_000, "step": 999_000}
    assert set(ranges["thread"]) == {5}


def test_kernels_say_how_they_were_launched_and_their_mangled_names_are_kept(training: Recording) -> None:
    kernels = training.rows[training.rows["kind"] == "kernel"]
    product = kernels[kernels["name"].str.contains("NTN")].iloc[0]
    told = geometry(*(int(product[name]) for name in ("flags", "source", "target", "bytes")))
    assert told == ("2,66,1", "384,1,1", 213_188)
    assert training.facts["symbols"] == {"fill(float*, int)": "_Z4fillPfi", "reduce(float*)": "_Z6reducePf"}


@pytest.mark.parametrize("grid", [(1, 1, 1), (2**31 - 1, 65535, 65535), (7, 300, 2)])
@pytest.mark.parametrize("block", [(1, 1, 1), (1024, 1, 1), (1, 1024, 1), (4, 4, 64)])
def test_any_geometry_comes_back(grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
    words = (block_word(*block), *grid_words(*grid))
    assert all(0 < word < 2**32 for word in words)
    assert geometry(*words, 5) == (",".join(map(str, grid)), ",".join(map(str, block)), 5)
    assert geometry(0, 0, 0, 0) is None, "recordings from before do not tell it"


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        # A range that never ends lasts as long as its process, and an instant is none.
        (
            [("open", 1, START, 10, 1), ("now", 1, 1, 20, 2), ("a", 1, START, 30, 3), ("", 1, END, 40, 3)],
            [["open", 10, 90], ["a", 30, 40]],
        ),
        # Numbers of ranges mean nothing beyond their process.
        (
            [("a", 1, START, 10, 1), ("b", 2, START, 20, 1), ("", 2, END, 30, 1), ("", 1, END, 50, 1)],
            [["a", 10, 50], ["b", 20, 30]],
        ),
    ],
)
def test_marks_of_a_range_become_one_row(marks: list[tuple[str, int, int, int, int]], expected: list[object]) -> None:
    """Marks: name, process, flags, time and number, beside a kernel that ends at 90."""
    base = dict.fromkeys(COLUMNS, 0) | {"process": 1}
    rows = [base | {"kind": "kernel", "name": "k", "start_ns": 80, "end_ns": 90}]
    for name, process, flags, time, number in marks:
        times = {"start_ns": time, "end_ns": time}
        rows.append(base | times | {"kind": "range", "name": name, "process": process, "flags": flags, "extra": number})
    ranges = paired(pd.DataFrame(rows)).query("kind == 'range'")
    assert ranges[["name", "start_ns", "end_ns"]].to_numpy().tolist() == expected
