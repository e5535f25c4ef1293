"""The reports that the dashboard shows: rows of all launches at once, the reports themselves when a
page needs them.

One thread reads and rescans; requests read under a lock. The rows of the last visit come from
``index``, everything that is new or changed is read again. What cannot be read is kept with its
message, and a launch whose analysis fails is kept as a failure, too: nothing disappears without a
word.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ncubble.analysis.diagnosis.words import doubts
from ncubble.dashboard.data import index, openers
from ncubble.dashboard.data.index import Known, Signature
from ncubble.dashboard.data.listing import KEY_LENGTH, Listing, address, failure_of
from ncubble.dashboard.data.openers import Judge, Opener
from ncubble.dashboard.data.readings import Entry, Failure, Reading
from ncubble.dashboard.data.roots import OUTSIDE, leads_out
from ncubble.dashboard.data.rows import launch_row
from ncubble.dashboard.data.utf8 import utf8
from ncubble.errors import ReportError
from ncubble.profiling.runs.run import find_runs

BATCH = 4
VERDICTS = 64
ACCOUNTS = 6
"""Most accounts that are kept: a page is made in several requests."""
RESCAN_S = 2.0
"""Least seconds between two scans; a pause is at least twenty times the scan before."""


@dataclass
class ReportStore(Listing):
    """The reports at or below ``paths``; ``opener``, ``judge`` and ``accountant`` default to those
    of the analysis.

    With ``watch``, runs that appear, change or vanish are noticed. ``checks`` is where results of
    checks are kept.
    """

    paths: Sequence[Path]
    opener: Opener | None = None
    judge: Judge | None = None
    accountant: Callable[[Any, int], Any] | None = None
    watch: bool = False
    checks: Path | None = None
    _added: dict[Path, str] = field(default_factory=dict)
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

    def account_of(self, entry: Entry) -> Any | None:
        """The ``BubbleAccount`` of a launch; None where no utilization was collected."""
        name = str(entry.row["id"])
        with self._lock:
            if name in self._accounts:
                self._accounts.move_to_end(name)
                return self._accounts[name]
        found = (self.accountant or openers.account_of)(entry.report, entry.number)
        with self._lock:
            self._accounts[name] = found
            while len(self._accounts) > ACCOUNTS:
                self._accounts.popitem(last=False)
        return found

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
            raise ReportError(
                f"{entry.row['path']}: another report lies here since the list was made", "see all launches"
            )
        return known

    def verdict_of(self, entry: Entry) -> dict[str, Any]:
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
        """Read, then wait to be woken; with ``watch``, look for new runs again and again."""
        recalled = False
        while True:
            self._wake.clear()
            began = time.monotonic()
            try:
                if not recalled:
                    recalled = True
                    self._recall_fast()
                self._pass()
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
            pause = max(RESCAN_S, 20 * (time.monotonic() - began))
            self._wake.wait(pause if self.watch else None)

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
        """Read what was added since the pass began, before the rest of a folder."""
        with self._lock:
            known = [self._readings.get(path) for path in self._added if path not in listed]
            waiting = [one for one in known if one is not None and one.state == "queued"]
            for one in waiting:
                self._forget(one.path)
                self._set(Reading(one.path, shown_as=one.shown_as, signature=index.signature_of(one.path)))
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
            reports, failures = (self.opener or openers.open_reports)(inside) if inside else ([], [])
        except Exception as error:
            reports, failures = [], [openers.Unopened(path, error) for path in inside]
        for path in led_out:
            self._fail(path, OUTSIDE)
        for report in reports:
            self._take(report)
        for failure in failures:
            self._fail(failure.path, failure.error)
        with self._lock:
            for path in paths:  # an opener that says nothing of a path has nothing to show of it
                if self._readings[path].state == "reading":
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
        self._held.put(reading.path, openers.lean(report))
        with self._lock:
            self._show(replace(reading, failures=tuple(failed)), Known(key, reading.signature, tuple(rows), doubted))

    def _reading_of(self, report: Any) -> Reading:
        """The reading that became this report: the one at its path, or the first in turn."""
        named = self._readings.get(report.run.path)
        return named or next(reading for reading in self._readings.values() if reading.state == "reading")

    def _judge(
        self, report: Any, number: int, reading: Reading, doubted: dict[str, str], failed: list[Failure]
    ) -> dict[str, Any] | None:
        """The row of one launch; None, with the failure noted, where it has no verdict."""
        try:
            verdict = (self.judge or openers.verdict_of)(report, number)
            row: dict[str, Any] = utf8(launch_row(report, number, verdict))
        except Exception as error:
            failed.append(failure_of(f"{reading.shown_as or reading.path}, launch {number}", error))
            return None
        if reading.shown_as:
            row |= {"path": reading.shown_as, "report": reading.shown_as}
        if said := " ".join(doubts(verdict)):
            doubted[row["id"]] = said
        return row
