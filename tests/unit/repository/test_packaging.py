"""The package holds every room and every folder with code, is not shadowed by a checkout of its
name, and environment.yml installs what pyproject.toml asks for."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from setuptools import find_packages


def test_every_room_is_a_link_in_the_package(repository: Path, rooms: tuple[str, ...]) -> None:
    links = {path.name: str(path.readlink()) for path in (repository / "ncubble").iterdir() if path.is_symlink()}
    assert links == {room: f"../{room}" for room in rooms if room != "ncubble"}


def test_every_folder_with_code_is_found_as_a_package(repository: Path, sources: list[Path]) -> None:
    folders = {path.parent.relative_to(repository) for path in sources}
    wanted = {".".join(part if part[0] == "ncubble" else ("ncubble", *part)) for part in (f.parts for f in folders)}
    assert set(find_packages(str(repository), include=["ncubble*"])) == wanted


def test_package_data_names_packages_that_exist(repository: Path) -> None:
    setuptools_table = tomllib.loads((repository / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = [repository / name.replace(".", "/") for name in setuptools_table["package-data"]]
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_the_installed_package_is_imported_beside_a_folder_of_its_name(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "ncubble" / "ncubble").mkdir(parents=True)
    show = "import ncubble, ncubble.kernels; print(ncubble.__file__, ncubble.kernels.__file__)"
    done = subprocess.run([sys.executable, "-c", show], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    package = repository / "ncubble"
    assert done.stdout.split() == [str(package / "__init__.py"), str(package / "kernels" / "__init__.py")], done.stderr
    assert not (repository / "__init__.py").exists()


# What conda has and PyPI has not, or has under another name; the compiler is compared by its own
# test.
CONDA_ONLY = {"python", "pip", "cuda-version", "cuda-nvcc", "cuda-cuobjdump", "cuda-nvdisasm", "nsight-compute"}


def pins(lines: list[str]) -> dict[str, SpecifierSet]:
    """``name >=1,<2`` (conda) or ``name>=1,<2`` (pip) as name → versions. A name that stands twice
    is an error."""
    found: dict[str, SpecifierSet] = {}
    for line in lines:
        match = re.fullmatch(r"([A-Za-z0-9._-]+?)(?:\[[a-z0-9,]+\])?\s*((?:[<>=!~]|\d).*)?", line.strip())
        assert match, line
        name, versions = canonicalize_name(match[1]), match[2] or ""
        assert name not in found, f"{name} stands twice"
        found[name] = SpecifierSet(f"=={versions}" if versions[:1].isdigit() else versions)
    return found


def asked_for(project: dict[str, Any]) -> dict[str, SpecifierSet]:
    """What runs, with all that a GPU machine and a cluster need."""
    extras = project["optional-dependencies"]
    return pins(project["dependencies"] + extras["gpu"] + extras["cluster"])


@pytest.fixture(scope="module")
def project(repository: Path) -> dict[str, Any]:
    return tomllib.loads((repository / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def conda(repository: Path) -> list[Any]:
    return yaml.safe_load((repository / "environment.yml").read_text())["dependencies"]


@pytest.fixture(scope="module")
def environment(conda: list[Any]) -> dict[str, SpecifierSet]:
    pip = next(item["pip"] for item in conda if isinstance(item, dict))
    return pins([item for item in conda if isinstance(item, str)] + [item for item in pip if not item.startswith("-")])


def test_requirements_have_the_same_versions(project: dict[str, Any], environment: dict[str, SpecifierSet]) -> None:
    wanted = asked_for(project)
    assert {name: environment.get(name) for name in wanted} == wanted


def test_nothing_else_is_installed(project: dict[str, Any], environment: dict[str, SpecifierSet]) -> None:
    wanted = asked_for(project)
    assert set(environment) - set(wanted) == CONDA_ONLY


def test_the_page_on_installation_names_every_extra(project: dict[str, Any], repository: Path) -> None:
    named = re.findall(r"^\| `(\w+)` \|", (repository / "docs" / "install.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(set(project["optional-dependencies"]) - {"dev", "docs"})


def test_python_and_compiler_have_the_same_versions(
    project: dict[str, Any], environment: dict[str, SpecifierSet]
) -> None:
    nvcc = pins(project["optional-dependencies"]["nvcc"])
    assert environment["python"] == SpecifierSet(project["requires-python"])
    assert environment["cuda-nvcc"] == nvcc["nvidia-cuda-nvcc"] == environment["cuda-version"]


def test_the_package_itself_is_installed_last(conda: list[Any]) -> None:
    assert conda[-1]["pip"][-1] == "-e ."


def test_numpy_stays_below_what_numba_cuda_cannot_import(project: dict[str, Any]) -> None:
    # numba-cuda 0.30 uses numpy.row_stack, which numpy 2.5 removed.
    numpy = next(item for item in map(Requirement, project["dependencies"]) if item.name == "numpy")
    assert not numpy.specifier.contains("2.5.0")


def test_a_pin_that_differs_is_seen() -> None:
    assert pins(["numpy >=2.1,<2.5"]) == pins(["numpy>=2.1,<2.5"])
    assert pins(["numpy >=2.1,<2.5"]) != pins(["numpy >=2.1,<2.6"])
    assert pins(["cuda-nvcc 13.0.*"]) == pins(["cuda-nvcc==13.0.*"])
