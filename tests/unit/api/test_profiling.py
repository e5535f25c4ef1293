"""``ncubble.profile``: the request that it makes, with a player in place of ``ncu``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import zstandard

import ncubble
from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling.failures import MetricUnavailableError
from ncubble.profiling.recorders import ncu
from ncubble.recordings import ROOT
from tests.helpers.fake_machine import install
from tests.helpers.played_runs import recorded_request

RECORDED = ROOT / "gemm_tma" / "stages2" / "report.ncu-repz"
PROGRAM = ["/bin/sh", "-c", 'echo "heard $0"; echo gemm_tma >> "$PLAYED_LAUNCHES"', "it"]


@pytest.fixture(autouse=True)
def _gpu_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, "played_ncu")
    report = tmp_path / "recorded.ncu-rep"
    with RECORDED.open("rb") as packed, report.open("wb") as plain:
        zstandard.ZstdDecompressor().copy_stream(packed, plain)
    monkeypatch.setenv("PLAYED_REPORT", str(report))
    monkeypatch.setenv("PLAYED_LAUNCHES", str(tmp_path / "launches"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def _unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The player cannot read a report back, so whether metrics are missing is not known."""
    monkeypatch.setattr(ncu, "read_back", lambda tool, report: None)


@pytest.mark.usefixtures("_unread")
def test_a_program_is_profiled_and_its_run_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[str] = []
    r = ncubble.profile(PROGRAM, out="run", sets=["tensor"], on_output=heard.append)
    assert [launch.kernel for launch in r] == ["gemm_tma"] and r[0].report == "run"
    assert r[0].account.sum() == pytest.approx(100, abs=0.005)
    assert "heard it" in heard
    assert capsys.readouterr() == ("", "")
    with pytest.raises(UsageError, match="run"):
        ncubble.profile(PROGRAM, out="run")
    assert len(ncubble.profile(PROGRAM, out="run", force=True)) == 1


@pytest.mark.usefixtures("_unread")
def test_a_run_gets_a_name_of_its_own() -> None:
    assert ncubble.profile(PROGRAM)[0].report.startswith("runs/sh-20")


def test_a_run_without_what_the_account_needs_is_kept_and_named() -> None:
    with pytest.raises(MetricUnavailableError, match=r"run: recorded, but these metrics have no value \(n/a\): smsp__"):
        ncubble.profile(PROGRAM, out="run")
    assert len(ncubble.load("run")) == 1


def test_a_kernel_of_the_catalog_becomes_one_argv(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def record(session: object, settings: object) -> None:
        seen.append(recorded_request(session, settings))
        raise MeasurementError("seen")

    monkeypatch.setattr(ncu, "profile", record)
    with pytest.raises(MeasurementError, match="seen"):
        ncubble.profile("tensor_core_gemm", parameters={"stages": 3}, shape={"m": 256, "n": 256}, repeat=2)
    (request,) = seen
    assert request.program[1:5] == ["-P", "-m", "ncubble.kernels", "tensor_core_gemm"]
    assert request.program[-6:] == ["-p", "stages=3", "-p", "m=256", "-p", "n=256"]
    assert request.out.name.startswith("tensor_core_gemm-stages3-m256-n256-20")
    assert "tensor_core_gemm" in request.filters.kernel


@pytest.mark.parametrize(
    ("program", "options", "says"),
    [
        ([], {}, "the list names no program"),
        (["/no/such/program"], {}, "no such program"),
        ("python train.py", {}, "is not a catalog kernel"),
        ("./train", {}, "is not a catalog kernel"),
        ("no_such_kernel", {}, "no_such_kernel"),
        ("tensor_core_gemm", {"parameters": {"stages": 99}}, "stages=99"),
        (["/bin/true"], {"shape": {"m": 1}}, "shape is for catalog kernels only"),
        (["/bin/true"], {"repeat": 2}, "repeat is for catalog kernels only"),
        (["/bin/true"], {"sets": ["tensors"]}, "unknown metric set"),
        (["/bin/true"], {"timeout_s": 0.0}, "not a positive number"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_runs(program: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        ncubble.profile(program, **options)
    assert not Path("runs").exists()


def test_a_measurement_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYED_FAILURE", "permission")
    with pytest.raises(MeasurementError, match="ERR_NVGPUCTRPERM"):
        ncubble.profile(PROGRAM, out="run")
    assert not Path("run").exists()
