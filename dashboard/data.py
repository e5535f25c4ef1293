"""The reports that the dashboard shows: rows of all launches at once, the reports themselves when a page needs them.

One thread reads and rescans; requests read under a lock. The rows of the last visit come from ``index``, everything
that is new or changed is read again. What cannot be read is kept with its message, and a launch whose analysis fails is
kept as a failure, too: nothing disappears without a word.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ncubble.dashboard import index
from ncubble.dashboard.held import Held
from ncubble.dashboard.index import Known, Signature
from ncubble.dashboard.readings import Failure, Launch, Progress, Reading
from ncubble.dashboard.roots import OUTSIDE, leads_out
from ncubble.dashboard.rows import labels, launch_row
from ncubble.dashboard.words import doubts
from ncubble.errors import NcubbleError
from ncubble.profiling.run import find_runs

log = logging.getLogger(__name__)
KEY_LENGTH = 16
"""Hex digits of a report's content hash that its address shows: 64 bits, enough for any number of reports."""
BATCH = 4
VERDICTS = 64
RESCAN_S = 2.0
"""Least time between two looks for new runs; a look that takes long is followed by twenty times as long a pause."""
STALE_S = 0.5
"""How old the list of all rows may be while reports are being read."""

Opener = Callable[[Sequence[Path]], tuple[Sequence[Any], Sequence[Any]]]
Judge = Callable[[Any, int], dict[str, Any]]


@dataclass
class ReportStore:
    """The reports at or below ``paths``; ``opener``, ``judge`` and ``accountant`` default to those of the analysis.

    With ``watch``, runs that appear, change or vanish are noticed. ``checks`` is where results of checks are kept.
    """

    paths: Sequence[Path]
    opener: Opener | None = None
    judge: Judge | None = None
    accountant: Callable[[Any, int], Any] | None = None
    watch: bool = False
    checks: Path | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _readings: dict[Path, Reading] = field(default_factory=dict)
    _launches: dict[str, Launch] = field(default_factory=dict)
    _added: dict[Path, str] = field(default_factory=dict)
    _trouble: tuple[Failure, ...] = ()
    _held: Held = field(default_factory=Held)
    _keys: dict[str, Path] = field(default_factory=dict)
    _verdicts: OrderedDict[str, dict[str, Any]] = field(default_factory=OrderedDict)
    _rows: tuple[int, float, list[dict[str, Any]]] = (-1, 0.0, [])
    _version: int = 0
    _finished: bool = False
    _settled: threading.Event = field(default_factory=threading.Event)
    _wake: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> ReportStore:
        """Begin loading; returns at once. A second call does nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="ncubble-load", daemon=True)
            self._thread.start()
        return self

    def wait(self, timeout: float | None = None) -> bool:
        """Block until everything is loaded or ``timeout`` seconds have passed; whether loading has ended."""
        self._settled.wait(timeout)
        return self._finished

    def add(self, path: Path, shown_as: str = "") -> None:
        """Read one more file, known to people as ``shown_as``; returns at once. One that is there is read again."""
        with self._lock:
            self._added[path] = shown_as
            self._set(Reading(path, shown_as=shown_as))
            self._finished = False
            self._settled.clear()
        self._wake.set()

    def drop(self, path: Path) -> None:
        """Have the next pass forget a file that ``add`` named; returns at once. One that it never named stays."""
        with self._lock:
            if self._added.pop(path, None) is None:
                return
            self._finished = False
            self._settled.clear()
        self._wake.set()

    def rescan(self) -> None:
        """Look for new and changed runs now, and once more for what failed."""
        with self._lock:
            for reading in list(self._readings.values()):
                if reading.state == "failed":
                    self._set(replace(reading, state="queued", signature=()))
            self._finished = False
            self._settled.clear()
        self._wake.set()

    def state_of(self, path: Path) -> Reading | None:
        """What became of a path; None where it was never asked for."""
        with self._lock:
            return self._readings.get(path)

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
            return Progress(done, total, len(self._launches), failed, self._finished, self._version)

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the overview's table, most recoverable idle time first. One list for all: do not write to it.

        While reports are being read, it may be as old as ``STALE_S``.
        """
        with self._lock:
            version, made, rows = self._rows
            if version == self._version or (not self._finished and time.monotonic() - made < STALE_S):
                return rows
            version, found = self._version, [entry.row for entry in self._launches.values()]
        told = [row | {"label": label} for row, label in zip(found, labels(found), strict=True)]
        told.sort(key=lambda row: -(row["recoverable_ns"] or 0.0))
        with self._lock:
            self._rows = version, time.monotonic(), told
        return told

    def failures(self) -> list[Failure]:
        """Everything that could not be shown."""
        with self._lock:
            return [*self._trouble, *(one for reading in self._readings.values() for one in reading.failures)]

    def doubtful(self) -> list[Failure]:
        """Launches whose values contradict each other, and how."""
        with self._lock:
            entries = [entry for entry in self._launches.values() if entry.doubt]
        return [Failure(f"{entry.row['path']}, launch {entry.launch}", entry.doubt) for entry in entries]

    def duplicates(self) -> list[Failure]:
        """Files whose content equals one that is already shown: ``where`` they lie, and which one it is."""
        with self._lock:
            twins = [(reading, reading.twin) for reading in self._readings.values() if reading.state == "duplicate"]
        return [Failure(one.shown_as or str(one.path), f"same content as {twin}, shown once") for one, twin in twins]

    def find(self, key: str, launch: int) -> Launch | None:
        """The launch at the address ``/kernel/<key>/<launch>``, or None."""
        with self._lock:
            return self._launches.get(address(key, launch))

    def siblings(self, entry: Launch) -> list[Launch]:
        """All launches of the same report, in their order."""
        with self._lock:
            same = [other for other in self._launches.values() if other.key == entry.key]
        return sorted(same, key=lambda other: other.launch)

    def alike(self, entry: Launch) -> list[Launch]:
        """All other launches of the same kernel, by base name, those of other configurations first."""
        with self._lock:
            same = [other for other in self._launches.values() if other.row["kernel"] == entry.row["kernel"]]
        others = [other for other in same if other is not entry]
        return sorted(others, key=lambda other: other.row["label"] == entry.row["label"])

    def account_of(self, entry: Launch) -> Any | None:
        """The ``BubbleAccount`` of a launch; None where the report holds no utilization of any unit."""
        return (self.accountant or _account)(entry.report, entry.launch)

    def report_at(self, path: Path) -> Any:
        """The report at a path that is shown; raises NcubbleError where it can no longer be read."""
        if (known := self._held.get(path)) is not None:
            return known
        reports, failures = (self.opener or _open_reports)([path])
        if not reports:
            raise failures[0].error
        self._held.put(path, reports[0])
        return reports[0]

    def verdict_of(self, entry: Launch) -> dict[str, Any]:
        """The verdict of a launch; raises NcubbleError as ``report_at`` does."""
        name = address(entry.key, entry.launch)
        with self._lock:
            if name in self._verdicts:
                return self._verdicts[name]
        verdict = (self.judge or _launch_verdict)(entry.report, entry.launch)
        with self._lock:
            self._verdicts[name] = verdict
            while len(self._verdicts) > VERDICTS:
                self._verdicts.popitem(last=False)
        return verdict

    def _work(self) -> None:
        """Read, then wait to be woken; with ``watch``, look for new runs again and again."""
        self._recall()
        while True:
            self._wake.clear()
            began = time.monotonic()
            try:
                self._pass()
                self._trouble_is(())
            except Exception as error:
                self._trouble_is((_failure("looking for runs", error),))
            with self._lock:
                if not self._wake.is_set():
                    self._version += not self._finished
                    self._finished = True
                    self._settled.set()
            pause = max(RESCAN_S, 20 * (time.monotonic() - began))
            self._wake.wait(pause if self.watch else None)

    def _trouble_is(self, found: tuple[Failure, ...]) -> None:
        with self._lock:
            self._version += found != self._trouble
            self._trouble = found

    def _recall(self) -> None:
        """Show what was shown last time. The pass that follows finds out what of it has changed."""
        if self.opener is not None:
            return
        with self._lock:
            for path, known in index.recall(self.paths).items():
                self._show(Reading(path, signature=known.signature), known)

    def _pass(self) -> None:
        """One look at all paths: forget what has vanished, read what is new or has changed."""
        found = {path: index.signature_of(path) for path in [*find_runs(self.paths), *self._added]}
        with self._lock:
            for gone in [path for path in self._readings if path not in found]:
                self._forget(gone)
            changed = [path for path, signature in found.items() if self._is_new(path, signature)]
            for path in changed:
                self._finished = False
                self._forget(path)
                self._set(Reading(path, shown_as=self._added.get(path, ""), signature=found[path]))
        listed = set(changed)
        for start in range(0, len(changed), BATCH):
            self._read_added(listed)
            self._read(changed[start : start + BATCH])
        if changed:
            self._remember()
        if any(reading.state == "queued" for reading in self.readings()):  # what was a copy of something that changed
            self._pass()

    def _read_added(self, listed: set[Path]) -> None:
        """Read what was added since the pass began, so that nobody waits for a folder to see one file."""
        with self._lock:
            known = [self._readings.get(path) for path in self._added if path not in listed]
            waiting = [one for one in known if one is not None and one.state == "queued"]
            for one in waiting:
                self._set(replace(one, signature=index.signature_of(one.path)))
        if waiting:
            self._read([one.path for one in waiting])

    def _is_new(self, path: Path, signature: Signature) -> bool:
        reading = self._readings.get(path)
        return reading is None or reading.state == "queued" or reading.signature != signature

    def _remember(self) -> None:
        if self.opener is not None:
            return
        with self._lock:
            whole = [one for one in self._readings.values() if one.state == "shown" and not one.failures]
            known = {
                reading.path: Known(
                    reading.key,
                    reading.signature,
                    tuple(self._launches[name].row for name in reading.ids),
                    {name: doubt for name in reading.ids if (doubt := self._launches[name].doubt)},
                )
                for reading in whole
                if reading.path not in self._added
            }
        index.remember(self.paths, known)

    def _read(self, paths: list[Path]) -> None:
        """Open some reports and show what is in them."""
        with self._lock:
            for path in paths:
                self._set(replace(self._readings[path], state="reading"))
        led_out = [path for path in paths if leads_out(path, [*self.paths, *self._added])]
        inside = [path for path in paths if path not in led_out]
        try:
            reports, failures = (self.opener or _open_reports)(inside) if inside else ([], [])
        except Exception as error:
            reports, failures = [], [_Unopened(path, error) for path in inside]
        for path in led_out:
            self._fail(path, OUTSIDE)
        for report in reports:
            self._take(report)
        for failure in failures:
            self._fail(failure.path, failure.error)
        with self._lock:
            for path in paths:  # an opener that says nothing of a path has nothing to show of it
                if not self._readings[path].settled:
                    self._set(replace(self._readings[path], state="shown"))

    def _take(self, report: Any) -> None:
        """Judge every launch of a report, outside the lock, and show them."""
        key = report.key[:KEY_LENGTH]
        with self._lock:
            reading = self._reading_of(report)
            if (twin := self._keys.get(key)) is not None:
                self._set(replace(reading, state="duplicate", twin=self._readings[twin].shown_as or str(twin)))
                return
        try:
            numbers = [int(number) for number in report.launches["launch"]]
        except Exception as error:
            self._fail(reading.path, error)
            return
        rows, doubted, failed = [], dict[str, str](), list[Failure]()
        for number in numbers:
            if row := self._judge(report, number, reading, doubted, failed):
                rows.append(row)
        self._held.put(reading.path, report)
        with self._lock:
            self._show(replace(reading, failures=tuple(failed)), Known(key, reading.signature, tuple(rows), doubted))

    def _reading_of(self, report: Any) -> Reading:
        """What is being read and has become this report: it is where the report says, or the first in turn."""
        named = self._readings.get(report.run.path)
        return named or next(reading for reading in self._readings.values() if reading.state == "reading")

    def _judge(
        self, report: Any, number: int, reading: Reading, doubted: dict[str, str], failed: list[Failure]
    ) -> dict[str, Any] | None:
        """The row of one launch, with its doubts noted; None, and a failure noted, where it cannot be judged."""
        try:
            verdict = (self.judge or _launch_verdict)(report, number)
            row = launch_row(report, number, verdict)
        except Exception as error:
            failed.append(_failure(f"{reading.shown_as or reading.path}, launch {number}", error))
            return None
        if reading.shown_as:
            row |= {"path": reading.shown_as, "report": reading.shown_as}
        if said := " ".join(doubts(verdict)):
            doubted[row["id"]] = said
        return row

    def _show(self, reading: Reading, known: Known) -> None:
        """Put the rows of one report into the list. The lock is held."""
        ids = tuple(str(row["id"]) for row in known.rows)
        self._keys[known.key] = reading.path
        for name, row in zip(ids, known.rows, strict=True):
            doubt = known.doubts.get(name, "")
            self._launches[name] = Launch(known.key, int(row["launch"]), row, reading.path, doubt, self)
        self._set(replace(reading, state="shown", key=known.key, ids=ids))

    def _set(self, reading: Reading) -> None:
        with self._lock:
            self._readings[reading.path] = reading
            self._version += 1

    def _forget(self, path: Path) -> None:
        """Take a report out of the list; another with the same content is read in its stead. The lock is held."""
        reading = self._readings.pop(path, None)
        self._held.drop(path)
        self._version += 1
        if reading and self._keys.get(reading.key) == path:
            del self._keys[reading.key]
        for name in reading.ids if reading else ():
            self._launches.pop(name, None)
            self._verdicts.pop(name, None)
        for other in list(self._readings.values()):
            if reading and other.state == "duplicate" and other.twin == (reading.shown_as or str(path)):
                self._set(replace(other, state="queued", twin=""))

    def _fail(self, path: Path, error: Exception | str) -> None:
        with self._lock:
            reading = self._readings.get(path, Reading(path))
            failure = _failure(reading.shown_as or str(path), error)
            if reading.shown_as:  # people do not know where it lies
                failure = replace(failure, error=failure.error.replace(str(path), reading.shown_as))
            self._set(replace(reading, state="failed", failures=(failure,)))


@dataclass(frozen=True)
class _Unopened:
    """A path whose batch could not be opened at all."""

    path: Path
    error: Exception


def _failure(where: str, error: Exception | str) -> Failure:
    if isinstance(error, NcubbleError):
        return Failure(where, error.message, error.remedy)
    if isinstance(error, Exception):
        log.error("%s: unexpected error", where, exc_info=error)
        return Failure(where, f"unexpected {type(error).__name__}: {error}", "report this as a bug of ncubble")
    return Failure(where, error)


def address(key: str, launch: int) -> str:
    """``<key>/<launch>`` as it stands in a kernel page's address and as the row's id."""
    return f"{key[:KEY_LENGTH]}/{launch}"


def default_paths(given: Iterable[Path], here: Path) -> list[Path]:
    """The paths to show: those given, else ``here/runs`` where it exists, else the recordings that are shipped."""
    from ncubble.recordings import FULL, ROOT

    chosen = list(given)
    if chosen:
        return chosen
    runs = here / "runs"
    return [runs] if runs.is_dir() else [ROOT, FULL]


def _open_reports(paths: Sequence[Path]) -> tuple[Sequence[Any], Sequence[Any]]:
    from ncubble.analysis.report import open_reports

    return open_reports(paths)


def _launch_verdict(report: Any, launch: int) -> dict[str, Any]:
    from ncubble.analysis.results import judge
    from ncubble.analysis.verdict import launch_verdict

    known = next((one for one in judge(report)[0] if one["launch"] == launch), None)
    return known if known is not None else launch_verdict(report, launch)  # which says again why there is none


def _account(report: Any, launch: int) -> Any:
    from ncubble.analysis.account import account

    return account(report, launch)
