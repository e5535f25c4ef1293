"""Folders that a stranger can survey, and names that mean one thing."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from pathlib import Path

MODULES = 16
SIBLINGS = 3

# One module per command, and kernels by the names of their CUDA sources.
EXEMPT = ("cli/commands", "kernels/catalog", "kernels/catalog/numba")


def modules_by_folder(repository: Path, files: list[Path]) -> dict[str, list[str]]:
    """Names of the modules of each folder, relative to the repository; ``__init__`` is none."""
    folders = defaultdict(list)
    for path in files:
        if path.suffix == ".py" and path.stem != "__init__":
            folders[path.parent.relative_to(repository).as_posix()].append(path.stem)
    return folders


def common_prefixes(modules: list[str]) -> list[str]:
    """Texts before the first underscore that at least three modules share."""
    counts = Counter(prefix for name in modules if (prefix := name.split("_")[0]))
    return sorted(prefix for prefix, count in counts.items() if count >= SIBLINGS)


def class_homes(repository: Path, files: list[Path]) -> dict[str, list[str]]:
    """The files that define each class name."""
    homes = defaultdict(list)
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(path.relative_to(repository).as_posix())
    return homes


def test_no_folder_is_crowded(repository: Path, sources: list[Path]) -> None:
    files = [*sources, *(repository / "benchmarks").rglob("*.py")]
    folders = modules_by_folder(repository, files).items()
    crowded = {folder for folder, names in folders if len(names) > MODULES or common_prefixes(names)}
    assert crowded <= set(EXEMPT), "a folder holds at most 16 modules; three with one prefix are a folder"


def test_class_names_are_unique(repository: Path, sources: list[Path]) -> None:
    shared = {name: files for name, files in class_homes(repository, sources).items() if len(files) > 1}
    assert shared == {}


def test_a_common_prefix_is_recognized() -> None:
    assert common_prefixes(["gate", "gate_rules", "gate_proof", "page", "page_size"]) == ["gate"]
    assert common_prefixes(["__main__", "_a", "_b", "_c", "gates", "gate_rules", "gate_proof"]) == []
