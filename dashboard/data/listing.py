"""The list of what is known: of every path what became of it, of every launch its row. Safe to ask
from any thread."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.launches.table import LaunchRows
from ncubble.dashboard.data.held import Held
from ncubble.dashboard.data.index import Known, Signature
from ncubble.dashboard.data.readings import Entry, Failure, Progress, Reading
from ncubble.dashboard.data.rows import labelled, ranked
from ncubble.dashboard.data.utf8 import utf8
from ncubble.errors import NcubbleError

log = logging.getLogger(__name__)
KEY_LENGTH = 16
"""Hex digits of a report's content hash that its address shows: 64 bits, enough for any number of
reports."""
STALE_S = 0.5
"""How old the list of all rows may be while reports are being read."""

STALE_SHARE = 10.0
"""How many times as long as making that list it is kept at least, meanwhile."""


@dataclass
class Listing:
    """Readings and launches under one lock; what a store of reports fills and pages ask."""

    _lock: threading.RLock = field(default_factory=threading.RLock, init=False, repr=False)
    _readings: dict[Path, Reading] = field(default_factory=dict, init=False, repr=False)
    _shown: dict[Path, Known] = field(default_factory=dict, init=False, repr=False)
    _keys: dict[str, Path] = field(default_factory=dict, init=False, repr=False)
    _trouble: tuple[Failure, ...] = field(default=(), init=False, repr=False)
    _held: Held = field(default_factory=Held, init=False, repr=False)
    _verdicts: OrderedDict[str, LaunchVerdict] = field(default_factory=OrderedDict, init=False, repr=False)
    _rows: tuple[int, float, LaunchRows] = field(
        default_factory=lambda: (-1, 0.0, LaunchRows.of([])), init=False, repr=False
    )
    _kernels: tuple[int, dict[str, list[tuple[Path, int]]]] = field(
        default_factory=lambda: (-1, {}), init=False, repr=False
    )
    _version: int = field(default=0, init=False, repr=False)
    _finished: bool = field(default=False, init=False, repr=False)

    def report_of(self, entry: Entry) -> Any:
        """The report of a launch."""
        raise NotImplementedError

    def verdict_of(self, entry: Entry) -> LaunchVerdict:
        """The verdict of a launch."""
        raise NotImplementedError

    def state_of(self, path: Path) -> Reading | None:
        """What became of a path; None where it was never asked for."""
        with self._lock:
            return self._readings.get(path)

    @property
    def version(self) -> int:
        """``Progress.version``."""
        return self._version

    def readings(self) -> list[Reading]:
        """What became of every path, in the order in which they were found."""
        with self._lock:
            return list(self._readings.values())

    def progress(self) -> Progress:
        """How far loading has come."""
        with self._lock:
            done = sum(reading.settled for reading in self._readings.values())
            failed = len(self._trouble) + sum(len(reading.failures) for reading in self._readings.values())
            total = len(self._readings)
            launches = sum(len(known.rows) for known in self._shown.values())
            return Progress(done, total, launches, failed, self._finished, self._version)

    def rows(self) -> LaunchRows:
        """The rows of the overview's table, most recoverable idle time first. The same for all who
        ask.

        While reports are being read, it may be as old as ``STALE_S``.
        """
        with self._lock:
            version, due, rows = self._rows
            began = time.monotonic()
            if version == self._version or (not self._finished and began < due):
                return rows
            version, parts = self._version, [known.rows for known in self._shown.values()]
        made = ranked(labelled(LaunchRows.joined(parts)))
        made = made.at(np.argsort(-np.nan_to_num(made.numbers("recoverable_ns")), kind="stable")).whole()
        ended = time.monotonic()
        with self._lock:
            self._rows = version, ended + max(STALE_S, STALE_SHARE * (ended - began)), made
        return made

    def failures(self) -> list[Failure]:
        """Everything that could not be shown."""
        with self._lock:
            return [*self._trouble, *(failure for reading in self._readings.values() for failure in reading.failures)]

    def doubtful(self) -> list[Failure]:
        """Launches whose values contradict each other, and how."""
        with self._lock:
            doubted = [known for known in self._shown.values() if known.doubts]
        return [
            Failure(f"{row['path']}, launch {row['launch']}", doubt)
            for known in doubted
            for row in known.rows
            if (doubt := known.doubts.get(row["id"]))
        ]

    def duplicates(self) -> list[Failure]:
        """Files whose content equals one that is already shown: ``where`` they lie, and which one
        it is."""
        with self._lock:
            twins = [(reading, reading.twin) for reading in self._readings.values() if reading.state == "duplicate"]
        return [
            Failure(reading.shown_as or str(reading.path), f"same content as {twin}, shown once")
            for reading, twin in twins
        ]

    def find(self, key: str, launch: int) -> Entry | None:
        """The launch at the address ``/kernel/<key>/<launch>``, or None."""
        name = address(key, launch)
        with self._lock:
            path = self._keys.get(name.partition("/")[0])
            reading = None if path is None else self._readings.get(path)
            if path is None or reading is None or name not in reading.ids:
                return None
            return self._entry(path, reading.ids.index(name))

    def _entry(self, path: Path, place: int) -> Entry:
        """The launch of a report that is shown at ``path``, by the place of its row. The lock is
        held."""
        known = self._shown[path]
        row = known.rows[place]
        doubt = known.doubts.get(row["id"], "") if known.doubts else ""
        return Entry(known.key, int(row["launch"]), row, path, doubt, self)

    def siblings(self, entry: Entry) -> list[Entry]:
        """All launches of the same report, in their order."""
        with self._lock:
            path = self._keys.get(entry.key)
            reading = None if path is None else self._readings.get(path)
            same = [self._entry(path, place) for place in range(len(reading.ids))] if path and reading else []
        return sorted(same, key=lambda other: other.number)

    def alike(self, entry: Entry) -> list[Entry]:
        """All other launches of the same kernel, by base name, those of other configurations
        first."""
        with self._lock:
            version, places = self._kernels
            if version != self._version:
                places = {}
                for path, known in self._shown.items():
                    for place, kernel in enumerate(_cells(known.rows, "kernel")):
                        places.setdefault(kernel, []).append((path, place))
                self._kernels = self._version, places
            same = [self._entry(path, place) for path, place in places.get(entry.row["kernel"], ())]
        others = [other for other in same if (other.key, other.number) != (entry.key, entry.number)]
        return sorted(others, key=lambda other: other.row["label"] == entry.row["label"])

    def _queued(self) -> list[Path]:
        """What is to be read."""
        return [reading.path for reading in self.readings() if reading.state == "queued"]

    def _is_new(self, path: Path, signature: Signature) -> bool:
        """Whether the file at a path is no longer what was read there, and is not queued yet."""
        reading = self._readings.get(path)
        return reading is None or (reading.state != "queued" and reading.signature != signature)

    def _is_read(self, path: Path) -> bool:
        """Whether what is being read of a path still counts: it neither vanished nor changed."""
        reading = self._readings.get(path)
        return reading is not None and reading.state == "reading"

    def _whole(self) -> dict[Path, Known]:
        """What was read of all reports without a failure."""
        with self._lock:
            shown = (reading for reading in self._readings.values() if reading.state == "shown")
            whole = [reading for reading in shown if not reading.failures]
            return {
                reading.path: replace(self._shown[reading.path], signature=reading.signature)
                for reading in whole
                if reading.path in self._shown  # a path that the opener did not mention has no rows
            }

    def _pack(self, whole: Mapping[Path, Known], packed: Mapping[Path, Known]) -> None:
        """Keep what was read ``whole`` as it is ``packed``, in a tenth of the memory."""
        with self._lock:
            for path, known in whole.items():
                if path in self._shown and self._shown[path].rows is known.rows:
                    self._shown[path] = packed[path]

    def _trouble_is(self, trouble: tuple[Failure, ...]) -> None:
        with self._lock:
            self._version += trouble != self._trouble
            self._trouble = trouble

    def _show(self, reading: Reading, known: Known) -> None:
        """Put the rows of one report into the list. The lock is held."""
        ids = tuple(map(str, _cells(known.rows, "id")))
        asked = self._readings.get(reading.path)
        again = asked is not None and asked.state == "queued"  # it was added once more while it was being read
        self._keys[known.key] = reading.path
        self._shown[reading.path] = known
        self._set(replace(reading, state="queued" if again else "shown", key=known.key, ids=ids))

    def _set(self, reading: Reading) -> None:
        with self._lock:
            self._readings[reading.path] = reading
            self._version += 1

    def _forget(self, path: Path) -> None:
        """Take a report out of the list; another with the same content is read in its stead. The
        lock is held."""
        reading = self._readings.pop(path, None)
        self._shown.pop(path, None)
        self._held.drop(path)
        self._version += 1
        if reading and self._keys.get(reading.key) == path:
            del self._keys[reading.key]
        for name in reading.ids if reading else ():
            self._verdicts.pop(name, None)
        for other in list(self._readings.values()):
            if reading and other.state == "duplicate" and other.twin == (reading.shown_as or str(path)):
                self._set(replace(other, state="queued", twin=""))

    def _fail(self, path: Path, error: Exception | str) -> None:
        with self._lock:
            reading = self._readings.get(path, Reading(path))
            failure = failure_of(reading.shown_as or str(path), error)
            if reading.shown_as:  # people do not know where it lies
                failure = replace(failure, error=failure.error.replace(str(path), reading.shown_as))
            self._set(replace(reading, state="failed", failures=(failure,)))


def _cells(rows: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """A field of all rows."""
    return rows.cells(name) if isinstance(rows, LaunchRows) else [row[name] for row in rows]


def failure_of(where: str, error: Exception | str) -> Failure:
    """What people read of an error: its message and remedy, or that it is a bug of ours."""
    where = utf8(where)
    if isinstance(error, NcubbleError):
        return Failure(where, utf8(error.message), utf8(error.remedy))
    if isinstance(error, Exception):
        log.error("%s: unexpected error", where, exc_info=error)
        return Failure(where, utf8(f"unexpected {type(error).__name__}: {error}"), "report this as a bug of ncubble")
    return Failure(where, utf8(error))


def address(key: str, launch: int) -> str:
    """``<key>/<launch>`` as it stands in a kernel page's address and as the row's id."""
    return f"{key[:KEY_LENGTH]}/{launch}"
