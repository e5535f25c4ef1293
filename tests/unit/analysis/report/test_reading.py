"""Reading reports: what the user's directory, disk, cache, file names and interrupts may do, and
what they may not."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas as pd
import pytest
import zstandard

from ncubble.analysis.diagnosis.results import judge_all
from ncubble.analysis.report import cache as store
from ncubble.analysis.report import container as seen
from ncubble.analysis.report import native
from ncubble.analysis.report import reading as ingest
from ncubble.analysis.report import reading as workers
from ncubble.analysis.report.container import Frame
from ncubble.analysis.report.report import Report, open_reports
from ncubble.dashboard.data.store import ReportStore
from ncubble.errors import MeasurementError, ReportError
from ncubble.recordings import H100, REPEATS, ROOT

RUN = H100 / "softmax_online" / "default"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def report(tmp_path):
    return Path(shutil.copy(RUN / "report.ncu-repz", tmp_path / "one.ncu-repz"))


def command(*arguments, cwd, **options):
    return subprocess.run(
        [sys.executable, "-P", "-c", "from ncubble.cli.main import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=cwd,
        **options,
    )


def test_modules_in_the_users_directory_are_not_imported_by_the_reader(tmp_path, report):
    (tmp_path / "json.py").write_text("raise SystemExit('imported from the current directory')")
    done = command("report", report, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["errors"] == []


@pytest.mark.parametrize("suffix", [".ncu-repz", ".ncu-rep"])
def test_a_name_that_is_not_utf8_is_read_and_printed_as_valid_json(tmp_path, report, suffix):
    data = report.read_bytes()
    plain = data if suffix == ".ncu-repz" else zstandard.ZstdDecompressor().decompressobj().decompress(data)
    odd = tmp_path / os.fsdecode(b"x\xff" + suffix.encode())
    odd.write_bytes(plain)
    done = command("report", odd, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["launches"][0]["label"] == "x\udcff"


def test_a_full_disk_is_not_taken_for_a_damaged_report(tmp_path, report, monkeypatch):
    class Full:
        def copy_stream(self, source, sink):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(zstandard, "ZstdDecompressor", Full)
    request = {
        "path": str(report),
        "parts": ["scalars"],
        "announced": 1,
        "first": 0,
        "last": 1,
        "out": str(tmp_path / "out"),
    }
    assert native._serve(request) == {"disk": "No space left on device"}


@pytest.mark.parametrize("details", [False, True])
def test_the_cache_holds_what_was_asked_for_and_nothing_else(report, cache, details):
    open_reports([report], details=details)
    files = {path for path in cache.rglob("*") if path.is_file()}
    listings = {path for path in files if path.parent.name == "listings"}
    asked = [*store.PARTS["scalars"], *(store.PARTS["details"] if details else ())]
    assert {path.name for path in files - listings} == {store.DIGESTS, *(f"{name}.parquet" for name in asked)}
    assert len(listings) == details


def test_details_are_read_when_they_are_asked_for(report):
    opened = Report.open(report)
    assert not store.holds(opened.frame.sha256, "details")
    assert len(opened.source) and len(opened.timeline)
    assert store.holds(opened.frame.sha256, "details")


def emptied(_):
    return b""


def with_a_flipped_bit(data):
    middle = len(data) // 3
    return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]


def with_another_column(data):
    return data.replace(b"value", b"vALUE")


@pytest.mark.parametrize("damage", [emptied, with_a_flipped_bit, with_another_column])
@pytest.mark.parametrize("table", ["metrics", "samples"])
def test_a_damaged_cached_table_is_read_from_the_report_again(report, table, damage):
    opened = Report.open(report)
    whole = opened._table(table)
    file = store.file_of(opened.frame.sha256, table)
    intact = file.read_bytes()
    file.write_bytes(damage(intact))
    assert Report.open(report)._table(table).equals(whole)
    assert file.read_bytes() == intact


def test_a_damaged_cache_without_its_report_is_an_error_of_that_report_alone(report, tmp_path):
    other = shutil.copy(ROOT / "tiled_matmul" / "default" / "report.ncu-repz", tmp_path / "two.ncu-repz")
    reports, _ = open_reports([report, other])
    store.file_of(reports[0].frame.sha256, "metrics").write_bytes(b"")
    report.unlink()
    result = judge_all(reports, [])
    assert [launch.label for launch in result.verdicts] == ["two"]
    assert [error.report for error in result.errors] == [str(report)]


def test_a_report_that_changes_while_it_is_read_is_not_stored(report, monkeypatch):
    def touching(jobs, done, **_):
        for index, job in enumerate(jobs):
            job.path.write_bytes(job.path.read_bytes() + b"more")
            done(index, None)

    monkeypatch.setattr(workers, "extract_all", touching)
    with pytest.raises(ReportError, match="changed while it was being read"):
        Report.open(report)


def test_a_report_that_vanishes_before_a_worker_opens_it_is_said_to(report, tmp_path):
    request = {"path": str(report), "parts": ["scalars"], "announced": 1, "first": 0, "last": 1}
    report.unlink()
    told = native._serve(request | {"out": str(tmp_path / "out")})
    assert told == {"error": "can no longer be read (No such file or directory)"}


def test_modules_that_are_needed_next_are_imported_while_workers_read(report, tmp_path, monkeypatch):
    (tmp_path / "needed_next.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    reports, failures = open_reports([report], then=("needed_next",))
    assert (len(reports), failures) == (1, [])
    assert "needed_next" in sys.modules
    del sys.modules["needed_next"]
    open_reports([report], then=("needed_next",))
    assert "needed_next" not in sys.modules  # nothing is read, so nothing has to be waited for


def test_a_module_that_cannot_be_imported_ends_the_reading_and_its_workers(report, tmp_path, monkeypatch, cache):
    (tmp_path / "broken_next.py").write_text("raise ValueError('no module of mine')")
    monkeypatch.syspath_prepend(tmp_path)
    started, start = [], subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda *given, **more: started.append(start(*given, **more)) or started[-1]
    )
    with pytest.raises(ValueError, match="no module of mine"):
        open_reports([report], then=("broken_next",))
    assert [worker.returncode for worker in started] == [-signal.SIGKILL]
    assert not list(cache.rglob("*.parquet"))


def test_a_worker_that_nobody_ends_ends_itself(tmp_path):
    fifo = tmp_path / "never.ncu-rep"
    os.mkfifo(fifo)
    job = workers.Extraction(fifo, ("scalars",), 1, 0, 1, tmp_path / "out")
    worker = subprocess.Popen(
        [sys.executable, "-P", "-m", "ncubble.analysis.report.native"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    worker.stdin.write(json.dumps(job.request(0.3)).encode() + b"\n")
    worker.stdin.flush()
    assert worker.wait(20) == -signal.SIGALRM


def test_a_file_that_was_seen_is_not_hashed_again_until_it_changes(report, monkeypatch):
    monkeypatch.setattr(seen, "SETTLED_S", 0.0)
    time.sleep(0.02)
    first = Report.open(report)
    monkeypatch.setattr(seen, "check_frame", lambda _: pytest.fail("walked again"))
    assert Report.open(report).key == first.key
    monkeypatch.undo()
    os.utime(report, ns=(1, 1))
    walked = []
    monkeypatch.setattr(seen, "check_frame", lambda path: walked.append(path) or first.frame)
    Report.open(report)
    assert walked == [report]


def test_a_file_is_walked_again_when_walking_has_changed(report, monkeypatch):
    monkeypatch.setattr(seen, "SETTLED_S", 0.0)
    time.sleep(0.02)
    Report.open(report)
    monkeypatch.setattr(seen, "_walk_hash", lambda: "otherwise")
    walked = []
    check = seen.check_frame
    monkeypatch.setattr(seen, "check_frame", lambda path: walked.append(path) or check(path))
    Report.open(report)
    assert walked == [report]


def test_a_link_of_the_other_ending_is_judged_by_its_own_name(report, tmp_path, monkeypatch):
    monkeypatch.setattr(seen, "SETTLED_S", 0.0)
    time.sleep(0.02)
    Report.open(report)
    (tmp_path / "link.ncu-rep").symlink_to(report)
    with pytest.raises(ReportError, match="compressed with zstd"):
        Report.open(tmp_path / "link.ncu-rep")


def test_a_reader_that_cannot_be_imported_is_no_fault_of_the_report(report, monkeypatch, tmp_path):
    (tmp_path / "ncu_report.py").write_text("raise ImportError('GLIBC_2.99 not found')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(MeasurementError, match=r"cannot be imported: GLIBC_2\.99"):
        Report.open(report)


@pytest.fixture
def kill_readers(tmp_path, monkeypatch):
    """Has the next so many readers be killed when they begin, as by a system short of memory."""
    kills = tmp_path / "kills"
    (tmp_path / "stub").mkdir()
    (tmp_path / "stub" / "ncu_report.py").write_text(
        "import importlib, os, pathlib, sys\n"
        f"kills = pathlib.Path({str(kills)!r})\n"
        "left = int(kills.read_text())\n"
        "kills.write_text(str(left - 1))\n"
        "if left > 0: os.kill(os.getpid(), 9)\n"
        f"sys.path.remove({str(tmp_path / 'stub')!r})\n"
        "del sys.modules['ncu_report']\n"
        "importlib.import_module('ncu_report')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "stub"))
    return lambda count: kills.write_text(str(count))


def test_a_reader_that_was_killed_once_costs_nothing(report, kill_readers):
    kill_readers(1)
    assert len(Report.open(report).launches) == 1


def test_the_dashboard_shows_a_report_whose_reader_was_killed_once(report, kill_readers):
    kill_readers(1)
    shown = ReportStore([report]).start()
    assert shown.wait(60)
    assert (len(shown.rows()), shown.failures()) == (1, [])


def test_a_reader_that_is_killed_again_is_said_to(report, kill_readers):
    kill_readers(2)
    with pytest.raises(ReportError, match="crashed"):
        Report.open(report)


def test_what_a_killed_reader_had_written_is_in_nobodys_way(report, kill_readers, tmp_path):
    kill_readers(1)
    out = tmp_path / "out"
    (out / "scalars").mkdir(parents=True)
    with workers.NativeReader(60) as reader:
        assert reader.extract(workers.Extraction(report, ("scalars",), 1, 0, 1, out)) is None
    assert sorted(path.name for path in (out / "scalars").iterdir()) == [
        "actions.draft",
        "metrics.draft",
        "texts.draft",
    ]


def test_a_worker_that_a_large_process_starts_is_not_spent_at_once(tmp_path):
    program = (
        "import sys; large = bytearray(1100 << 20); large[::4096] = b'x' * len(large[::4096])\n"
        "from ncubble.analysis.report import reading; from ncubble.profiling.processes import subprocess\n"
        "starts, start = [], subprocess.Popen\n"
        "subprocess.Popen = lambda *args, **options: starts.append(1) or start(*args, **options)\n"
        "reading.worker_count = lambda: 1\n"
        "from ncubble.analysis.report.report import open_reports; from ncubble.recordings import ROOT\n"
        "print(len(open_reports([ROOT / 'async_copy_tma', ROOT / 'tiled_matmul'])[0]), len(starts))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "1"]


def test_a_file_that_has_just_changed_is_hashed_each_time(report, cache):
    Report.open(report)
    assert not list(cache.glob("seen/*"))


def test_a_cache_that_cannot_take_the_tables_is_an_error_of_the_cache(tmp_path, monkeypatch):
    with store.staging() as begun:
        monkeypatch.setattr(type(begun), "rename", lambda *_: (_ for _ in ()).throw(OSError(30, "Read-only system")))
        with pytest.raises(MeasurementError, match="Read-only system"):
            store.commit(begun, "ab" * 32, "scalars")
    assert not begun.exists()


def test_an_incomplete_entry_is_replaced_and_a_whole_one_is_kept():
    sha, old = "cd" * 32, store.folder_of("cd" * 32, "scalars")
    old.mkdir(parents=True)
    (old / "metrics.parquet").touch()
    for text in ("first", "second"):
        with store.staging() as begun:
            for name in store.PARTS["scalars"]:
                (begun / f"{name}.parquet").write_text(text)
            store.commit(begun, sha, "scalars")
        assert not begun.exists()
    assert (old / "metrics.parquet").read_text() == "first"


def test_a_run_whose_report_is_not_the_recorded_one_is_refused(tmp_path):
    run = tmp_path / "run"
    shutil.copytree(RUN, run)
    shutil.copy(ROOT / "tiled_matmul" / "default" / "report.ncu-repz", run / "report.ncu-repz")
    with pytest.raises(ReportError, match=r"SHA-256 differs"):
        Report.open(run)


def test_an_interrupt_ends_the_reading_and_leaves_nothing(tmp_path, cache):
    data = zstandard.ZstdDecompressor().decompressobj().decompress((RUN / "report.ncu-repz").read_bytes())
    for number in range(100):  # one more block each: other content, so that the cache helps none
        (tmp_path / f"{number}.ncu-rep").write_bytes(data + b"\4\0\0\0" + number.to_bytes(4, "little"))
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", "from ncubble.cli.main import main; main()", "report", str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    while process.poll() is None and not list(cache.glob("reports/.*-*/work")):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    started = time.monotonic()
    _, said = process.communicate(timeout=60)
    assert process.returncode not in (0, 3), said
    assert b"Traceback" not in said
    assert time.monotonic() - started < 10
    assert list(cache.rglob(".*-*")) == []


def test_no_worker_writes_once_an_interrupt_has_ended_the_reading(tmp_path, monkeypatch):
    """Also where it came while the worker's thread was being started: the pool then knows nothing
    of the thread."""
    start, done = threading.Thread.start, []

    def interrupted(thread):
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    monkeypatch.setattr(workers.NativeReader, "extract", lambda self, job: time.sleep(0.1))
    jobs = [workers.Extraction(RUN, ("scalars",), 1, 0, 1, tmp_path)] * 50
    with pytest.raises(KeyboardInterrupt):
        workers.extract_all(jobs, lambda index, error: done.append(index))
    ended = len(done)
    time.sleep(0.3)
    assert len(done) == ended < 3


@pytest.mark.parametrize(
    ("launches", "plain_size", "workers_free", "sizes"),
    [
        (1, 500_000, 2, [1]),
        (0, 0, 2, [0]),
        (10, 4 << 20, 2, [10]),
        (10, 32 << 20, 2, [5, 5]),
        (10, 32 << 20, 1, [10]),
        (1000, 640 << 20, 1, [100] * 10),
        (7, 128 << 20, 1, [3, 3, 1]),
        (2, 8 << 30, 1, [1, 1]),
    ],
)
def test_a_report_is_split_where_it_is_large_or_hands_are_free(launches, plain_size, workers_free, sizes):
    parts = ingest.split(Frame("", plain_size, plain_size, launches, True, True, True, ""), workers_free)
    assert [last - first for first, last in parts] == sizes
    assert [first for first, _ in parts] == [sum(sizes[:i]) for i in range(len(sizes))]


def test_a_report_read_in_several_requests_is_the_same_as_one_read_at_once(tmp_path, monkeypatch):
    path = REPEATS / "tiled_matmul" / "default"
    tables = [table for part in store.PARTS.values() for table in part]
    (whole,), _ = open_reports([path])
    expected = {table: whole._table(table) for table in tables}
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "other"))
    monkeypatch.setattr(ingest, "REQUEST_B", 1)
    (parted,), _ = open_reports([path])
    for table in tables:
        found = parted._table(table)
        pd.testing.assert_frame_equal(found.astype(object), expected[table].astype(object))
    assert len(parted.launches) == 5


def test_one_failing_request_fails_the_report_and_leaves_nothing(tmp_path, monkeypatch, cache):
    def second_fails(jobs, done, **_):
        for index, job in enumerate(jobs):
            done(index, ReportError(f"{job.path}: odd", "look") if index == 1 else None)

    monkeypatch.setattr(ingest, "REQUEST_B", 1)
    monkeypatch.setattr(workers, "extract_all", second_fails)
    with pytest.raises(ReportError, match="odd"):
        Report.open(REPEATS / "tiled_matmul" / "default")
    assert not list(cache.rglob("*.parquet"))
