"""One ``Run``: a report file and the manifest that says how it came to be.

A run is a directory with ``report.ncu-rep`` (or ``.ncu-repz``) and ``run.json``. Recording writes
it, viewing reads it, and they meet nowhere else. A bare report file is a ``Run`` with an empty
manifest.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ncubble.errors import ReportError, UsageError
from ncubble.profiling.processes.scratch import cut_off
from ncubble.profiling.runs.contents import REPORTS, SUFFIXES, holding, missing
from ncubble.store import sync

log = logging.getLogger(__name__)
MANIFEST = "run.json"
SCHEMA = 1
LARGEST_MANIFEST_B = 64 << 20
MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""Converters from each older schema to the next: raising the schema requires an entry here."""
UNFINISHED = ".ncubble-"
"""Prefix of the folders, next to the target, in which runs are written first."""


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
    git: dict[str, Any] = field(default_factory=dict)
    kernel: dict[str, Any] = field(default_factory=dict)
    build: dict[str, Any] = field(default_factory=dict)
    device: dict[str, Any] = field(default_factory=dict)
    clocks: dict[str, Any] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    launches: list[dict[str, Any]] = field(default_factory=list)
    rank: dict[str, Any] = field(default_factory=dict)

    def kernel_of(self, launch: int) -> dict[str, Any]:
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
            raise ReportError(
                f"{origin}: not valid JSON ({error})", "restore the file, or open the report file itself"
            ) from error
        if not isinstance(raw, dict) or type(raw.get("schema")) is not int:
            raise ReportError(f"{origin}: not a run manifest (no integer 'schema')", "open the report file itself")
        raw = _migrated(raw, origin)
        defaults = cls()
        for item in fields(cls):
            if item.name in raw and type(raw[item.name]) is not type(getattr(defaults, item.name)):
                raise ReportError(f"{origin}: field {item.name!r} has the wrong type", "open the report file itself")
        for kernel in (raw.get("kernel", {}), *raw.get("launches", [])):
            if wrong := wrong_kernel(kernel):
                raise ReportError(f"{origin}: kernel {wrong} has the wrong type", "open the report file itself")
        return cls(**{item.name: raw[item.name] for item in fields(cls) if item.name in raw})

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

    def _label(self, kernel: dict[str, Any]) -> str:
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


def _migrated(raw: dict[str, Any], origin: Path) -> dict[str, Any]:
    """A manifest of an older schema as one of today's; raises ReportError for newer and unknown
    ones."""
    if raw["schema"] > SCHEMA:
        raise ReportError(f"{origin}: schema {raw['schema']} is newer than {SCHEMA}", "upgrade ncubble")
    while raw["schema"] < SCHEMA:
        if raw["schema"] not in MIGRATIONS:
            raise ReportError(f"{origin}: unknown schema {raw['schema']}", "open the report file itself")
        raw = {**MIGRATIONS[raw["schema"]](raw), "schema": raw["schema"] + 1}
    return raw


def wrong_kernel(kernel: object) -> str:
    """The first member of a manifest's ``kernel`` that is not what its readers rely on; "" if all
    are."""
    if not isinstance(kernel, dict):
        return "itself"
    kinds = {"name": str, "function": str, "parameters": dict, "shape": dict, "stages": int}
    return next((key for key, kind in kinds.items() if not isinstance(kernel.get(key), kind | None)), "")


def read_manifest(path: Path) -> Manifest:
    """The manifest at ``path``, an empty one where there is none; raises ReportError."""
    if not os.path.lexists(path):
        return Manifest()
    remedy = "restore the file, or open the report file itself"
    if not path.is_file() or path.stat().st_size > LARGEST_MANIFEST_B:
        raise ReportError(f"{path}: not a file of at most {LARGEST_MANIFEST_B >> 20} MiB", remedy)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f"{path}: unreadable ({error})", remedy) from error
    return Manifest.from_json(text, path)


def find_runs(paths: Iterable[Path]) -> Iterator[Path]:
    """Every run directory and bare report below ``paths``, in a stable order, each once.

    A named file is passed on as it is, so that a wrong one is reported and not skipped, and so is a
    folder that cannot be listed. Links to directories are not followed: a tree of reports never
    leads out of itself. A profiling that was cut off is named in the log.
    """
    seen: set[Path] = set()
    for path in paths:
        for run in _walk(path) if _is_folder(path) else [path]:
            if run not in seen:
                seen.add(run)
                yield run


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False  # Run.load says why


def _walk(root: Path) -> Iterator[Path]:
    unlisted: list[Path] = []
    for folder, subfolders, files in os.walk(
        root, followlinks=False, onerror=lambda error: unlisted.append(Path(error.filename))
    ):
        here = Path(folder)
        for name in subfolders:
            if name.startswith(UNFINISHED):
                _name_unfinished(here / name)
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        reports = sorted(name for name in files if Path(name).suffix in SUFFIXES)
        if any(Path(name).stem == "report" for name in reports):
            yield here
            reports = [name for name in reports if Path(name).stem != "report"]
        yield from (here / name for name in reports)
    yield from unlisted


def _name_unfinished(folder: Path) -> None:
    for name in cut_off(folder):
        log.warning(
            "profiling into %s was interrupted and left no run (the next `ncubble profile` there removes %s)",
            folder.parent / name,
            folder,
        )
