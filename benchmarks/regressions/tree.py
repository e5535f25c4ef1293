"""A package tree in which only the kernels differ, for a process that is to run them by the
ordinary commands.

``TREE/ncubble`` is laid out as it is installed. ``kernels`` is a copy with the edits applied; every
other room is a link to the one that runs now. A process finds it through ``PYTHONPATH``, so that
names, parameters and shapes of the kernels, and thus their keys, stay what they are.
"""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import ncubble
from benchmarks.harness.command import NCUBBLE
from benchmarks.regressions.plan import Edit, Regression

ROOMS = ("analysis", "cli", "dashboard", "profiling", "recordings")
CACHES = shutil.ignore_patterns("__pycache__", "*.pyc")


def room(name: str) -> Path:
    """The folder that ``ncubble.NAME`` is imported from."""
    return Path(next(iter(importlib.import_module(f"ncubble.{name}").__path__))).resolve()


def changed(edits: Sequence[Edit], name: str, kernels: Path) -> dict[str, str]:
    """New texts of the files that ``edits`` change, by path below ``kernels``; raises UsageError
    where one does not apply."""
    texts: dict[str, str] = {}
    for edit in edits:
        text = texts.get(edit.file) or (kernels / edit.file).read_text(encoding="utf-8")
        texts[edit.file] = edit.apply(text, name)
    return texts


def make_tree(folder: Path, regression: Regression | None) -> Path:
    """Writes the tree of ``regression`` (None: the unchanged one) anew at ``folder``, which it
    returns."""
    kernels = room("kernels")
    texts = changed(regression.edits, regression.name, kernels) if regression else {}
    shutil.rmtree(folder, ignore_errors=True)
    package = folder / "ncubble"
    shutil.copytree(
        Path(ncubble.__file__).resolve().parent,
        package,
        ignore=shutil.ignore_patterns("__pycache__", *ROOMS, "kernels"),
    )
    shutil.copytree(kernels, package / "kernels", ignore=CACHES)
    for name in ROOMS:
        (package / name).symlink_to(room(name), target_is_directory=True)
    for file, text in texts.items():
        (package / "kernels" / file).write_text(text, encoding="utf-8")
    return folder


def environment(tree: Path) -> dict[str, str]:
    """The environment of a process that is to import ncubble from ``tree``."""
    before = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree.resolve()), *([before] if before else [])])}


def command(*arguments: str) -> list[str]:
    """The argv of the command line ``ncubble ARGUMENTS`` by this interpreter, wherever ncubble is
    imported from."""
    return [*NCUBBLE, *arguments]
