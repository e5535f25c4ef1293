"""What a path holds that is no report, and the command that reads it: the fix of errors about
paths."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

from ncubble.errors import UsageError

SUFFIXES = (".ncu-rep", ".ncu-repz")
REPORTS = f"reports end in {SUFFIXES[0]}, or {SUFFIXES[1]} if compressed with zstd"
SYSTEMS = (".nsys-rep", ".qdrep", ".qdstrm")
"""Reports of Nsight Systems."""
OF_SYSTEMS = (
    "of Nsight Systems, without counters of kernels: profile the program with `ncubble profile -- CMD`, or record "
    "its streams with `ncubble streams -- CMD`"
)
MOST_NAMES = 10_000
"""Entries of a folder among which a misspelt name is searched."""


def missing(path: Path) -> UsageError:
    """The error for a path that does not exist, with the nearest one that does."""
    near = _nearest(path)
    return UsageError(f"{path}: no such file or directory", f"did you mean {near}?" if near else "check the path")


def require_paths(paths: Iterable[Path]) -> None:
    """Raise the error of ``missing`` for the first path that does not exist."""
    for path in paths:
        if not os.path.lexists(path):
            raise missing(path)


def without_report(paths: Iterable[Path]) -> UsageError:
    """The error for paths below which there is no report."""
    given = list(paths)
    held = next(filter(None, map(holding, chain(given, _folders(given)))), "")
    return UsageError(f"no report below {', '.join(map(str, given))}", held or REPORTS)


def _folders(paths: Iterable[Path]) -> Iterator[Path]:
    """The folders one level below."""
    for path in paths:
        with suppress(OSError):
            yield from filter(Path.is_dir, (path / name for name in sorted(_names(path))))


def holding(path: Path) -> str:
    """What ``path`` holds, with the command that reads it; empty where that is not known."""
    with suppress(OSError):
        return next(_kinds(path), "") if path.is_dir() else _of_file(path)
    return ""


def _of_file(path: Path) -> str:
    if path.suffix in SYSTEMS:
        return f"it is a report {OF_SYSTEMS}"
    if path.suffix in SUFFIXES:
        return f"it is a report: ncubble report {path}"
    held = holding(path.parent) if path.is_file() and path.parent != path else ""
    return f"name its folder; {held}" if held and path.name in _FILES else ""


_FILES = ("run.json", "notes.json", "program.json", "activity.parquet", "lanes.parquet", "ablation.json")


def _kinds(folder: Path) -> Iterator[str]:
    if any((folder / f"report{suffix}").is_file() for suffix in SUFFIXES):
        yield f"it holds a report: ncubble report {folder}"
    for file, what, command in (
        ("program.json", "a recorded program", "program"),
        ("activity.parquet", "a recording of streams", "streams"),
        ("lanes.parquet", "a trace of warps", "trace"),
        ("ablation.json", "an ablation in time, without counters", "ablate"),
    ):
        if (folder / file).is_file():
            yield f"it holds {what}: ncubble {command} {folder}"
    if (folder / "parts").is_dir() and (folder / "log").is_dir():
        yield f"it holds a dataset: ncubble query {folder}"
    names = _names(folder)
    if any(name.startswith(("check-", "pack1-")) and name.endswith(".parquet") for name in names):
        yield f"it holds a history of checks: ncubble trend {folder}"
    if any(name.endswith(SYSTEMS) for name in names):
        yield f"it holds reports {OF_SYSTEMS}"


def _names(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in islice(entries, MOST_NAMES)]


def _nearest(path: Path) -> Path | None:
    """An existing path that differs in one name; that a link leads nowhere is no such case."""
    for folder in path.parents:
        if folder.is_dir():
            name, *rest = path.relative_to(folder).parts
            with suppress(OSError):
                for near in difflib.get_close_matches(name, _names(folder), 3, 0.7):
                    if near != name and (found := folder.joinpath(near, *rest)).exists():
                        return found
            return None
    return None
