"""The reports that the dashboard shows: rows of all launches at once, the reports themselves when a
page needs them.

One thread reads, one looks for changes; requests read under a lock. The rows of the last visit come
from ``index``, everything that is new or changed is read again. What cannot be read is kept with
its message, and a launch whose analysis fails is kept as a failure, too: nothing disappears without
a word.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from ncubble.analysis.diagnosis.results import readable_ablation
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.dashboard.data import index, openers
from ncubble.dashboard.data.ahead import Ahead
from ncubble.dashboard.data.index import Known
from ncubble.dashboard.data.listing import KEY_LENGTH, Listing, address, failure_of
from ncubble.dashboard.data.openers import Judge, Opener
from ncubble.dashboard.data.readings import Entry, Failure, Reading
from ncubble.dashboard.data.roots import OUTSIDE, leads_out
from ncubble.dashboard.data.rows import launch_row
from ncubble.dashboard.data.utf8 import utf8
from ncubble.errors import NcubbleError, ReportError
from ncubble.profiling.runs import find_runs

BATCH = 4
VERDICTS = 64
RESCAN_S, LOOK_SHARE = 2.0, 10.0
"""Least seconds between two looks at all paths, and how many times as long as the look before a
pause is at least."""


@dataclass
class ReportStore(Listing):
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
        self._settled.wait(timeout)
        return self._finished

    def add(self, path: Path, shown_as: str = "") -> None:
        """Read (again) a file, shown as ``shown_as``. Returns at once."""
        with self._lock:
            self._added[path] = shown_as
            known = self._readings.get(path, Reading(path))
            self._set(replace(known, state="queued", shown_as=shown_as))
            self._finished = False
            self._settled.clear()
        self._wake.set()

    def drop(self, path: Path) -> None:
        """Have the next pass forget a file that was added. Returns at once."""
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

    def report_of(self, entry: Entry) -> Any:
        """The report of a launch. Raises NcubbleError where it is unreadable or replaced."""
        known = self._held.get(entry.path)
        if known is None or not known.key.startswith(entry.key):
            reports, failures = (self.opener or openers.open_reports)([entry.path])
            if not reports:
                raise failures[0].error
            known = openers.lean(reports[0])
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
        verdict = (self.judge or openers.verdict_of)(entry.report, entry.number)
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
                if not self._wake.is_set():
                    if not self._finished:
                        self._version += 1
                        gc.freeze()  # rows stay: looking through 10,000 of them for garbage stops all for 0.15 s
                    self._finished = True
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
                    self._finished = False
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
            reports, failures = (self.opener or openers.open_reports)(inside) if inside else ([], [])
        except Exception as error:
            reports, failures = [], [openers.Unopened(path, error) for path in inside]
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
        self._held.put(reading.path, openers.lean(report))
        with self._lock:
            if reading.path in self._readings:
                read = replace(reading, failures=tuple(failed))
                self._show(read, Known(key, reading.signature, tuple(rows), doubted))

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
            verdict = (self.judge or openers.verdict_of)(report, number)
            ablation = readable_ablation(reading.path, number, damaged)
            row: dict[str, Any] = utf8(launch_row(report, number, verdict, ablation))
            orjson.dumps(row)  # refuses a number beyond 64 bits, before it is among the rows of all
        except Exception as error:
            failed.append(failure_of(f"{where}, launch {number}", error))
            return None
        failed += [failure_of(where, error) for error in damaged]
        if reading.shown_as:
            row |= {"path": reading.shown_as, "report": reading.shown_as}
        if verdict.doubts:
            doubted[row["id"]] = " ".join(verdict.doubts)
        return row
