"""Every folder with code is a declared package: a forgotten one works in the checkout and is
missing in the wheel."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def setuptools_table(repository: Path) -> dict[str, Any]:
    return tomllib.loads((repository / "pyproject.toml").read_text())["tool"]["setuptools"]


def folder_of(package: str, package_dir: dict[str, str]) -> str:
    """The folder of a dotted package, as setuptools maps it: by its longest mapped prefix."""
    parts, tail = package.split("."), []
    while ".".join(parts) not in package_dir:
        tail.insert(0, parts.pop())
    return "/".join([package_dir[".".join(parts)], *tail])


def test_every_folder_with_code_is_a_declared_package(
    repository: Path, rooms: tuple[str, ...], sources: list[Path], setuptools_table: dict[str, Any]
) -> None:
    declared = {folder_of(name, setuptools_table["package-dir"]) for name in setuptools_table["packages"]}
    assert declared == {str(path.parent.relative_to(repository)) for path in sources}
    assert {folder.split("/")[0] for folder in declared} == set(rooms)


def test_package_data_names_declared_packages_only(setuptools_table: dict[str, Any]) -> None:
    assert set(setuptools_table["package-data"]) <= set(setuptools_table["packages"])


def test_folders_are_found_by_their_longest_prefix() -> None:
    mapping = {"ncubble": "ncubble", "ncubble.kernels": "kernels"}
    assert folder_of("ncubble.kernels.cuda", mapping) == "kernels/cuda"
    assert folder_of("ncubble", mapping) == "ncubble"
