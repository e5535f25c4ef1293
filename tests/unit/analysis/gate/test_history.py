"""The history of checks: one line for each, lines that are damaged, and the kernels in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ncubble.analysis.gate import history as gate_history
from ncubble.analysis.gate.check import check
from ncubble.analysis.gate.history import FILE, KeptCheck, append, kept, metrics_of, of_metric, read
from ncubble.analysis.gate.verdicts import CheckOptions, GateResult
from ncubble.errors import MeasurementError
from ncubble.recordings import CHECKS
from tests.helpers.gate_frames import gemm, groups, recorded, report

WHEN = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
MANIFEST = {"started": "2026-11-21T10:00:00Z", "git": {"sha": "a" * 40, "dirty": True}}


def judged(*reports: Any, errors: Any = (), baselines: Any = None) -> GateResult:
    known = recorded(report()) if baselines is None else baselines
    return check(groups(*reports), known, CheckOptions(), errors)


def made(number: int = 0, tensor: float = 43.0, **more: Any) -> KeptCheck:
    """A check of one kernel, ``number`` minutes after the first."""
    result = judged(report([tensor + 0.01 * i for i in range(5)], key=f"{number:016x}", manifest=MANIFEST))
    return kept(result, checked=WHEN + timedelta(minutes=number), **more)


def test_a_regression_is_kept_with_its_numbers_and_origin(tmp_path: Path) -> None:
    append(tmp_path, made(tensor=40.0, paths=["runs/new"], sha="b" * 40, version="1.2"))
    (one,) = read(tmp_path).checks
    assert (one.verdict, one.exit_code, one.sha, one.paths, one.ncubble) == (
        *("regressed", 1, "b" * 40, ("runs/new",), "1.2"),
    )
    (kernel,) = one.kernels
    assert (kernel.verdict, kernel.device, kernel.git_sha, kernel.git_dirty) == (
        *("regressed", "NVIDIA H200", "a" * 40, True),
    )
    assert kernel.reports == ("0" * 16,) and kernel.measured == "2026-11-21T10:00:00Z"
    assert json.loads(kernel.key)["parameters"] == {"stages": 3}
    by_name = {metric.name: metric for metric in kernel.metrics}
    tensor, cycles, dram = (by_name[name] for name in ("tensor_elapsed_pct", "cycles", "dram_pct"))
    assert tensor.mean == pytest.approx(40.02) and tensor.n == 5 and tensor.values[0] == 40.0
    assert tensor.threshold == pytest.approx(tensor.baseline_mean * (1 - tensor.decision_pct / 100))
    assert tensor.baseline_mean > tensor.threshold > tensor.mean and cycles.threshold > cycles.baseline_mean
    assert (dram.threshold, dram.verdict) == (None, "info")


@pytest.mark.parametrize(
    ("result", "verdict", "said"),
    [
        (judged(report(kernel=gemm(5))), "not_comparable", "no baseline"),
        (judged(report(ncu_version="2026.1")), "not_comparable", "different ncu"),
        (judged(report(counters={})), "nothing_measured", "was not collected"),
        (judged(errors=[("x.ncu-rep", "damaged")]), "nothing_measured", "no kernel was checked"),
    ],
)
def test_what_could_not_be_judged_is_kept_with_its_reason(
    tmp_path: Path, result: GateResult, verdict: str, said: str
) -> None:
    append(tmp_path, kept(result))
    history = read(tmp_path)
    first = next(history.points())
    assert (history.checks[0].exit_code, first.verdict) == (3, verdict) and said in first.kernel.reason


def test_checks_are_lines_and_are_read_in_order_of_time_each_once(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "checks"
    for number in (3, 1, 2):
        append(folder, made(number))
    file = folder / FILE
    assert len(file.read_text().splitlines()) == 3
    file.write_text(file.read_text() * 2)  # two histories in one, by cat
    assert [one.checked for one in read(folder).checks] == [WHEN + timedelta(minutes=n) for n in (1, 2, 3)]


def test_an_unchanged_folder_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(tmp_path, made(1))
    first = read(tmp_path)
    monkeypatch.setattr(gate_history, "_lines", lambda path: pytest.fail("read again"))
    assert read(tmp_path) is first
    monkeypatch.undo()
    append(tmp_path, made(2))
    assert len(read(tmp_path).checks) == 2 and read(tmp_path).token != first.token


def test_two_at_once_lose_nothing(tmp_path: Path) -> None:
    def write(worker: int) -> None:
        for number in range(8):
            append(tmp_path, made(8 * worker + number))

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    history = read(tmp_path)
    assert len(history.checks) == 32 and not history.problems


KILLED = """
import os, signal, sys
from pathlib import Path
from ncubble.analysis.gate import history
write = os.fsync
def killed(number):
    os.ftruncate(number, os.fstat(number).st_size - 30)  # what had not reached the disk
    os.kill(os.getpid(), signal.SIGKILL)
history.os.fsync = killed
history.append(Path(sys.argv[1]), history.KeptCheck(3, "killed", __import__("datetime").datetime.now(), "pass", 0))
"""


def test_a_writer_that_is_killed_loses_its_own_line_and_no_other(tmp_path: Path) -> None:
    append(tmp_path, made(1))
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], env=os.environ).returncode
    assert ended == -signal.SIGKILL
    append(tmp_path, made(2))
    history = read(tmp_path)
    assert [one.checked for one in history.checks] == [WHEN + timedelta(minutes=n) for n in (1, 2)]
    (problem,) = history.problems
    assert problem.name == f"{FILE} line 2" and "damaged" in problem.error and problem.remedy


def test_a_full_disk_leaves_the_file_as_it_was(tiny_disk: Any) -> None:
    append(tiny_disk, made(1))
    before = (tiny_disk / FILE).read_bytes()
    filler = tiny_disk / "filler"
    filler.write_bytes(b"x" * (tiny_disk.free - 4096))
    large = made(2, paths=["x" * 100] * 100)
    with pytest.raises(OSError, match="No space left"):
        append(tiny_disk, large)
    assert (tiny_disk / FILE).read_bytes() == before
    filler.unlink()
    append(tiny_disk, large)
    assert len(read(tiny_disk).checks) == 2


@pytest.mark.parametrize(
    ("line", "said", "remedy"),
    [
        (b"\xff\xfe", "damaged", "restore"),
        (b"{", "damaged", "restore"),
        (b"[" * 10_000, "damaged", "restore"),
        (b"kernel,verdict", "damaged", "restore"),
        (b"{}", "missing required field `schema`", "restore"),
        (b'{"schema":3,"check":"c","checked":"now","verdict":"pass","exit_code":0}', "checked", "restore"),
        (b'{"schema":4,"new":1}', "schema 4 is newer than 3", "upgrade"),
        ({"kernels": [{"metrics": [{"mean": "fast"}]}]}, "mean", "restore"),
        ({"kernels": [{"metrics": [{"mean": 1e300}]}]}, "mean", "restore"),
    ],
)
def test_a_damaged_line_is_named_and_hides_no_other(tmp_path: Path, line: Any, said: str, remedy: str) -> None:
    append(tmp_path, made(1))
    file = tmp_path / FILE
    if isinstance(line, dict):
        line = json.dumps(json.loads(file.read_bytes()) | line).encode()
    file.write_bytes(file.read_bytes() + line + b"\n")
    append(tmp_path, made(2))
    history = read(tmp_path)
    assert len(history.checks) == 2
    (problem,) = history.problems
    assert problem.name == f"{FILE} line 2" and said in problem.error and remedy in problem.remedy


def test_only_the_newest_bytes_are_read_and_the_rest_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        append(tmp_path, made(number))
    size = (tmp_path / FILE).stat().st_size
    monkeypatch.setattr(gate_history, "MOST_B", size * 5 // 8)
    history = read(tmp_path)
    assert (history.left_out, len(history.checks), history.problems) == (2, 2, ())
    assert history.checks[0].checked == WHEN + timedelta(minutes=2)


@pytest.mark.parametrize("kind", ["a symbolic link", "a directory"])
def test_what_is_no_file_in_its_place_is_refused(tmp_path: Path, kind: str) -> None:
    folder, outside = tmp_path / "checks", tmp_path / "outside"
    folder.mkdir()
    (folder / FILE).mkdir() if kind == "a directory" else (folder / FILE).symlink_to(outside)
    with pytest.raises(MeasurementError, match=f"is {kind}, where ncubble keeps the history") as refused:
        append(folder, made())
    assert "remove it" in refused.value.remedy and not outside.exists()
    (problem,) = read(folder).problems
    assert problem.name == FILE and problem.remedy


def test_shipped_checks_are_read_whole() -> None:
    shipped = read(CHECKS)
    assert shipped.checks and not shipped.problems


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two kernels over five checks: one that passes, one that regresses at last; and launches of
    another GPU."""
    known = recorded(report(), report(kernel=gemm(4)))
    for day, tensor in enumerate((43.0, 43.02, 42.98, 43.01, 40.0)):
        now = [report([tensor + 0.01 * i for i in range(5)]), report(kernel=gemm(4))]
        append(tmp_path, kept(check(groups(*now), known, CheckOptions()), checked=WHEN + timedelta(days=day)))
    other = check(groups(report(device="NVIDIA A100-SXM4-40GB")), known, CheckOptions())
    append(tmp_path, kept(other, checked=WHEN + timedelta(days=5)))
    return tmp_path


def test_regressed_kernels_come_first_then_those_checked_last(folder: Path) -> None:
    found = read(folder).kernels
    assert [(one.verdict, one.device) for one in found] == [
        ("regressed", "NVIDIA H200"),
        ("not_comparable", "NVIDIA A100-SXM4-40GB"),
        ("pass", "NVIDIA H200"),
    ]
    first = found[0]
    assert first.verdicts == ["pass"] * 4 + ["regressed"]
    assert first.decided.name == "tensor_elapsed_pct" and first.decided.change_pct == pytest.approx(-6.93, abs=0.01)
    assert found[2].decided.change_pct is not None and "different GPU" in found[1].last.kernel.reason


def test_kernels_are_found_by_their_name_and_gpu(folder: Path) -> None:
    history = read(folder)
    first, other, _ = history.kernels
    assert first.kernel == other.kernel
    assert history.find(first.kernel, "") == first and history.find(first.kernel, other.gpu) == other
    assert history.find("nothing", "") is None and history.find("", "") is None


def test_the_points_of_a_kernel_hold_every_check_once_per_metric(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = read(folder)
    points = history.kernels[0].recent
    assert metrics_of(points) == ["tensor_elapsed_pct", "cycles", "duration_ns", "dram_pct"]
    assert [point.verdict for point in of_metric(points, "tensor_elapsed_pct")] == ["pass"] * 4 + ["regressed"]
    monkeypatch.setattr(gate_history, "MOST_CHECKS", 2)
    assert [point.check.checked.day for point in of_metric(history.kernels[0].recent, "cycles")] == [24, 25]


def test_a_name_that_is_none_gets_a_hash_for_addresses(tmp_path: Path) -> None:
    odd = made()
    kernel = msgspec.structs.replace(odd.kernels[0], id="<b>", device="../x")
    append(tmp_path, msgspec.structs.replace(odd, kernels=(kernel,)))
    (found,) = read(tmp_path).kernels
    assert (found.kernel[0], len(found.kernel), found.gpu) == ("x", 13, "x")
