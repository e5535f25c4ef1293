"""Reading reports: what the user's directory, disk, cache, file names and interrupts may do, and what they may not."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import zstandard

from ncubble.analysis import native, store
from ncubble.analysis.report import Report, open_reports
from ncubble.errors import MeasurementError, ReportError
from ncubble.recordings import ROOT

RUN = ROOT / "softmax_online" / "default"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def report(tmp_path):
    return shutil.copy(RUN / "report.ncu-repz", tmp_path / "one.ncu-repz")


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
    assert native._serve(tmp_path / "one.ncu-repz", tmp_path) == {"disk": "No space left on device"}


def test_nothing_but_tables_stays_in_the_cache(report, cache):
    Report.open(report)
    names = {path.name for path in cache.rglob("*") if path.is_file()}
    assert names == {f"{name}.parquet" for name in store.TABLES}


def test_a_damaged_cache_is_named_dropped_and_read_again(report, cache):
    Report.open(report)
    next(cache.rglob("metrics.parquet")).write_bytes(b"")
    with pytest.raises(MeasurementError, match=r"(?s)metrics.*repeat the command"):
        _ = Report.open(report).metrics
    assert len(Report.open(report).metrics)


def test_a_damaged_cache_of_one_report_hides_no_other(report, tmp_path, cache):
    other = shutil.copy(ROOT / "tiled_matmul" / "default" / "report.ncu-repz", tmp_path / "two.ncu-repz")
    reports, _ = open_reports([report, other])
    (store.folder_of(reports[0].frame.sha256) / "metrics.parquet").write_bytes(b"")
    done = command("report", report, other, "--json", cwd=tmp_path)
    result = json.loads(done.stdout)
    assert done.returncode == 3
    assert [launch["label"] for launch in result["launches"]] == ["two"]
    assert [error["report"] for error in result["errors"]] == [str(report)]


def test_a_cache_that_cannot_take_the_tables_is_an_error_of_the_cache(tmp_path, monkeypatch):
    with store.staging() as begun:
        monkeypatch.setattr(type(begun), "rename", lambda *_: (_ for _ in ()).throw(OSError(30, "Read-only system")))
        with pytest.raises(MeasurementError, match="Read-only system"):
            store.commit(begun, "ab" * 32)
    assert not begun.exists()


def test_an_incomplete_entry_is_replaced_and_a_whole_one_is_kept():
    sha, old = "cd" * 32, store.folder_of("cd" * 32)
    old.mkdir(parents=True)
    (old / "metrics.parquet").touch()
    for text in ("first", "second"):
        with store.staging() as begun:
            for name in store.TABLES:
                (begun / f"{name}.parquet").write_text(text)
            store.commit(begun, sha)
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
    while process.poll() is None and not list(cache.rglob(".*-*")):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    started = time.monotonic()
    _, said = process.communicate(timeout=60)
    assert process.returncode not in (0, 3), said
    assert b"Traceback" not in said
    assert time.monotonic() - started < 10
    assert list(cache.rglob(".*-*")) == []
