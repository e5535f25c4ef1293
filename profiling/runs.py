"""What lies on disk: runs, each a report with the manifest that says how it came to be, and what
a path holds that is no report.

A run is a directory with ``report.ncu-rep`` (or ``.ncu-repz``) and ``run.json``. Recording writes
it, viewing reads it, and they meet nowhere else. A bare report file is a ``Run`` with an empty
manifest.
"""

from __future__ import annotations

import difflib
import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypedDict

from ncubble.errors import ReportError, UsageError
from ncubble.profiling.scratch import cut_off
from ncubble.records import WrongFieldError, typed
from ncubble.store import sync

log = logging.getLogger(__name__)
MANIFEST = "run.json"
SCHEMA = 1
LARGEST_MANIFEST_B = 64 << 20
RESTORE = "restore the file, or open the report file itself"
UNFINISHED = ".ncubble-"
"""Prefix of the folders, next to the target, in which runs are written first."""


Members = dict[str, Any]
"""A JSON object whose members its writer chose: the program, the driver, or a recorder."""


class KernelMembers(TypedDict, total=False):
    """What readers of a manifest's ``kernel`` rely on; it may hold more."""

    name: str | None
    function: str | None
    parameters: Members | None
    shape: Members | None
    stages: int | None


@dataclass(frozen=True)
class Manifest:
    """How a report was made. Every field may be empty: a bare report knows nothing of this.

    ``outcome`` is ``ok``, or ``incomplete`` where a metric came back n/a that the account needs.
    ``kernel`` holds name, function (demangled base name that launches are matched by), parameters,
    shape, stages, flops and bytes per launch; ``build`` the compiler, flags, registers,
    smem_static_B and spill_B; ``device`` name, compute_capability and driver; ``clocks`` what the
    driver said beside the run, in MHz; ``report`` file, bytes, sha256, raw_bytes (uncompressed) and
    launches (kernel and replay passes of each). ``launches`` holds what ``kernel`` does for every
    launch of the report, in order, where the program launched different ones; else it is empty.
    ``rank`` says which of several processes of one program this is (``profiling.ranks``); it is
    empty for a single one.
    """

    schema: int = SCHEMA
    outcome: str = ""
    started: str = ""
    ended: str = ""
    argv: list[str] = field(default_factory=list)
    ncu_argv: list[str] = field(default_factory=list)
    ncu_version: str = ""
    metric_set: list[str] = field(default_factory=list)
    git: Members = field(default_factory=dict)
    kernel: Members = field(default_factory=dict)
    build: Members = field(default_factory=dict)
    device: Members = field(default_factory=dict)
    clocks: Members = field(default_factory=dict)
    report: Members = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    launches: list[Members] = field(default_factory=list)
    rank: Members = field(default_factory=dict)

    def kernel_of(self, launch: int) -> Members:
        """What is known of the kernel of one launch, by its number in the report: its own facts,
        else the run's."""
        return self.launches[launch] if 0 <= launch < len(self.launches) else self.kernel

    @classmethod
    def from_json(cls, text: str, origin: Path) -> Manifest:
        """Parse ``run.json``; raises ReportError naming ``origin`` for anything that is not a
        manifest we can read."""
        try:
            raw = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ReportError(f"{origin}: not valid JSON ({error})", RESTORE) from error
        schema = raw.get("schema") if isinstance(raw, dict) else None
        if type(schema) is not int or schema != SCHEMA:
            raise ReportError(f"{origin}: not a run manifest of schema {SCHEMA}, but {schema!r}", "upgrade ncubble")
        try:
            manifest = typed(raw, cls)
            for kernel in (manifest.kernel, *manifest.launches):
                typed(kernel, KernelMembers, "kernel")
        except WrongFieldError as error:
            raise ReportError(f"{origin}: {error}", RESTORE) from error
        return manifest

    def to_json(self) -> str:
        """The manifest as text, in the order of its fields, so that two of them diff well."""
        return json.dumps(asdict(self), indent=1) + "\n"

    def save(self, folder: Path) -> None:
        """Write ``run.json`` into ``folder`` and wait until it is on disk; raises OSError."""
        (folder / MANIFEST).write_text(self.to_json(), encoding="utf-8")
        sync(folder / MANIFEST)


@dataclass(frozen=True)
class Run:
    """A report file with its manifest. ``path`` is what the user named: the run directory or the
    bare file."""

    path: Path
    report: Path
    manifest: Manifest = field(default_factory=Manifest)

    @property
    def label(self) -> str:
        """Short human name: kernel and parameters, or the file's name where the manifest says
        nothing."""
        return self._label(self.manifest.kernel)

    def label_of(self, launch: int) -> str:
        """The same for one launch, by its number in the report."""
        return self._label(self.manifest.kernel_of(launch))

    def _label(self, kernel: Members) -> str:
        if not kernel.get("name"):
            return self.path.stem if self.path == self.report else self.path.name
        parameters = kernel.get("parameters") or {}
        return " ".join([str(kernel["name"]), *(f"{key}={value}" for key, value in parameters.items())])

    @classmethod
    def load(cls, path: Path) -> Run:
        """The run at ``path`` (run directory or report file); raises ReportError or UsageError with
        the remedy."""
        try:
            return cls._load(path)
        except OSError as error:  # no permission on the way to it, a name that is too long, …
            raise ReportError(
                f"{path}: cannot be read ({error.strerror or error})", "check the path and its permissions"
            ) from error

    @classmethod
    def _load(cls, path: Path) -> Run:
        if path.is_dir():
            reports = [path / f"report{suffix}" for suffix in SUFFIXES if (path / f"report{suffix}").is_file()]
            if not reports:
                os.listdir(path)  # raises the reason if it cannot be determined  # noqa: PTH208
                raise UsageError(
                    f"{path}: no report.ncu-rep in this directory",
                    holding(path) or "name a run directory or a report file",
                )
            return cls(path, reports[0], read_manifest(path / MANIFEST))
        if not path.exists():
            raise missing(path)
        if not path.is_file():
            raise ReportError(f"{path}: not a regular file", "name a .ncu-rep or .ncu-repz file, or a run directory")
        if path.suffix not in SUFFIXES:
            raise ReportError(f"{path}: not a report file name", holding(path) or REPORTS)
        beside = path.parent / MANIFEST
        return cls(path, path, read_manifest(beside) if path.stem == "report" else Manifest())


def read_manifest(path: Path) -> Manifest:
    """The manifest at ``path``, an empty one where there is none; raises ReportError."""
    if not os.path.lexists(path):
        return Manifest()
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_MANIFEST_B:
            raise ValueError(f"not a file of at most {LARGEST_MANIFEST_B >> 20} MiB")
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ReportError(
            f"{path}: unreadable ({error})", "restore the file, or open the report file itself"
        ) from error
    return Manifest.from_json(text, path)


def find_runs(paths: Iterable[Path], skipped: Callable[[ReportError], None] | None = None) -> Iterator[Path]:
    """Every run directory and bare report below ``paths``, in a stable order, each once.

    A named file is passed on as it is, so that a wrong one is reported and not skipped, and so is a
    folder that cannot be listed. What is not read (``walk``) is passed to ``skipped``, by default
    named in the log, as is a profiling that was cut off.
    """
    seen: set[Path] = set()
    for path in paths:
        for run in _runs_below(path, skipped or _name_skipped) if _is_folder(path) else [path]:
            if run not in seen:
                seen.add(run)
                yield run


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False  # Run.load says why


def _runs_below(root: Path, skipped: Callable[[ReportError], None]) -> Iterator[Path]:
    unlisted: list[Path] = []
    for here, names in walk(root, _REPORT_NAME, skipped, unlisted.append):
        own = [name for name in names if Path(name).stem == "report"]
        if own:
            yield here
        for name in own[1:]:
            skipped(ReportError(f"{here / name}: not read, because {own[0]} is beside it", "keep one of them"))
        yield from (here / name for name in names if name not in own)
    yield from unlisted


def walk(
    root: Path,
    wanted: re.Pattern[str],
    skipped: Callable[[ReportError], None],
    unlisted: Callable[[Path], object],
) -> Iterator[tuple[Path, list[str]]]:
    """Each folder at or below ``root`` with the sorted names of its files that match ``wanted``.

    A tree never leads out of itself: links to folders are not followed. These and hidden folders,
    if they hold such files, are passed to ``skipped`` as errors, and so are files that match only
    without regard to case. ``unlisted`` gets the folders that cannot be listed.
    """
    near = re.compile(wanted.pattern, re.IGNORECASE)
    real = os.path.realpath(root)
    for folder, subfolders, files in os.walk(root, onerror=lambda error: unlisted(Path(error.filename))):
        here = Path(folder)
        for name in sorted(subfolders):
            place, hidden = here / name, name.startswith(".")
            if name.startswith(UNFINISHED):
                _name_unfinished(place)
            elif (hidden or place.is_symlink()) and (holds := _may_hold(place, near, real)) is not False:
                what, remedy = ("hidden", "rename it") if hidden else ("a link", "name the folder that it leads to")
                if holds is None:
                    what, remedy = f"{what}, and too large to look through", "name the folder of the runs"
                skipped(ReportError(f"{place}: not read, because this folder is {what}", remedy))
        subfolders[:] = sorted(name for name in subfolders if not (name.startswith(".") or (here / name).is_symlink()))
        names = sorted(filter(near.fullmatch, files))
        for name in names:
            if not wanted.fullmatch(name):
                remedy = "give it the suffix in lower case"
                skipped(ReportError(f"{here / name}: not read, because of its name", remedy))
        yield here, list(filter(wanted.fullmatch, names))


def _may_hold(folder: Path, wanted: re.Pattern[str], read: str) -> bool | None:
    """Whether a file below ``folder`` matches ``wanted``, or may, as a folder cannot be listed;
    None where there are too many. What lies below the folder ``read`` is read there."""
    target = Path(os.path.realpath(folder))
    if folder.is_symlink() and target.is_relative_to(read):
        return False
    unlisted: list[OSError] = []
    for number, (_, _, files) in enumerate(os.walk(folder, onerror=unlisted.append)):
        if unlisted or any(map(wanted.fullmatch, files)):
            return True
        if number > MOST_NAMES:
            return None
    return bool(unlisted)


def _name_skipped(error: ReportError) -> None:
    if error.message not in _named:  # a dashboard looks again and again
        _named.add(error.message)
        log.warning("%s: %s", error.message, error.remedy)


_named: set[str] = set()


def _name_unfinished(folder: Path) -> None:
    for name in cut_off(folder):
        log.warning(
            "profiling into %s was interrupted and left no run (the next `ncubble profile` there removes %s)",
            folder.parent / name,
            folder,
        )


RECORDINGS = {
    "program.json": ("a recorded program", "program"),
    "activity.parquet": ("a recording of streams", "streams"),
    "lanes.parquet": ("a trace of warps", "trace"),
    "ablation.json": ("an ablation in time, without counters", "ablate"),
}
"""Files of run directories besides reports: what they hold, and the command that shows it."""
SUFFIXES = (".ncu-rep", ".ncu-repz")
CONTENT = (
    *(MANIFEST, *(f"report{suffix}" for suffix in SUFFIXES), *RECORDINGS),
    *("changes.json", "elites.json", "kernel.cubin", "warps"),
)
"""All that a run directory may hold, but for parts of it that are runs themselves."""
_REPORT_NAME = re.compile(r"(?s:.*)\.ncu-repz?")
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
    return f"name its folder; {held}" if held and path.name in CONTENT else ""


def _kinds(folder: Path) -> Iterator[str]:
    if any((folder / f"report{suffix}").is_file() for suffix in SUFFIXES):
        yield f"it holds a report: ncubble report {folder}"
    for file, (what, command) in RECORDINGS.items():
        if (folder / file).is_file():
            yield f"it holds {what}: ncubble {command} {folder}"
    if (folder / "dataset.json").is_file():
        yield f"it holds a dataset: ncubble query {folder}"
    names = _names(folder)
    if "history.jsonl" in names:
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
