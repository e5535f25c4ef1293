"""The regressions of ``regressions/*.toml``: a mistake each, what it should cost, and how it gets into a package tree
in which only the kernels differ.

A file holds the mistake as edits, text for text, so that no tool is needed to apply it and a source
that changed meanwhile is told by name. Its members:

- ``kernel``, ``parameters``, ``shape``: what is profiled. They name the kernel before and after, as
  in a merge request.
- ``broken``: what was done, as its author would say it.
- ``parts``: the parts of the account of which one must grow most; ``where``: lines (file and a text
  on the line) at which, or within ``NEAR`` lines of which, the growth should show. Both were
  written before anything was measured.
- ``edits``: in which file of ``kernels/`` which text, found there exactly once, becomes which
  other.
"""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ncubble
from ncubble.errors import UsageError

FOLDER = Path(__file__).resolve().parent
INSTALLED = Path(ncubble.__file__).resolve().parent
KERNELS = (INSTALLED / "kernels").resolve()
NEAR = 3
"""Lines between a wait and the line it belongs to: samples fall on what could not be issued, which
stands behind."""


@dataclass(frozen=True)
class Edit:
    """``old`` becomes ``new`` in ``file`` (relative to ``kernels/``), where it stands exactly
    once."""

    file: str
    old: str
    new: str

    def apply(self, text: str, name: str) -> str:
        """The changed text; raises UsageError, naming the regression, unless ``old`` stands there
        once."""
        found = text.count(self.old)
        if found != 1:
            first = self.old.strip().splitlines()[0]
            message = f"{name}: kernels/{self.file} holds {found} times, not once, the text that begins with {first!r}"
            raise UsageError(message, f"the source has changed: mend benchmarks/regressions/{name}.toml")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Place:
    """Lines of a source file that hold ``text``."""

    file: str
    text: str

    def lines(self, source: str) -> list[int]:
        """Their numbers in ``source``, from 1."""
        return [number for number, line in enumerate(source.splitlines(), 1) if self.text in line]


@dataclass(frozen=True)
class Regression:
    """One mistake; see the top of this file."""

    name: str
    kernel: str
    parameters: Mapping[str, Any]
    shape: Mapping[str, int]
    broken: str
    parts: tuple[str, ...]
    where: tuple[Place, ...]
    edits: tuple[Edit, ...]

    @property
    def arguments(self) -> list[str]:
        """Name, parameters and shape as every kernel command takes them."""
        given = [text for key, value in self.parameters.items() for text in ("-p", f"{key}={value}")]
        sizes = [text for key, value in self.shape.items() for text in ("-p", f"{key}={value}")]
        return [self.kernel, *given, *sizes]

    @property
    def case(self) -> str:
        """Folder name of kernel, parameters and shape: regressions of one case share its unchanged
        runs."""
        settings = [f"{key}{value}" for key, value in (*self.parameters.items(), *self.shape.items())]
        return "-".join([self.kernel, *settings])


def load(path: Path) -> Regression:
    """One file; raises UsageError naming it where a member is missing or unknown."""
    with path.open("rb") as file:
        told = tomllib.load(file)
    try:
        return Regression(
            name=path.stem,
            parameters=told.pop("parameters", {}),
            shape=told.pop("shape", {}),
            parts=tuple(told.pop("parts")),
            where=tuple(Place(**item) for item in told.pop("where")),
            edits=tuple(Edit(**item) for item in told.pop("edits")),
            **told,
        )
    except (KeyError, TypeError) as error:
        raise UsageError(f"{path}: {error}", "see benchmarks/regressions/plan.py for its members") from error


def regressions(only: str = "", folder: Path = FOLDER) -> list[Regression]:
    """Those whose name matches ``only`` (searched), grouped by case; raises UsageError if none
    does."""
    found = [one for one in map(load, sorted(folder.glob("*.toml"))) if re.search(only, one.name)]
    if not found:
        raise UsageError(f"no regression matches {only!r}", f"they are the files of {folder}")
    return sorted(found, key=lambda one: (one.case, one.name))


def changed(edits: Sequence[Edit], name: str, kernels: Path) -> dict[str, str]:
    """New texts of the files that ``edits`` change, by path below ``kernels``; raises UsageError
    where one does not apply."""
    texts: dict[str, str] = {}
    for edit in edits:
        text = texts.get(edit.file) or (kernels / edit.file).read_text(encoding="utf-8")
        texts[edit.file] = edit.apply(text, name)
    return texts


def make_tree(folder: Path, regression: Regression | None) -> Path:
    """Writes the tree of ``regression`` (None: the unchanged one) anew at ``folder``, which it returns. ``ncubble``
    is laid out there as it is installed, its kernels a copy with the edits applied, every other room a link to the
    one that runs now: names, parameters and shapes of the kernels, and thus their keys, stay what they are."""
    texts = changed(regression.edits, regression.name, KERNELS) if regression else {}
    shutil.rmtree(folder, ignore_errors=True)
    package = folder / "ncubble"
    shutil.copytree(KERNELS, package / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    for entry in INSTALLED.iterdir():
        if entry.is_file():
            shutil.copy2(entry, package)
        elif entry.name not in ("kernels", "__pycache__"):
            (package / entry.name).symlink_to(entry.resolve(), target_is_directory=True)
    for file, text in texts.items():
        (package / "kernels" / file).write_text(text, encoding="utf-8")
    return folder


def environment(tree: Path) -> dict[str, str]:
    """The environment of a process that is to import ncubble from ``tree``."""
    before = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree.resolve()), *([before] if before else [])])}
