"""The wheel holds the whole product and nothing else, and works in a fresh environment outside the
repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(900)]

# What only a checkout needs: three quarters of the recordings by size.
LEFT_OUT = ("ncubble/recordings/validation/", "ncubble/recordings/h200-gate/", "ncubble/recordings/h100-repeats/")
LARGEST_B = 9_500_000
# Extras are not installed, and pytest is not where nobody tests: a laptop that only looks at
# recorded runs needs none.
EXTRAS = {"numba", "llvmlite", "cuda", "pynvml", "dask", "distributed", "pytest"}

_IMPORT_ALL = """
import importlib, json, pkgutil
import ncubble
failed = {}
for module in pkgutil.walk_packages(ncubble.__path__, "ncubble."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        failed[module.name] = error.name
print(json.dumps({"file": ncubble.__file__, "failed": failed}))
"""


@pytest.fixture(scope="session")
def wheel() -> Path:
    path = os.environ.get("NCUBBLE_WHEEL")
    if not path:
        pytest.skip("NCUBBLE_WHEEL names no wheel (make smoke builds one)")
    return Path(path).resolve(strict=True)


@pytest.fixture(scope="session")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``bin`` of a fresh environment that holds the wheel with its runtime dependencies only."""
    environment = tmp_path_factory.mktemp("fresh") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=120)
    pip = [sys.executable, "-m", "pip", "--python", environment / "bin" / "python"]
    subprocess.run([*pip, "install", "--quiet", "--no-compile", wheel], check=True, timeout=600)
    subprocess.run([*pip, "check"], check=True, timeout=120)
    return environment / "bin"


def run(program: Path, *arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run an installed program far from the repository, where ``./ncubble`` cannot stand in for the
    package."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [program, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


def test_wheel_holds_every_file_of_the_rooms(
    names: set[str], tracked: list[Path], rooms: tuple[str, ...], repository: Path
) -> None:
    parts = [path.relative_to(repository).parts for path in tracked if path.suffix != ".md"]
    wanted = {"/".join(part if part[0] == "ncubble" else ("ncubble", *part)) for part in parts if part[0] in rooms}
    assert wanted
    kept_out = {name for name in wanted if name.startswith(LEFT_OUT)}
    assert kept_out and not [name for name in names if name.startswith(LEFT_OUT)]
    assert wanted - names == kept_out


def test_wheel_is_small_and_holds_what_the_demo_shows(wheel: Path, names: set[str]) -> None:
    assert wheel.stat().st_size <= LARGEST_B
    for folder in (
        "h200",
        "h200-full",
        "h200-repeats",
        "h200-checks",
        "h200-lanes",
        "h200-ranks",
        "h100",
        "h100-lanes",
    ):
        assert any(name.startswith(f"ncubble/recordings/{folder}/") for name in names), folder
    assert "ncubble/cli/SKILL.md" in names


def test_validations_and_planted_kernels_are_part_of_a_checkout_only(
    installed: Path, names: set[str], tmp_path: Path
) -> None:
    assert run(installed / "ncubble", "validate", "account", folder=tmp_path).returncode == 2
    assert not [name for name in names if "planted" in name]


def test_wheel_owns_one_name_and_carries_no_tests(names: set[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"ncubble"}
    assert not [name for name in names if "tests" in name.split("/") or name.endswith((".pyc", ".cubin"))]


def test_every_module_imports_without_the_extras(installed: Path, tmp_path: Path) -> None:
    answer = run(installed / "python", "-c", _IMPORT_ALL, folder=tmp_path)
    assert answer.returncode == 0, answer.stderr
    seen = json.loads(answer.stdout)
    assert Path(seen["file"]).is_relative_to(installed.parent)
    lacking = {module: name for module, name in seen["failed"].items() if name.split(".")[0] not in EXTRAS}
    assert lacking == {}


def test_version_is_the_one_of_the_wheel(installed: Path, wheel: Path, tmp_path: Path) -> None:
    answer = run(installed / "ncubble", "--version", folder=tmp_path)
    assert answer.stdout.strip() == f"ncubble {wheel.name.split('-')[1]}"


def test_catalog_is_installed(installed: Path, tmp_path: Path) -> None:
    answer = run(installed / "ncubble", "kernels", "--json", folder=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "tensor_core_gemm" in answer.stdout
    assert json.loads(answer.stdout)


def test_doctor_answers_on_a_machine_without_a_gpu(installed: Path, tmp_path: Path) -> None:
    answer = run(installed / "ncubble", "doctor", "--json", folder=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)


def test_installed_recordings_are_reported(installed: Path, tmp_path: Path) -> None:
    where = run(installed / "python", "-c", "import ncubble.recordings as r; print(*r.__path__)", folder=tmp_path)
    folder = Path(where.stdout.strip()) / "h200"
    runs = sorted(folder.rglob("*.ncu-rep*"))
    assert runs, f"{folder} holds no recorded run"
    answer = run(installed / "ncubble", "report", folder, "--json", folder=tmp_path)
    assert answer.returncode == 0, answer.stderr
    report = json.loads(answer.stdout)
    assert report["errors"] == []
    assert len(report["launches"]) >= len(runs)
    for launch in report["launches"]:
        assert sum(launch["account"].values()) == pytest.approx(100, abs=0.01)


_LIBRARY = """
import json, sys
import ncubble
assert not {"pandas", "dash", "plotly"} & set(sys.modules)
from ncubble.recordings import ROOT
r = ncubble.load(ROOT / "gemm_tma")
r[1].plot(), r[1].plot_timeline(), r.plot(), r._repr_html_()
depths, compared = r[1].depths, ncubble.compare(r[0], r[2])
gate = ncubble.check(r, allow_new=True, config=False, rules=["tensor_elapsed_pct >= 40"])
assert "dash" not in sys.modules  # which in a notebook opens a channel to the page
print(json.dumps([len(r.launches), r[1].account.sum(), depths.attrs["stages"], len(compared), gate.verdict, repr(r)]))
"""
_TYPED = """
import ncubble
r = ncubble.load("x.ncu-rep")
reveal_type(r[0])
reveal_type(r["gemm.*"])
reveal_type(r[0].verdict.cause)
ncubble.lod("x")
"""


def test_the_library_works_outside_the_repository(installed: Path, tmp_path: Path) -> None:
    answer = run(installed / "python", "-c", _LIBRARY, folder=tmp_path)
    assert answer.returncode == 0, answer.stderr
    launches, whole, stages, compared, verdict, shown = json.loads(answer.stdout)
    assert (launches, stages, compared, verdict) == (4, 2, 1, "pass")
    assert whole == pytest.approx(100, abs=0.005)
    assert "gemm_tma stages=2" in shown


def test_type_checkers_see_the_names_of_the_library(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "typed.py").write_text(_TYPED)
    argv = ["-m", "mypy", "--python-executable", installed / "python", "--cache-dir", tmp_path / "cache", "typed.py"]
    answer = run(Path(sys.executable), *argv, folder=tmp_path)
    told = [line.partition(": ")[2] for line in answer.stdout.splitlines() if line.startswith("typed.py")]
    assert told == [
        'note: Revealed type is "ncubble.api.launch.ReportLaunch"',
        'note: Revealed type is "ncubble.api.reports.ReportSet"',
        'note: Revealed type is "str"',
        'error: Module has no attribute "lod"  [attr-defined]',
    ], answer.stdout


def test_metadata_names_extras_and_licence(wheel: Path, repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    with zipfile.ZipFile(wheel) as archive:
        metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(metadata).decode().splitlines()
    assert {line.split()[1] for line in lines if line.startswith("Provides-Extra:")} == set(
        project["optional-dependencies"]
    )
    assert f"License-Expression: {project['license']}" in lines
