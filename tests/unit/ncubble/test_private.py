"""What ncubble keeps of reports is for its user alone, whatever the umask."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ncubble.profiling.sweeps.store import Attempt, Machine, Reply, Store, SweepJob
from ncubble.recordings import ROOT
from ncubble.store import make_private, recall, remember


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """What most systems set: others may read."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "home" / "cache"))
    return tmp_path / "home" / "cache"


def modes(folder: Path) -> dict[str, int]:
    """The mode of a folder and of all that lies in it."""
    return {str(path): path.lstat().st_mode & 0o777 for path in (folder, *folder.rglob("*")) if not path.is_symlink()}


def is_private(folder: Path) -> bool:
    wide = {
        path: oct(mode) for path, mode in modes(folder).items() if mode != (0o700 if Path(path).is_dir() else 0o600)
    }
    assert not wide
    return True


def test_a_reading_and_a_visit_leave_a_cache_for_their_user_alone(cache: Path) -> None:
    report = next(path for path in sorted(ROOT.rglob("report.ncu-rep*")) if path.is_file())
    code = f"""if True:
        from pathlib import Path
        from ncubble.analysis.diagnosis.results import judge
        from ncubble.analysis.report.report import Report
        from ncubble.dashboard.data.store import ReportStore
        import io
        from ncubble.dashboard.pages.uploads import Uploads
        from ncubble.kernels import build
        report = Report.open(Path({str(report)!r}))
        judge(report), report.source
        store = ReportStore([Path({str(report.parent)!r})]).start()
        assert store.wait(100)
        Uploads(store).take("a.ncu-rep", 9, io.BytesIO(b"NVR\\0hello"))
        build._store("key", build.Build(b"cubin", build.CompiledResources(1, 2, 3), "nvcc", (), "0", False))
        import os; os._exit(0)  # added files stay
    """
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {"cubins", "index", "reports"} <= {path.name for path in cache.iterdir()}
    assert list(cache.rglob("*.parquet")) and list(cache.rglob("*.ncu-rep")) and list(cache.rglob("verdicts-*"))
    assert is_private(cache) and is_private(cache.parent)


def test_facts_in_the_cache_are_private_from_their_first_moment(cache: Path) -> None:
    remember(cache / "seen" / "a.json", {"path": "/secret"})
    assert recall(cache / "seen" / "a.json") == {"path": "/secret"}
    assert is_private(cache)


def test_folders_that_are_there_keep_their_mode(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    make_private(there / "new" / "newer")
    assert modes(there) == {str(there): 0o755, str(there / "new"): 0o700, str(there / "new" / "newer"): 0o700}


def test_a_sweep_store_is_private_with_all_that_is_put_there(tmp_path: Path) -> None:
    with Store(tmp_path / "sweeps" / "gemm") as store:
        files = {"run.json": b"{}", "report.ncu-rep": b"NVR"}
        store.settle("0123456789abcdef", SweepJob({}, {}, {}, "gemm"), Reply(Attempt("ok"), Machine(), files))
    assert is_private(tmp_path / "sweeps")


def test_a_sweep_store_that_is_open_to_others_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "shared").mkdir()
    with caplog.at_level(logging.WARNING), Store(tmp_path / "shared"):
        pass
    assert [f"chmod 700 {tmp_path / 'shared'}" in record.message for record in caplog.records] == [True]
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o755, "who opened it meant it"


def test_a_record_may_hold_what_only_python_reads(tmp_path: Path) -> None:
    remember(tmp_path / "a.json", {"path": "/\udcff", "gain": float("inf")})
    assert recall(tmp_path / "a.json") == {"path": "/\udcff", "gain": float("inf")}
