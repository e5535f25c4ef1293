"""The doctor says what a machine lacks, with a remedy for each, and never fails to answer."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError

import pytest

from ncubble.chips import Version
from ncubble.errors import MeasurementError
from ncubble.profiling import doctor
from ncubble.profiling.driver import Device, DriverError
from tests.helpers.fake_machine import install


@pytest.fixture
def tool(monkeypatch, tmp_path):
    """An ncu that plays along; its path."""
    monkeypatch.setattr(doctor, "PROBE", [sys.executable, "-c", "pass"])
    return install(monkeypatch, tmp_path)


def test_the_probe_imports_nothing_from_the_users_directory(tmp_path):
    (tmp_path / "ctypes.py").write_text("raise SystemExit('imported from the current directory')")
    done = subprocess.run(doctor.PROBE, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "imported from" not in done.stderr


def gpu_is(monkeypatch, answer):
    def describe():
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(doctor, "describe", describe)


H200 = Device("NVIDIA H200", Version(9, 0), "580.82", Version(13, 0))


def test_a_machine_with_everything_can_profile(monkeypatch, tool):
    gpu_is(monkeypatch, H200)
    checks = doctor.examine()
    assert doctor.able(checks, "profile")
    doctor.require_profiling(checks)
    assert "2025.3.1.0" in next(check.detail for check in checks if check.name == "ncu")


def test_a_machine_without_gpu_can_view_and_says_what_profiling_needs(monkeypatch, tool):
    gpu_is(monkeypatch, DriverError("no NVIDIA driver"))
    checks = doctor.examine()
    answer = doctor.as_json(checks)
    assert answer["can"]["view"]
    assert not answer["can"]["profile"]
    assert not answer["can"]["kernels"]
    with pytest.raises(MeasurementError, match="cannot profile: driver and GPU, performance counters"):
        doctor.require_profiling(checks)


def test_whatever_is_not_ok_has_a_remedy(monkeypatch):
    gpu_is(monkeypatch, DriverError("no NVIDIA driver"))
    monkeypatch.setenv("NCUBBLE_NCU", "/nowhere/ncu")
    monkeypatch.setenv("PATH", "")
    checks = doctor.examine()
    lacking = [check for check in checks if check.status != "ok"]
    assert {"driver and GPU", "ncu", "performance counters", "g++"} <= {check.name for check in lacking}
    assert all(check.remedy for check in lacking)


def test_refused_counters_are_found_by_a_real_profile(monkeypatch, tool):
    monkeypatch.setenv("FAKE_NCU", "permission")
    check = doctor.check_counters()
    assert check.status == "wrong"
    assert "NVreg_RestrictProfilingToAdminUsers=0" in check.remedy


def test_an_old_ncu_is_wrong_and_not_missing(monkeypatch, tool):
    monkeypatch.setenv("FAKE_NCU_VERSION", "2023.3.1.0")
    assert doctor.check_ncu().status == "wrong"


def test_an_unknown_chip_is_usable_and_said(monkeypatch):
    gpu_is(monkeypatch, Device("NVIDIA Next", Version(13, 7), "", Version(14, 0)))
    check = doctor.check_gpu()
    assert check.status == "ok"
    assert "unknown chip" in check.detail


@pytest.mark.parametrize(("numpy", "status"), [("2.4.6", "ok"), ("2.5.0", "wrong"), ("3.0.0", "wrong")])
def test_numpy_that_numba_cuda_cannot_import_is_wrong(numpy, status):
    check = doctor.check_numba({"numpy": numpy, "numba-cuda": "0.30.4"}.__getitem__)
    assert check.status == status
    assert check.remedy.endswith("pip install 'numpy<2.5'") == (status == "wrong")


def test_a_missing_package_is_missing():
    def nothing(name):
        raise PackageNotFoundError(name)

    assert doctor.check_numba(nothing).status == "missing"
    assert doctor.check_package("no-such-package-of-ours", "view").status == "missing"


def test_a_gpu_without_ncu_can_run_the_kernels(monkeypatch):
    gpu_is(monkeypatch, H200)
    monkeypatch.setenv("NCUBBLE_NCU", "/nowhere/ncu")
    monkeypatch.setattr(
        doctor, "check_compiler", lambda name, remedy, *_: doctor.DoctorCheck(name, "kernels", "ok", "there")
    )
    answer = doctor.as_json(doctor.examine())
    assert answer["can"] == {
        **{"view": True, "profile": False, "kernels": True, "own": True, "streams": True},
        **{"sweeps": False, "agents": True},
    }


def test_every_package_that_is_declared_is_looked_for(repository):
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    for declared, checked in (
        (project["dependencies"], doctor._VIEW),
        (project["optional-dependencies"]["gpu"], doctor._GPU),
        (project["optional-dependencies"]["cluster"], doctor._CLUSTER),
    ):
        assert [re.split(r"[<>=]", item)[0] for item in declared] == list(checked)


def test_own_kernels_need_nvdisasm_and_triton_and_the_catalog_does_not(monkeypatch):
    found = [
        *(doctor.DoctorCheck(name, "kernels", "ok", "there") for name in ("nvcc", "g++")),
        *(doctor.DoctorCheck(name, "own", "missing", "not on PATH", "get it") for name in ("nvdisasm", "triton")),
    ]
    assert [check.name for check in doctor.lacking(found, "own")] == ["nvdisasm", "triton"]
    assert doctor.able(found, "kernels")
    gpu_is(monkeypatch, DriverError("no NVIDIA driver"))
    needs = {check.name: check.need for check in doctor.examine()}
    assert needs["nvdisasm"] == needs["triton"] == "own"


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH"])
def test_nvcc_is_found_under_the_toolkits_folder(monkeypatch, tmp_path, variable):
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n")
    nvcc.chmod(0o755)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv(variable, str(tmp_path))
    check = doctor.check_compiler("nvcc", "install it")
    assert check.status == "ok"
    assert "13.0" in check.detail


@pytest.mark.parametrize("launcher", ["", "ccache "])
def test_the_compiler_that_cxx_names_counts_as_of_conda(tmp_path, monkeypatch, launcher):
    compiler = tmp_path / "x86_64-conda-linux-gnu-c++"
    compiler.write_text("#!/bin/sh\necho 'x86_64-conda-linux-gnu-c++ (conda-forge gcc 14.3.0-7) 14.3.0'\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CXX", f"{launcher}{compiler} -m64")
    check = doctor.check_cxx()
    assert (check.name, check.status) == ("g++", "ok") and "conda-forge gcc" in check.detail
    monkeypatch.setenv("CXX", "none-c++")
    missing = doctor.check_cxx()
    assert missing.status == "missing" and missing.detail.startswith("CXX=none-c++")
    monkeypatch.delenv("CXX")
    assert doctor.check_cxx().status == "missing"
