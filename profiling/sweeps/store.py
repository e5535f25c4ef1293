"""Jobs of a sweep, and the store of what came of them: a folder of run directories, and a journal.

``DIR/LABEL-KEY/`` are runs, ``DIR/journal/KEY.json`` one small file per job. A run gets its name
before its journal entry: a kill between the two leaves a run whose name ends in the key, and it is
taken up when the store is opened again. Every file is written beside its place, synced, and
renamed. One process writes a store at a time.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling import staging
from ncubble.profiling.failures import DiskError
from ncubble.profiling.runs import MANIFEST, Members, Run
from ncubble.records import read_record, write_record
from ncubble.store import LockFile, close, is_open, make_private, sync
from ncubble.text.values import file_name

log = logging.getLogger(__name__)
JOURNAL, LOCK = "journal", ".lock"
SCHEMA = 1
DONE = ("ok", "incomplete")
KEY_DIGITS = 16
LONGEST_LABEL = 80
_MOST_ATTEMPTS = 20
"""Maximum attempts of a job that are kept; the latest are."""
State = Literal["ok", "incomplete", "failed", "unable"]
"""``ok`` and ``incomplete`` have a run (as ``Manifest.outcome``); ``failed``: this job cannot be
measured; ``unable``: this worker cannot measure anything."""


@dataclass(frozen=True)
class Machine:
    """A worker's machine, as far as it decides what a measurement stands for, and how to tell its
    GPU from others.

    ``tools`` are versions by name (``ncu``, ``nvcc``, ``numba``), empty where there is none.
    ``why_not`` says why nothing can be measured there; empty if it can. ``gpus`` are all that are
    visible there, the worker's own first.
    """

    device: str = ""
    uuid: str = ""
    capability: str = ""
    driver: str = ""
    host: str = ""
    tools: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()
    why_not: str = ""

    def kind(self, tools: Sequence[str]) -> tuple[str, ...]:
        """What two machines must share for their measurements to be one sweep: GPU model, and
        versions of ``tools``."""
        return (self.device, *(self.tools.get(name, "") for name in tools))


@dataclass(frozen=True)
class SweepJob:
    """``about`` says what is measured (kernel, parameters, shape, code, sets, …), JSON-ready; equal
    ``about`` on equal machines is equal work. ``order`` is what the worker's child needs to do it.
    ``point`` are the varied values."""

    about: Members
    order: Members
    point: Mapping[str, str]
    label: str

    def key(self, machine: Machine, tools: Sequence[str]) -> str:
        """The job's name in a store, for machines like this one."""
        text = json.dumps([self.about, machine.kind(tools)], sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]

    def folder(self, key: str) -> str:
        """The name of its run directory, which ends in ``key``."""
        return f"{file_name(self.label.replace('=', ''), LONGEST_LABEL).rstrip('-.') or 'job'}-{key}"


@dataclass(frozen=True)
class Attempt:
    """One try: what came of it, when (UTC), for how long, and where. ``exit_code`` is that of
    ``ncubble profile``."""

    state: State
    started: str = ""
    ended: str = ""
    seconds: float = 0.0
    host: str = ""
    gpu: str = ""
    error: str = ""
    remedy: str = ""
    exit_code: int = 0


@dataclass(frozen=True)
class Reply:
    """What a worker sends back: ``files`` are those of the run directory, by name; empty without a
    run."""

    attempt: Attempt
    machine: Machine
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """What the journal knows of a job. ``state`` is ``ok``, ``incomplete`` or ``failed``; ``run``
    names its directory; ``about`` and ``machine`` are what its key was made of."""

    key: str
    state: State
    run: str | None
    about: Members
    machine: Members
    attempts: tuple[Attempt, ...]

    @property
    def error(self) -> str:
        """Why the last attempt failed; empty if it did not."""
        return self.attempts[-1].error if self.attempts else ""


class Store:
    """An open store, which no other process writes meanwhile."""

    def __init__(self, folder: Path) -> None:
        """Makes the folder where it is missing, closed to other users; says so where it is open.

        Raises UsageError, DiskError, and MeasurementError where another sweep has it."""
        self.folder, self.journal = folder, folder / JOURNAL
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is not a folder", "choose another --out")
        if (folder / MANIFEST).exists():
            raise UsageError(f"{folder} is a run directory, not a store of runs", "choose another --out")
        try:
            make_private(self.journal)
        except OSError as error:
            raise DiskError(str(folder), error.strerror or str(error)) from error
        self._lock = LockFile(self.journal / LOCK)
        try:
            free = self._lock.acquire()
        except MeasurementError:  # a file system without locks
            free = True
        if not free:
            with self._lock:
                message = f"{folder}: another sweep writes there, {self._lock.holder()}"
                raise MeasurementError(message, "wait until it ends, or choose another --out")
        staging.tidy(folder)
        if is_open(folder):
            log.warning("%s is readable by other users; to hide its runs: chmod 700 %s", folder, folder)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.__exit__(None, None, None)

    def find(self, key: str, folder: str) -> Record | None:
        """What is known of a job, by its key and the name of its run directory; None where nothing
        is.

        A record whose run was deleted counts for nothing; a run without a record, left by a kill
        between the two, gets one. Raises ReportError for a damaged record.
        """
        record = self._recorded(key)
        if record is not None and (record.state not in DONE or (self.folder / (record.run or "")).is_dir()):
            return record
        if not (self.folder / folder).is_dir():
            return None
        manifest = Run.load(self.folder / folder).manifest
        attempt = Attempt("incomplete" if manifest.outcome == "incomplete" else "ok", manifest.started, manifest.ended)
        about = {name: manifest.kernel.get(name) for name in ("name", "parameters", "shape")}
        record = Record(key, attempt.state, folder, about, dict(manifest.device), (attempt,))
        self.save(record)
        return record

    def _recorded(self, key: str) -> Record | None:
        path = self.journal / f"{key}.json"
        remedy = f"delete {path}; its job is then measured again"
        return read_record(path, Record, SCHEMA, "a journal entry", remedy)

    def plan(
        self, jobs: Iterable[SweepJob], machine: Machine, tools: Sequence[str], retry_failed: bool = False
    ) -> tuple[dict[str, SweepJob], dict[str, Record]]:
        """What is left to do on machines like this one, in the order of ``jobs``, and the records
        of what is settled, both by key. Raises ReportError."""
        keys = {job.key(machine, tools): job for job in jobs}
        known = {key: record for key, job in keys.items() if (record := self.find(key, job.folder(key)))}
        settled = DONE if retry_failed else (*DONE, "failed")
        held = {key: record for key, record in known.items() if record.state in settled}
        return {key: job for key, job in keys.items() if key not in held}, held

    def save(self, record: Record) -> None:
        """Write a record, in place of an older one; raises DiskError."""
        target = self.journal / f"{record.key}.json"
        try:
            write_record(target, record, SCHEMA)
        except OSError as error:
            raise DiskError(str(target), error.strerror or str(error)) from error

    def settle(self, key: str, job: SweepJob, reply: Reply) -> Record:
        """Write down what came of a job, its run directory first, whole or not at all; raises
        UsageError and DiskError."""
        run, before = job.folder(key) if reply.files else None, self._recorded(key)
        if run is not None:
            with staging.staged(self.folder / run, force=True) as place:
                for name, data in reply.files.items():
                    (place / name).write_bytes(data)
                    sync(place / name)
                close(place)
        attempts = (*(before.attempts if before else ()), reply.attempt)[-_MOST_ATTEMPTS:]
        record = Record(key, reply.attempt.state, run, job.about, msgspec.to_builtins(reply.machine), attempts)
        self.save(record)
        return record
