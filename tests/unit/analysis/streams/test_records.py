"""Records as they lie on disk: cut off, damaged, without times, of several processes; and the run
directory again."""

import json
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from ncubble.analysis.streams import records as stream_records
from ncubble.analysis.streams.account import accounts, as_json
from ncubble.analysis.streams.engines import short_name
from ncubble.analysis.streams.records import readable
from ncubble.errors import ReportError
from ncubble.profiling.recorders import raw
from ncubble.profiling.recorders.raw import RawWriter
from ncubble.recordings import LANES
from tests.helpers.stream_frames import Script

ZERO = 1_800_000_000_000_000_000


def kernel(writer: RawWriter, start: int, end: int, name: str = "square", device: int = 0) -> None:
    """One kernel, times in ns since the epoch."""
    number = writer.number(name)
    writer.add((raw.KERNEL, device, 1, 7, start, end, 0, 0, 1, 0, number, 0, 0, 0, 1, 0))


def folder_with(folder: Path, *kernels: tuple[int, int], pid: int = 9) -> Path:
    """A folder of one process."""
    writer = RawWriter(folder, pid, 100)
    for start, end in kernels:
        kernel(writer, start, end)
    writer.close(dropped=0)
    return folder


def test_times_count_from_the_first_record_to_the_nanosecond(tmp_path: Path) -> None:
    recording = stream_records.read_raw(folder_with(tmp_path, (ZERO + 7, ZERO + 12), (ZERO, ZERO + 3)))
    assert recording.rows[["start_ns", "end_ns"]].to_numpy().tolist() == [[0, 3], [7, 12]]
    assert recording.notes == ()


def test_work_without_a_time_is_left_out_and_named(tmp_path: Path) -> None:
    recording = stream_records.read_raw(folder_with(tmp_path, (0, 0), (ZERO, ZERO + 3), (ZERO + 9, ZERO + 2)))
    assert len(recording.rows) == 1
    assert recording.notes == ("2 kernels and copies without a usable time were dropped",)


def test_a_record_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = folder_with(tmp_path, (ZERO, ZERO + 3), (ZERO + 5, ZERO + 6)) / "records-9.bin"
    path.write_bytes(path.read_bytes()[:-5])
    assert len(stream_records.read_raw(tmp_path).rows) == 1


def test_a_name_that_was_not_written_yet_is_a_question_mark(tmp_path: Path) -> None:
    (folder_with(tmp_path, (ZERO, ZERO + 3)) / "names-9.txt").write_text("")
    assert stream_records.read_raw(tmp_path).rows["name"].tolist() == ["?"]


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "records-1.bin").write_bytes(b"MZ" + bytes(200))
    with pytest.raises(ReportError, match="not a recording"):
        stream_records.read_raw(tmp_path)


def test_an_empty_recording_has_no_accounts(tmp_path: Path) -> None:
    assert accounts(stream_records.read_raw(tmp_path)) == []
    assert accounts(stream_records.read_raw(folder_with(tmp_path))) == []


def test_every_process_and_device_has_its_account(tmp_path: Path) -> None:
    for pid in (9, 11):
        writer = RawWriter(tmp_path, pid, 100)
        for device in (0, 1):
            kernel(writer, ZERO + pid, ZERO + pid + 40, device=device)
        writer.close(dropped=0)
    found = accounts(stream_records.read_raw(tmp_path))
    assert [one.name for one in found] == [f"process {pid} GPU {device}" for pid in (9, 11) for device in (0, 1)]
    assert all(as_json(one)["engines"] == [{"engine": "SMs", "busy_us": 0.04, "busy_pct": 100}] for one in found)


def test_a_recording_comes_back_as_it_was_written(tmp_path: Path) -> None:
    script = Script()
    script.kernel(0, 10, 20)
    script.copy((3, 4), 20, 80)
    script.kernel(5, 81, 90)
    recording = script.recording()
    stream_records.write(recording, tmp_path)
    again = stream_records.read(tmp_path)
    pd.testing.assert_frame_equal(again.rows, recording.rows, check_dtype=False)
    one, other = (as_json(accounts(each)[0]) for each in (recording, again))
    assert json.dumps(one) == json.dumps(other)


SHIPPED = {"streams-pipeline": "dependency", "streams-pageable": "pageable_copy", "streams-torch": "dependency"}


@pytest.mark.parametrize(("name", "cause"), SHIPPED.items())
def test_recordings_that_ship_are_told_their_cause(name: str, cause: str) -> None:
    (account,) = accounts(stream_records.read(LANES / name))
    told = as_json(account)
    assert told["causes"][0]["cause"] == cause
    assert told["causes"][0]["pct_of_idle"] > 75
    assert sum(one["us"] for one in told["causes"]) == pytest.approx(told["sm_idle_us"])
    assert "unknown" not in {one["cause"] for one in told["causes"]}


def test_files_that_are_no_recording_are_refused(tmp_path: Path) -> None:
    path = tmp_path / stream_records.FILE
    path.write_bytes(b"PAR1 nothing")
    with pytest.raises(ReportError, match="not readable"):
        stream_records.read(tmp_path)
    pd.DataFrame({"kind": ["kernel"]}).to_parquet(path)
    with pytest.raises(ReportError, match="not a recording"):
        stream_records.read(tmp_path)


@pytest.mark.parametrize("names", [[None], [["square"]], [7]])
def test_a_recording_whose_names_are_no_texts_is_refused(tmp_path: Path, names: list[object]) -> None:
    kernels = stream_records.read_raw(folder_with(tmp_path, (ZERO, ZERO + 3))).rows
    stream_records.write(stream_records.Recording(kernels.assign(name=names)), tmp_path)
    with pytest.raises(ReportError, match="not text"):
        stream_records.read(tmp_path)


@pytest.mark.parametrize("times", [{"end_ns": -1}, {"start_ns": -5}])
def test_a_recording_with_impossible_times_is_refused(tmp_path: Path, times: dict[str, int]) -> None:
    kernels = stream_records.read_raw(folder_with(tmp_path, (ZERO, ZERO + 3))).rows
    stream_records.write(stream_records.Recording(kernels.assign(**times)), tmp_path)
    with pytest.raises(ReportError, match="ends before it starts"):
        stream_records.read(tmp_path)


def test_what_a_file_tells_of_itself_may_be_anything(tmp_path: Path) -> None:
    rows = stream_records.read_raw(folder_with(tmp_path, (ZERO, ZERO + 3))).rows
    table = pq.read_table(stream_records.write(stream_records.Recording(rows), tmp_path))
    told = json.dumps({"schema": 1, "notes": 7, "facts": [7]}).encode()
    pq.write_table(table.replace_schema_metadata({b"ncubble.activity": told}), tmp_path / stream_records.FILE)
    found = stream_records.read(tmp_path)
    assert (found.notes, found.facts) == ((), {})


def test_only_what_was_queued_between_profiler_start_and_stop_counts() -> None:
    script = Script()
    script.kernel(0, 10, 20)
    script.call("cuProfilerStart", 30, 31)
    script.kernel(32, 50, 60)
    script.kernel(34, 90, 99)
    script.call("cuProfilerStop", 40, 41)
    script.kernel(42, 100, 110)
    (account,) = accounts(script.recording())
    assert (account.kernels, account.span_ns) == (2, 49_000)
    (whole,) = accounts(script.recording(), whole=True)
    assert whole.kernels == 4


def test_a_kernel_is_called_by_its_function() -> None:
    assert short_name("at::native::(anonymous namespace)::CatArray<float, 2>(float*)") == "CatArray"
    assert short_name("wait_for_it(int)") == "kernel wait_for_it"


def test_names_are_demangled_where_that_is_possible() -> None:
    assert readable("_ZN2at6native4copyIfEEvPT_i") == "at::native::copy<float>(float*, int)"
    assert readable("_Znonsense") == "_Znonsense"
    assert readable("square") == "square"
