"""Every room is linked into the package, and every folder with code is a package of its own: a
forgotten one works in the checkout and is missing in the wheel."""

from __future__ import annotations

import tomllib
from pathlib import Path

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
