"""The cache under kills, full and read-only disks, other versions of ncubble, and many processes at
once."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from ncubble.analysis.diagnosis.diagnose import launch_verdict
from ncubble.analysis.report import cache as home
from ncubble.analysis.report import cache as store
from ncubble.analysis.report.report import open_reports
from ncubble.dashboard.data.store import ReportStore
from ncubble.recordings import ROOT

MAIN = [sys.executable, "-P", "-c", "from ncubble.cli.main import main; main()"]
NAMES = ("async_copy_tma/default", "tiled_matmul/default", "tensor_core_gemm/stages1")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    home._usable.cache_clear()
    yield tmp_path / "cache"
    home._usable.cache_clear()


@pytest.fixture
def report(tmp_path):
    return Path(shutil.copy(ROOT / NAMES[0] / "report.ncu-repz", tmp_path / "one.ncu-repz"))


def command(*arguments, **options):
    return subprocess.run(
        [*MAIN, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False, **options
    )


def shown(*paths):
    """What a new process would show of these reports, none of which was ablated."""
    home._usable.cache_clear()
    reports, failures = open_reports(paths)
    assert failures == []
    verdicts = [launch_verdict(launch).to_json() | {"measured": None} for report in reports for launch in report]
    return json.loads(json.dumps(verdicts))


def unfinished(cache):
    return sorted((cache / "reports").glob(f"{home.UNFINISHED}*"))


def killed_while_reading(cache, *paths):
    process = subprocess.Popen(
        [*MAIN, "report", *map(str, paths)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not any(list(folder.glob("work/*")) for folder in unfinished(cache)):
        assert process.poll() is None
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_killed_reading_is_named_and_removed_by_the_next_command_and_read_again(report, cache, caplog):
    killed_while_reading(cache, report)
    assert len(unfinished(cache)) == 1
    done = command("report", "--json", report)
    assert f"ncubble: an earlier reading of {report} was interrupted: it is read again" in done.stderr
    assert unfinished(cache) == []
    assert shown(report) == json.loads(done.stdout)["launches"]
    assert caplog.text == "", "said once"


def test_what_was_cut_off_is_named_even_where_nothing_is_read_now(report, cache, tmp_path, caplog):
    shown(report)
    other = shutil.copy(ROOT / NAMES[1] / "report.ncu-repz", tmp_path / "two.ncu-repz")
    killed_while_reading(cache, other)
    shown(report)
    assert f"reading of {other} was interrupted" in caplog.text
    assert unfinished(cache) == []


def test_a_reading_under_way_is_left_alone(report, cache, tmp_path, caplog):
    with store.staging({"x": tmp_path / "large.ncu-rep"}) as folder:
        (folder / "x").mkdir()
        shown(report)
        assert (folder / "x").is_dir()
    assert unfinished(cache) == []
    assert caplog.text == ""


@pytest.mark.parametrize("table", ["actions", "metrics", "samples"])
def test_unreadable_tables_are_read_again_without_a_word(report, cache, table, caplog):
    first = shown(report)
    (file,) = cache.rglob(f"{table}.parquet")
    file.write_bytes(file.read_bytes()[:100])
    assert shown(report) == first
    assert file.stat().st_size > 100
    assert caplog.text == ""


@pytest.mark.parametrize("place", ["file", "below a file", "no such device", "read-only disk"])
def test_a_report_is_read_wherever_the_cache_cannot_be(place, report, tmp_path, monkeypatch, request):
    (tmp_path / "file").touch()
    if place == "read-only disk":
        disk = request.getfixturevalue("tiny_disk")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    places = {"file": tmp_path / "file", "below a file": tmp_path / "file" / "cache", "no such device": "/proc/ncubble"}
    monkeypatch.setenv("NCUBBLE_CACHE", str(places.get(place, tmp_path / "disk")))
    done = command("report", "--json", report)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["launches"][0]["account"]
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "cannot be written" in done.stderr and "set NCUBBLE_CACHE to use another place" in done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_temporary_cache_of_a_killed_command_is_removed_by_the_next_one(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "file"))
    code = "import os; from ncubble.analysis.report.cache import home; home(1)"
    subprocess.run([sys.executable, "-P", "-c", f"{code}; os.kill(os.getpid(), 9)"], check=False, timeout=60)
    assert len(list((tmp_path / "tmp").iterdir())) == 1
    subprocess.run([sys.executable, "-P", "-c", code], check=True, timeout=60)
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "days", "kept"), [("v0", 40, False), ("v0", 20, True), ("v999", 400, True), ("vault", 400, True)]
)
def test_only_schemas_that_are_older_and_out_of_use_are_removed(name, days, kept, cache):
    entry = cache / "reports" / name / "entry"
    entry.mkdir(parents=True)
    (entry / "metrics.parquet").touch()
    past = time.time() - days * 86400
    os.utime(entry.parent, (past, past))
    home.home(store.SCHEMA)
    assert entry.exists() == kept
    assert unfinished(cache) == []


def test_a_schema_folder_that_is_a_link_out_of_the_cache_costs_nothing_there(cache, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "thesis").touch()
    (cache / "reports").mkdir(parents=True)
    (cache / "reports" / "v0").symlink_to(outside)
    past = time.time() - 400 * 86400
    os.utime(cache / "reports" / "v0", (past, past), follow_symlinks=False)
    home.home(store.SCHEMA)
    assert (outside / "thesis").exists()


@pytest.mark.parametrize(("limit", "said"), [("disk", "No space left on device"), ("size of files", "File too large")])
def test_a_cache_that_takes_no_more_is_named_and_harms_no_entry(limit, said, report, tmp_path, monkeypatch, request):
    disk, limited = tmp_path, {}
    if limit == "disk":
        disk = request.getfixturevalue("tiny_disk")
        monkeypatch.setenv("NCUBBLE_CACHE", str(disk / "cache"))
    first = shown(report)
    if limit == "disk":
        (disk / "ballast").write_bytes(b"x" * (disk.free - 4 * 4096))
    else:
        limited["preexec_fn"] = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
    stored = {path: path.read_bytes() for path in disk.rglob("*.parquet")}
    large = shutil.copy(ROOT / NAMES[2] / "report.ncu-repz", tmp_path / "large.ncu-repz")
    done = command("report", "--json", report, large, **limited)
    assert done.returncode == 3
    (error,) = json.loads(done.stdout)["errors"]
    assert error["report"] == str(large)
    assert str(disk / "cache") in error["error"] and said in error["error"] and "NCUBBLE_CACHE" in error["error"]
    assert json.loads(done.stdout)["launches"] == first
    assert {path: path.read_bytes() for path in disk.rglob("*.parquet")} == stored
    assert unfinished(disk / "cache") == []


@pytest.mark.parametrize("deleted", [False, True], ids=["cache kept", "cache deleted meanwhile"])
def test_processes_and_a_dashboard_that_read_the_same_at_once_agree(tmp_path, cache, deleted):
    for name in NAMES[:2]:
        shutil.copytree(ROOT / name, tmp_path / "runs" / name)
    expected = shown(tmp_path / "runs")
    shutil.rmtree(cache)
    argv = [*MAIN, "report", "--json", str(tmp_path / "runs")]
    readers = [subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    board = ReportStore([tmp_path / "runs"]).start()
    for _ in range(2 * deleted):
        while not list(cache.glob("reports/v*/*/scalars")) and any(reader.poll() is None for reader in readers):
            time.sleep(0.01)
        shutil.rmtree(cache, ignore_errors=True)
    for reader in readers:
        out, err = reader.communicate(timeout=120)
        assert reader.returncode == 0, out + err
        assert json.loads(out)["launches"] == expected
    assert board.wait(60)
    assert board.failures() == []
    assert len(board.rows()) == len(expected)
    assert shown(tmp_path / "runs") == expected
    assert unfinished(cache) == []
