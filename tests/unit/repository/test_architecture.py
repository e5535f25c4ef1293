"""The guide and the reference name files that exist, and the picture of rooms is the one of
today."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.helpers.markdown import formatted

NAMED = re.compile(r"`([\w./-]+\.(?:py|toml|cuh|cu|cpp|js|md))`|\]\(([^)#:\s]+)")
FOLDER = re.compile(r"`((?:ncubble|kernels|profiling|analysis|dashboard|cli|tests|benchmarks|docs)/[\w/]*[\w/])`")
PLACEHOLDER = re.compile(r"[A-Z]{3,}")


@pytest.fixture(scope="module")
def rooms(repository: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location("rooms", repository / "docs" / "rooms.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def guides(repository: Path) -> list[Path]:
    docs = repository / "docs"
    return [docs / "architecture.md", repository / "CONTRIBUTING.md", *sorted((docs / "reference").glob("*.md"))]


def missing(text: str, folder: Path, files: set[str], repository: Path) -> list[str]:
    """Files and folders that ``text`` names and the repository lacks. A short name may lie in any
    folder."""
    names = [code or link for code, link in NAMED.findall(text)]
    lost = [
        name
        for name in names
        if not PLACEHOLDER.search(name.removesuffix("README.md").removesuffix("CONTRIBUTING.md"))
        and not (folder / name).exists()
        and not any(path == name or path.endswith(f"/{name}") for path in files)
    ]
    return lost + [
        name for name in FOLDER.findall(text) if not PLACEHOLDER.search(name) and not (repository / name).exists()
    ]


def test_the_picture_of_rooms_is_current(repository: Path, rooms: ModuleType) -> None:
    text = (repository / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert formatted(rooms.replaced(text, rooms.block())) == text, "run: python docs/rooms.py --write"


def test_every_file_that_the_guides_name_exists(repository: Path, tracked: list[Path]) -> None:
    files = {str(path.relative_to(repository)) for path in tracked}
    lost = {path.name: missing(path.read_text(), path.parent, files, repository) for path in guides(repository)}
    assert {name: names for name, names in lost.items() if names} == {}


def test_the_guide_is_short(repository: Path) -> None:
    assert len((repository / "docs" / "architecture.md").read_text().splitlines()) <= 250


def test_a_file_that_is_not_there_is_missed(repository: Path, tmp_path: Path) -> None:
    text = "`analysis/no_such.py`, `NAME.toml`, [x](gone.md), `account.py`, `analysis/no_such_room`"
    files = {"analysis/account/account.py"}
    assert missing(text, tmp_path, files, repository) == ["analysis/no_such.py", "gone.md", "analysis/no_such_room"]


def test_a_sub_room_without_a_contract_is_named(rooms: ModuleType) -> None:
    imports = {"ncubble.analysis.report.frames": [], "ncubble.analysis.novel.thing": [], "ncubble.cli.main": []}
    order = {room: [["report"]] for room in rooms.ROOMS}
    assert rooms.unlisted(imports, order) == ["ncubble.analysis.novel"]


def test_the_picture_shows_siblings_that_are_imported(rooms: ModuleType) -> None:
    imports = {"ncubble.cli.main": ["ncubble.cli.commands.x", "ncubble.errors"], "ncubble.cli.commands.x": []}
    order = {room: [] for room in (*rooms.ROOMS, "ncubble")} | {"cli": [["main"], ["commands"]]}
    assert rooms.picture(imports, order).splitlines()[:3] == [
        "cli                   -> ncubble",
        "  2 main              -> commands",
        "  1 commands",
    ]
