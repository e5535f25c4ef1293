"""The reports that the dashboard shows: rows of all launches at once, the reports themselves when a
page needs them.

One thread reads, one looks for changes; requests read under a lock. The rows of the last visit come
from ``index``, everything that is new or changed is read again. What cannot be read is kept with
its message, and a launch whose analysis fails is kept as a failure, too: nothing disappears without
a word.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ncubble.analysis.diagnosis.results import judge, readable_ablation, remembered_verdict
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.launches.table import LaunchRows
from ncubble.analysis.report.report import open_reports
from ncubble.analysis.traces.lanes import folders_with
from ncubble.dashboard.data import index
from ncubble.dashboard.data.ahead import Ahead
from ncubble.dashboard.data.held import Held
from ncubble.dashboard.data.index import Known, Signature
from ncubble.dashboard.data.readings import Entry, Failure, Progress, Reading
from ncubble.dashboard.data.roots import OUTSIDE, leads_out
from ncubble.dashboard.data.rows import labelled, launch_row, ranked
from ncubble.dashboard.data.utf8 import utf8
from ncubble.errors import NcubbleError, ReportError
from ncubble.profiling.runs import find_runs

log = logging.getLogger(__name__)
Opener = Callable[[Sequence[Path]], tuple[Sequence[Any], Sequence[Any]]]
"""Reports, and those that could not be opened with their errors."""
Judge = Callable[[Any, int], LaunchVerdict]
KEY_LENGTH = 16
"""Hex digits of a report's content hash that its address shows: 64 bits, enough for any number of
reports."""
STALE_S = 0.5
"""How old the list of all rows may be while reports are being read."""

STALE_SHARE = 10.0
"""How many times as long as making that list it is kept at least, meanwhile."""
FRESH_S = 10.0
BATCH = 4
VERDICTS = 64
RESCAN_S, LOOK_SHARE = 2.0, 10.0
"""Least seconds between two looks at all paths, and how many times as long as the look before a
pause is at least."""


@dataclass
class ReportStore:
    """The reports at or below ``paths``; ``opener`` and ``judge`` default to those of the
    analysis.

    With ``watch``, runs that appear, change or vanish are noticed. ``checks`` is where results of
    checks are kept.
    """

    paths: Sequence[Path]
    opener: Opener | None = None
    judge: Judge | None = None
    watch: bool = False
    checks: Path | None = None
    ahead: Ahead = field(default_factory=Ahead, repr=False)
    _added: dict[Path, str] = field(default_factory=dict)
    _settled: threading.Event = field(default_factory=threading.Event)
    _wake: threading.Event = field(default_factory=threading.Event)
    _looking: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None
    _index: Path = Path()
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    _readings: dict[Path, Reading] = field(default_factory=dict, repr=False)
    _shown: dict[Path, Known] = field(default_factory=dict, repr=False)
    _keys: dict[str, Path] = field(default_factory=dict, repr=False)
    _trouble: tuple[Failure, ...] = field(default=(), repr=False)
    _held: Held = field(default_factory=Held, repr=False)
    _verdicts: OrderedDict[str, LaunchVerdict] = field(default_factory=OrderedDict, repr=False)
    _rows: tuple[int, float, LaunchRows] = field(default_factory=lambda: (-1, 0.0, LaunchRows.of([])), repr=False)
    _kernels: tuple[int, dict[str, list[tuple[Path, int]]]] = field(default_factory=lambda: (-1, {}), repr=False)
    _version: int = field(default=0, repr=False)
    _found: dict[str, tuple[float, list[Path]]] = field(default_factory=dict, repr=False)

    def start(self) -> ReportStore:
        """Begin loading; returns at once. A second call does nothing."""
        if self._thread is None:
            self._index = index.index_file(self.paths)  # now: threads outlive what the environment says
            self._thread = threading.Thread(target=self._work, name="ncubble-load", daemon=True)
            self._thread.start()
            if self.watch:
                threading.Thread(target=self._watch, name="ncubble-watch", daemon=True).start()
        return self

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to ``timeout`` seconds for all to be loaded; return whether it is."""
        return self._settled.wait(timeout)

    def add(self, path: Path, shown_as: str = "") -> None:
        """Read (again) a file, shown as ``shown_as``. Returns at once."""
        with self._lock:
            self._added[path] = shown_as
            known = self._readings.get(path, Reading(path))
            self._set(replace(known, state="queued", shown_as=shown_as))
        self._go_on()

    def drop(self, path: Path) -> None:
        """Have the next pass forget a file that was added. Returns at once."""
        with self._lock:
            if self._added.pop(path, None) is None:
                return
        self._go_on()

    def rescan(self) -> None:
        """Look for new and changed runs now, and once more for what failed."""
        with self._lock:
            for reading in list(self._readings.values()):
                if reading.state == "failed":
                    self._set(replace(reading, state="queued", signature=()))
        self._go_on()

    def _go_on(self) -> None:
        """Have the thread that reads look once more."""
        self._settled.clear()
        self._wake.set()

    def runs_with(self, file: str) -> list[Path]:
        """Every folder with such a file below the paths, in order of path; the list may be
        ``FRESH_S`` old, as walking many folders is slow. A page reads nothing else."""
        made, runs = self._found.get(file, (-FRESH_S, []))
        if time.monotonic() - made >= FRESH_S:
            runs = list(folders_with(file, map(Path, self.paths)))
            self._found[file] = time.monotonic(), runs
        return runs

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
            return Progress(done, total, launches, failed, self._settled.is_set(), self._version)

    def rows(self) -> LaunchRows:
        """The rows of the overview's table, most recoverable idle time first. The same for all who
        ask.

        While reports are being read, it may be as old as ``STALE_S``.
        """
        with self._lock:
            version, due, rows = self._rows
            began = time.monotonic()
            if version == self._version or (not self._settled.is_set() and began < due):
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
                    for place, kernel in enumerate(known.rows.cells("kernel")):
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
        ids = tuple(map(str, known.rows.cells("id")))
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
            failure = failure_of(str(path), error)
            if name := reading.shown_as:  # people do not know where it lies
                failure = replace(failure, where=utf8(name), error=failure.error.replace(utf8(str(path)), name))
            self._set(replace(reading, state="failed", failures=(failure,)))

    def report_of(self, entry: Entry) -> Any:
        """The report of a launch. Raises NcubbleError where it is unreadable or replaced."""
        known = self._held.get(entry.path)
        if known is None or not known.key.startswith(entry.key):
            reports, failures = (self.opener or open_reports)([entry.path])
            if not reports:
                raise failures[0].error
            known = reports[0]
            known.read_one_at_a_time()
            self._held.put(entry.path, known)
        if not known.key.startswith(entry.key):
            self.rescan()
            what = f"{entry.row['path']}: another report lies here since the list was made"
            raise ReportError(what, "see all launches")
        return known

    def verdict_of(self, entry: Entry) -> LaunchVerdict:
        """The verdict of a launch; raises NcubbleError as ``report_of`` does."""
        name = address(entry.key, entry.number)
        with self._lock:
            if name in self._verdicts:
                return self._verdicts[name]
        verdict = (self.judge or verdict_of)(entry.report, entry.number)
        with self._lock:
            self._verdicts[name] = verdict
            while len(self._verdicts) > VERDICTS:
                self._verdicts.popitem(last=False)
        return verdict

    def _work(self) -> None:
        """Read, then wait to be woken."""
        recalled = False
        while True:
            self._wake.clear()
            try:
                if not recalled:
                    recalled = True
                    self._recall_fast()
                self._look()
                self._read_queued()
                self._trouble_is(())
            except Exception as error:
                self._trouble_is((failure_of("looking for runs", error),))
            with self._lock:
                if not self._wake.is_set() and not self._settled.is_set():
                    self._version += 1
                    gc.freeze()  # rows stay: looking through 10,000 of them for garbage stops all for 0.15 s
                    self._settled.set()
            self._wake.wait()

    def _watch(self) -> None:
        """Look for changes again and again, also while reports are read: that may take minutes."""
        while True:
            began = time.monotonic()
            with suppress(Exception):  # the next reading says so
                self._look()
            if self._queued():
                self._wake.set()
            time.sleep(max(RESCAN_S, LOOK_SHARE * (time.monotonic() - began)))

    def _recall_fast(self) -> None:
        """``_recall`` with the garbage collector off: it would walk a million new objects."""
        gc.disable()
        try:
            self._recall()
            self.rows()
        finally:
            gc.enable()
            gc.freeze()

    def _recall(self) -> None:
        """Show what was shown last time. The pass that follows finds out what of it has changed."""
        if self.opener is not None:
            return
        with self._lock:
            for path, known in index.recall(self._index).items():
                self._show(Reading(path, signature=known.signature), known)

    def _look(self) -> None:
        """One look at all paths: forget what has vanished, queue what is new or has changed. Opens
        nothing."""
        with self._looking:
            with self._lock:
                added = list(self._added)
            signatures = {path: index.signature_of(path) for path in [*find_runs(self.paths), *added]}
            with self._lock:
                for gone in [path for path in self._readings if path not in signatures and path not in self._added]:
                    self._forget(gone)
                changed = [path for path, signature in signatures.items() if self._is_new(path, signature)]
                for path in changed:
                    self._forget(path)
                    self._set(Reading(path, shown_as=self._added.get(path, ""), signature=signatures[path]))
                if self._queued():
                    self._settled.clear()

    def _read_queued(self) -> None:
        """Read until nothing is left to read, also not what was queued meanwhile."""
        read = False
        while batch := sorted(self._queued(), key=lambda path: path not in self._added)[:BATCH]:  # added files first
            self._read(batch)
            read = True
        if read and self.opener is None:
            known = {path: known for path, known in self._whole().items() if path not in self._added}
            self._pack(known, index.remember(self._index, known))

    def _read(self, paths: list[Path]) -> None:
        """Open some reports and show what is in them, unless they vanish or change meanwhile."""
        with self._lock:
            for path in paths:
                shown_as = self._added.get(path, "")
                self._forget(path)
                self._set(Reading(path, "reading", shown_as, index.signature_of(path)))
        led_out = [path for path in paths if leads_out(path, [*self.paths, *self._added])]
        inside = [path for path in paths if path not in led_out]
        try:
            reports, failures = (self.opener or open_reports)(inside) if inside else ([], [])
        except Exception as error:
            reports, failures = [], []
            for path in filter(self._is_read, inside):
                self._fail(path, error)
        for path in led_out:
            self._fail(path, OUTSIDE)
        for report in reports:
            if report.run.path not in paths or self._is_read(report.run.path):
                self._take(report)
        for failure in failures:
            if failure.path not in paths or self._is_read(failure.path):
                self._fail(failure.path, failure.error)
        with self._lock:
            for path in filter(self._is_read, paths):  # an opener that says nothing of it has nothing to show
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
        doubted, failed = dict[str, str](), list[Failure]()
        rows = [row for number in numbers if (row := self._judge(report, number, reading, doubted, failed))]
        report.read_one_at_a_time()
        self._held.put(reading.path, report)
        with self._lock:
            if reading.path in self._readings:
                read = replace(reading, failures=tuple(failed))
                self._show(read, Known(key, reading.signature, LaunchRows.of(rows), doubted))

    def _reading_of(self, report: Any) -> Reading:
        """The reading that became this report: the one at its path, or the first in turn."""
        named = self._readings.get(report.run.path)
        return named or next(reading for reading in self._readings.values() if reading.state == "reading")

    def _judge(
        self, report: Any, number: int, reading: Reading, doubted: dict[str, str], failed: list[Failure]
    ) -> dict[str, Any] | None:
        """The row of one launch; None, with the failure noted, where it has no verdict."""
        where, damaged = reading.shown_as or str(reading.path), list[NcubbleError]()
        try:
            verdict = (self.judge or verdict_of)(report, number)
            ablation = readable_ablation(reading.path, number, damaged)
            row: dict[str, Any] = utf8(launch_row(report, number, verdict, ablation))
            LaunchRows.of([row])  # refuses what no column takes, before it is among the rows of all
        except Exception as error:
            failed.append(failure_of(f"{where}, launch {number}", error))
            return None
        failed += [failure_of(where, error) for error in damaged]
        if reading.shown_as:
            row |= {"path": reading.shown_as, "report": reading.shown_as}
        if verdict.doubts:
            doubted[row["id"]] = " ".join(verdict.doubts)
        return row


def default_paths(given: Iterable[Path], here: Path) -> list[Path]:
    """The paths to show: those given, else ``here/runs`` where it exists, else the recordings that
    are shipped."""
    from ncubble.recordings import FULL, H100, LANES, LEVELS, RANKS, ROOT

    runs = here / "runs"
    return list(given) or ([runs] if runs.is_dir() else [ROOT, H100, FULL, LANES, LEVELS, RANKS])


def verdict_of(report: Any, launch: int) -> LaunchVerdict:
    """The verdict of a launch, remembered or made; raises NcubbleError where there is none."""
    from ncubble.analysis.diagnosis.diagnose import launch_verdict

    known = remembered_verdict(report, launch)
    known = known or next((verdict for verdict in judge(report)[0] if verdict.launch == launch), None)
    return known or launch_verdict(report.launch(launch))  # which says again why there is none


def failure_of(where: str, error: Exception | str) -> Failure:
    """What people read of an error: its message, without the place that stands before it, and its
    remedy, or that it is a bug of ours."""
    where, text, remedy = utf8(where), str(error), ""
    if isinstance(error, NcubbleError):
        text, remedy = error.message, utf8(error.remedy)
    elif isinstance(error, Exception):
        log.error("%s: unexpected error", where, exc_info=error)
        text, remedy = f"unexpected {type(error).__name__}: {error}", "report this as a bug of ncubble"
    return Failure(where, utf8(text).removeprefix(f"{where}: "), remedy)


def address(key: str, launch: int) -> str:
    """``<key>/<launch>`` as it stands in a kernel page's address and as the row's id."""
    return f"{key[:KEY_LENGTH]}/{launch}"
