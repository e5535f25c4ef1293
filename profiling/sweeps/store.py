"""The store of a sweep: a folder of run directories, and a journal that says of every job what came
of it.

``DIR/LABEL-KEY/`` are runs, ``DIR/journal/KEY.json`` one small file per job. A run gets its name
before its journal entry: a kill between the two leaves a run whose name ends in the key, and it is
taken up when the store is opened again. Every file is written beside its place, synced, and
renamed. What is being measured now is not written down: the process that has a job done holds a
lock on it, which the kernel ends with the process.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ncubble.errors import ReportError, UsageError
from ncubble.profiling import staging
from ncubble.profiling.failures import DiskError
from ncubble.profiling.runs import MANIFEST, Run
from ncubble.profiling.sweeps.job import Attempt
from ncubble.store import FILE, close, draft_of, is_open, make_private, open_lock_file, sync

log = logging.getLogger(__name__)
JOURNAL, CLAIMS = "journal", ".claims"
SCHEMA = 1
DONE = ("ok", "incomplete")
_LARGEST_B = 4 << 20
_MOST_ATTEMPTS = 20
"""Maximum attempts of a job that are kept; the latest are."""


@dataclass(frozen=True)
class Record:
    """What the journal knows of a job. ``state`` is ``ok``, ``incomplete``, ``failed`` or ``lost``
    (to be tried again); ``run`` names its directory, or is empty; ``about`` and ``machine`` are
    what its key was made of."""

    key: str
    state: str
    run: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()

    @property
    def error(self) -> str:
        """Why the last attempt failed; empty if it did not."""
        return self.attempts[-1].error if self.attempts else ""

    def to_json(self) -> str:
        """As it is stored."""
        content = {
            "schema": SCHEMA,
            "key": self.key,
            "state": self.state,
            "run": self.run or None,
            "about": dict(self.about),
            "machine": dict(self.machine),
            "attempts": [attempt.as_dict() for attempt in self.attempts[-_MOST_ATTEMPTS:]],
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, origin: Path) -> Record:
        """Raises ReportError for what is no record, or one that a newer version wrote."""
        remedy = f"delete {origin}; its job is then measured again"
        try:
            raw = json.loads(text)
            if raw["schema"] != SCHEMA:
                raise ReportError(f"{origin}: journal of schema {raw['schema']!r}, this is {SCHEMA}", "update ncubble")
            known = {raw_attempt.name for raw_attempt in fields(Attempt)}
            attempts = tuple(
                Attempt(**{name: value for name, value in raw_attempt.items() if name in known})
                for raw_attempt in raw["attempts"]
            )
            about, machine = dict(raw["about"]), dict(raw["machine"])
            return cls(str(raw["key"]), str(raw["state"]), str(raw["run"] or ""), about, machine, attempts)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ReportError(f"{origin}: not a journal entry ({type(error).__name__}: {error})", remedy) from error


class Store:
    """An open store. One process writes through one of these; several processes may have the same
    folder open."""

    def __init__(self, folder: Path) -> None:
        """Makes the folder where it is missing, closed to other users; says so where it is open.

        Raises UsageError and DiskError."""
        self.folder, self.journal = folder, folder / JOURNAL
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is not a folder", "choose another --out")
        if (folder / MANIFEST).exists():
            raise UsageError(f"{folder} is a run directory, not a store of runs", "choose another --out")
        try:
            make_private(self.journal)
            self._claims = open_lock_file(self.journal / CLAIMS, FILE)
        except OSError as error:
            raise DiskError(str(folder), error.strerror or str(error)) from error
        staging.tidy(folder)
        if is_open(folder):
            log.warning("%s is readable by other users; to hide its runs: chmod 700 %s", folder, folder)

    def close(self) -> None:
        """Lets go of all claims."""
        os.close(self._claims)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find(self, key: str, folder: str) -> Record | None:
        """What is known of a job, by its key and the name of its run directory; None where nothing
        is.

        A record whose run was deleted counts for nothing; a run without a record, left by a kill
        between the two, gets one. Raises ReportError for a damaged record.
        """
        record = self._read(key)
        if record is not None and (record.state not in DONE or (self.folder / record.run).is_dir()):
            return record
        return self._adopt(key, folder)

    def _read(self, key: str) -> Record | None:
        path = self.journal / f"{key}.json"
        try:
            with path.open("rb") as file:
                text = file.read(_LARGEST_B)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ReportError(f"{path}: unreadable ({error.strerror})", "fix its permissions") from error
        return Record.from_json(text.decode(errors="replace"), path)

    def _adopt(self, key: str, folder: str) -> Record | None:
        if not (self.folder / folder).is_dir():
            return None
        manifest = Run.load(self.folder / folder).manifest
        attempt = Attempt(manifest.outcome or "ok", manifest.started, manifest.ended)  # type: ignore[arg-type]
        about = {name: manifest.kernel.get(name) for name in ("name", "parameters", "shape")}
        record = Record(key, attempt.state, folder, about, dict(manifest.device), (attempt,))
        self.save(record)
        return record

    def records(self) -> Iterator[Record]:
        """Everything in the journal, by key; raises ReportError for a damaged record."""
        for path in sorted(self.journal.glob("[!.]*.json")):
            if (record := self._read(path.stem)) is not None:
                yield record

    def save(self, record: Record) -> None:
        """Write a record, in place of an older one; raises DiskError."""
        target = self.journal / f"{record.key}.json"
        try:
            with draft_of(target) as draft:
                draft.write_text(record.to_json(), encoding="utf-8")
        except OSError as error:
            raise DiskError(str(target), error.strerror or str(error)) from error

    def keep(self, folder: str, files: Mapping[str, bytes]) -> None:
        """Write a run directory from its files, whole or not at all; raises UsageError and
        DiskError."""
        with staging.staged(self.folder / folder, force=True) as place:
            for name, data in files.items():
                (place / name).write_bytes(data)
                sync(place / name)
            close(place)

    def claim(self, key: str) -> bool:
        """Take a job for this process, until ``release`` or its end; False where another process
        has it."""
        try:
            fcntl.fcntl(self._claims, fcntl.F_OFD_SETLK, _region(fcntl.F_WRLCK, key))
        except OSError as error:
            # A file system without locks: two sweeps there measure some jobs twice, but lose none.
            return error.errno not in (errno.EAGAIN, errno.EACCES)
        return True

    def release(self, key: str) -> None:
        """Let go of a job."""
        try:
            fcntl.fcntl(self._claims, fcntl.F_OFD_SETLK, _region(fcntl.F_UNLCK, key))
        except OSError:
            return


def _region(kind: int, key: str) -> bytes:
    """A ``struct flock`` (Linux, 64 bit) for the one byte of the claims file that stands for a
    job."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, int(key, 16) >> 2, 1, 0)
