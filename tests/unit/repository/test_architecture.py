"""The guide and the reference name files that exist."""

from __future__ import annotations

import re
from pathlib import Path

NAMED = re.compile(r"`([\w./-]+\.(?:py|toml|cuh|cu|cpp|js|md))`|\]\(([^)#:\s]+)")
FOLDER = re.compile(r"`((?:ncubble|kernels|profiling|analysis|dashboard|cli|tests|benchmarks|docs)/[\w/]*[\w/])`")
PLACEHOLDER = re.compile(r"[A-Z]{3,}")


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


def test_every_file_that_the_guides_name_exists(repository: Path, tracked: list[Path]) -> None:
    files = {str(path.relative_to(repository)) for path in tracked}
    lost = {path.name: missing(path.read_text(), path.parent, files, repository) for path in guides(repository)}
    assert {name: names for name, names in lost.items() if names} == {}


def test_a_file_that_is_not_there_is_missed(repository: Path, tmp_path: Path) -> None:
    text = "`analysis/no_such.py`, `NAME.toml`, [x](gone.md), `account.py`, `analysis/no_such_room`"
    files = {"analysis/account/account.py"}
    assert missing(text, tmp_path, files, repository) == ["analysis/no_such.py", "gone.md", "analysis/no_such_room"]
