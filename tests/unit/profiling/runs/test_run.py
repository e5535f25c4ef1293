"""Run directories when profiling is killed, replaced, starved of space, or fed with hostile
names."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ncubble.errors import ReportError, UsageError
from ncubble.profiling import staging
from ncubble.profiling.ncu import Filters
from ncubble.profiling.recorders import ncu
from ncubble.profiling.recorders.ncu import NcuSettings
from ncubble.profiling.runs import Manifest, Run, find_runs
from ncubble.profiling.session import Session
from ncubble.profiling.subject import Subject
from ncubble.recordings import H100
from tests.helpers.fake_machine import install

QUIET = [sys.executable, "-c", "pass"]
MAIN = [sys.executable, "-P", "-c", "from ncubble.cli.main import main; main()"]
HOSTILE = "$(touch hacked)`touch hacked`;touch hacked|&'\"\n--force %n \x1b[31m[red]\u202e"


def profile(out, program=QUIET, force=False, **settings):
    return ncu.profile(Session(Subject(program), Path(out), force), NcuSettings(**settings))


@pytest.fixture(autouse=True)
def _gpu_machine(monkeypatch, tmp_path):
    install(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)


def unfinished(folder):
    return sorted(folder.glob(f"{staging.UNFINISHED}*"))


@pytest.fixture
def killed(tmp_path, monkeypatch):
    """A run directory ``kept``, and beside it what SIGKILL leaves of a profiling into ``lost``."""
    profile("runs/kept")
    with monkeypatch.context() as patch:
        patch.setenv("FAKE_NCU", "slow")
        process = subprocess.Popen(
            [*MAIN, "profile", "--out", "runs/lost", "--", "/bin/true"],
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        while not (begun := unfinished(tmp_path / "runs")):
            time.sleep(0.02)
        ncu = None
        while ncu is None:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            ncu = next((int(child) for child in children if b"--export" in cmdline(child)), None)
        process.kill()
        process.wait()
        os.killpg(ncu, signal.SIGKILL)
    return begun[0]


def cmdline(process):
    with suppress(OSError):  # git has ended already
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


def test_the_next_profiling_names_and_removes_what_a_killed_one_left(killed, caplog):
    profile("runs/next")
    assert "an earlier profiling into runs/lost was interrupted" in caplog.text
    assert not killed.exists()
    assert sorted(path.name for path in Path("runs").iterdir()) == ["kept", "next"]


def test_reading_names_what_a_killed_profiling_left_and_changes_nothing(killed, caplog):
    assert [path.name for path in find_runs([Path("runs")])] == ["kept"]
    assert "profiling into runs/lost was interrupted and left no run" in caplog.text
    assert killed.exists()


def test_a_profiling_under_way_is_neither_named_nor_removed(caplog):
    with staging.staged(Path("runs/one")) as one:
        (one / "report.ncu-rep").touch()
        profile("runs/two")
        assert [path.name for path in find_runs([Path("runs")])] == ["two"]
    assert caplog.text == ""
    assert Path("runs/one/report.ncu-rep").exists()


def test_a_forced_run_changes_places_with_the_old_one_in_one_step(monkeypatch):
    profile("run")
    seen = []

    def exchange(one, other):
        done = real(one, other)
        seen.append((done, (one / "run.json").is_file(), (other / "run.json").is_file()))
        return done

    real = staging._exchange
    monkeypatch.setattr(staging, "_exchange", exchange)
    profile("run", sets=["tensor"], force=True)
    assert seen == [(True, True, True)]
    assert Run.load(Path("run")).manifest.metric_set == ["tensor"]
    assert unfinished(Path()) == []


@pytest.mark.parametrize("moves", [0, 1])
def test_where_a_file_system_cannot_exchange_a_kill_between_two_renames_loses_no_run(moves, caplog):
    """``moves`` renames of the replacement happen, then SIGKILL."""
    profile("run")
    before = Path("run/run.json").read_text()
    code = f"""
import os, signal, sys
from pathlib import Path
from ncubble.profiling import staging
from ncubble.profiling.session import Session
from ncubble.profiling.subject import Subject
left = [{moves}]
real = Path.rename
def rename(self, target):
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    return real(self, target)
staging._exchange = lambda one, other: False
Path.rename = rename
with staging.staged(Path("run"), force=True) as folder:
    (folder / "report.ncu-rep").touch()
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert Path("run").exists() == (moves == 0)
    profile("other")
    assert Path("run/run.json").read_text() == before
    assert "an earlier profiling into run was interrupted" in caplog.text
    assert unfinished(Path()) == []


def test_a_leftover_from_a_stranger_cannot_write_outside_its_folder(killed, tmp_path):
    """Someone's archive may hold such a folder: nothing in its note is taken for a path to write
    to."""
    replaced = killed / "work" / "replaced"
    replaced.mkdir()
    (replaced / "kept").write_text("not this one: a run of that name is there")
    (replaced / "link").symlink_to("/etc/passwd")
    note = json.loads((killed / "owner.json").read_text())
    (killed / "owner.json").write_text(json.dumps({**note, "making": {"../../../bin": "x", "/etc/passwd": "y"}}))
    staging.tidy(tmp_path / "runs")
    assert (tmp_path / "bin" / "ncu").exists()
    assert Path("/etc/passwd").exists()
    assert Path("runs/kept").is_dir()


def test_new_folders_on_the_way_to_a_run_are_synced_too(monkeypatch):
    synced = []
    monkeypatch.setattr(staging, "sync", lambda path: synced.append(str(path)))
    with staging.staged(Path("a/b/run")):
        pass
    assert {".", "a", "a/b"} <= set(synced)


def test_the_name_of_a_run_may_be_as_long_as_the_file_system_allows():
    out = Path("r" * 255)
    assert profile(out).path == out
    with pytest.raises(UsageError, match="File name too long"):
        profile("r" * 256)


def test_a_disk_quota_met_half_way_is_named_and_harms_nothing(tmp_path):
    profile("runs/kept")
    before = {path: path.read_bytes() for path in Path("runs").rglob("*") if path.is_file()}

    def small_files_only():
        resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000))

    done = subprocess.run(
        [*MAIN, "profile", "--out", "runs/large", "--", *QUIET, "x" * 40000],
        capture_output=True,
        text=True,
        preexec_fn=small_files_only,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert "runs/large: File too large" in done.stderr
    assert "--out" in done.stderr
    assert {path: path.read_bytes() for path in Path("runs").rglob("*") if path.is_file()} == before
    assert unfinished(tmp_path / "runs") == []


def test_a_full_disk_is_named_and_harms_nothing(tmp_path, tiny_disk):
    (tiny_disk / "kept").mkdir()
    (tiny_disk / "kept" / "report.ncu-rep").write_bytes(b"old")
    (tiny_disk / "ballast").write_bytes(b"x" * (tiny_disk.free - 8192))
    done = subprocess.run(
        [*MAIN, "profile", "--out", tiny_disk / "large", "--", *QUIET, "x" * 20000],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert f"{tiny_disk / 'large'}: no space left on the device" in done.stderr
    assert (tiny_disk / "kept" / "report.ncu-rep").read_bytes() == b"old"
    assert sorted(path.name for path in tiny_disk.iterdir()) == ["ballast", "kept"]


def test_hostile_values_reach_ncu_as_they_are_and_no_shell(tmp_path):
    filters = Filters(kernel="(?#" + HOSTILE.replace(")", "") + ")", nvtx=HOSTILE)
    manifest = profile("run", [*QUIET, HOSTILE], filters=filters).manifest
    assert manifest.argv[-1] == HOSTILE
    assert HOSTILE in manifest.ncu_argv
    assert list(tmp_path.rglob("*hacked*")) == []


def test_no_room_ever_starts_a_shell(sources):
    for path in sources:
        text = path.read_text(encoding="utf-8")
        assert not any(word in text for word in ("shell=True", "os.system(", "os.popen(", "getoutput(")), path


@pytest.mark.parametrize("file", ["../../../../etc/passwd", "/etc/passwd", "$(touch hacked)", "", None, ["x"]])
def test_a_manifest_names_no_file_to_open(tmp_path, file):
    shutil.copytree(H100 / "softmax_online" / "default", "copy")
    raw = json.loads(Path("copy/run.json").read_text())
    raw["report"]["file"] = file
    Path("copy/run.json").write_text(json.dumps(raw))
    assert Run.load(Path("copy")).report == Path("copy/report.ncu-repz")


@pytest.mark.parametrize("schema", [99, 0, True, 1.0, "1", None])
def test_a_manifest_of_another_schema_is_refused_with_it(schema):
    with pytest.raises(ReportError, match=f"not a run manifest of schema 1, but {schema!r}"):
        Manifest.from_json(json.dumps({"schema": schema}), Path("run.json"))
