"""The reports that the dashboard shows: opened in the background, a few at a time, and read by every request.

One thread loads; requests read under a lock. What cannot be read is kept with its message, and a launch whose analysis
fails is kept as a failure, too: nothing disappears without a word.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ncubble.dashboard.rows import labels, launch_row
from ncubble.dashboard.words import doubts
from ncubble.errors import NcubbleError
from ncubble.profiling.run import find_runs

log = logging.getLogger(__name__)
KEY_LENGTH = 16
"""Hex digits of a report's content hash that its address shows: 64 bits, enough for any number of reports."""
BATCH = 4

Opener = Callable[[Sequence[Path]], tuple[Sequence[Any], Sequence[Any]]]
Judge = Callable[[Any, int], dict[str, Any]]


@dataclass(frozen=True)
class Failure:
    """A report (or one launch of it) that could not be shown: where, and why."""

    where: str
    error: str
    remedy: str = ""


@dataclass(frozen=True)
class Launch:
    """One launch with all that pages need: its report, its number in it, its verdict and its row of the table."""

    report: Any
    launch: int
    verdict: dict[str, Any]
    row: dict[str, Any]


@dataclass(frozen=True)
class Progress:
    """How far loading has come. ``version`` changes whenever there is something new to show."""

    done: int
    total: int
    launches: int
    failures: int
    finished: bool

    @property
    def version(self) -> int:
        """Grows with everything that is loaded, and once more when loading ends."""
        return self.done + self.launches + self.failures + int(self.finished)


@dataclass
class ReportStore:
    """Opens ``paths`` in a background thread; ``opener`` and ``judge`` default to those of ``ncubble.analysis``."""

    paths: Sequence[Path]
    opener: Opener | None = None
    judge: Judge | None = None
    accountant: Callable[[Any, int], Any] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _launches: dict[str, Launch] = field(default_factory=dict)
    _failures: list[Failure] = field(default_factory=list)
    _duplicates: list[Failure] = field(default_factory=list)
    _keys: set[str] = field(default_factory=set)
    _done: int = 0
    _total: int = 0
    _finished: bool = False
    _thread: threading.Thread | None = None

    def start(self) -> ReportStore:
        """Begin loading; returns at once. A second call does nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._load, name="ncubble-load", daemon=True)
            self._thread.start()
        return self

    def wait(self, timeout: float | None = None) -> bool:
        """Block until everything is loaded or ``timeout`` seconds have passed; whether loading has ended."""
        if self._thread is not None:
            self._thread.join(timeout)
        return self._finished

    def progress(self) -> Progress:
        """How far loading has come."""
        with self._lock:
            return Progress(self._done, self._total, len(self._launches), len(self._failures), self._finished)

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the overview's table, most recoverable idle time first."""
        with self._lock:
            found = [entry.row for entry in self._launches.values()]
        rows = [row | {"label": label} for row, label in zip(found, labels(found), strict=True)]
        return sorted(rows, key=lambda row: -(row["recoverable_ns"] or 0.0))

    def failures(self) -> list[Failure]:
        """Everything that could not be shown."""
        with self._lock:
            return list(self._failures)

    def doubtful(self) -> list[Failure]:
        """Launches whose values contradict each other, and how."""
        with self._lock:
            entries = list(self._launches.values())
        found = [(entry, " ".join(doubts(entry.verdict))) for entry in entries]
        return [Failure(f"{entry.report.run.path}, launch {entry.launch}", said) for entry, said in found if said]

    def duplicates(self) -> list[Failure]:
        """Files whose content equals one that is already shown: ``where`` they lie, and which one it is."""
        with self._lock:
            return list(self._duplicates)

    def find(self, key: str, launch: int) -> Launch | None:
        """The launch at the address ``/kernel/<key>/<launch>``, or None."""
        with self._lock:
            return self._launches.get(address(key, launch))

    def siblings(self, entry: Launch) -> list[Launch]:
        """All launches of the same report, in their order."""
        with self._lock:
            same = [other for other in self._launches.values() if other.report is entry.report]
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

    def _load(self) -> None:
        try:
            opener, judge = self.opener or _open_reports, self.judge or _launch_verdict
            found = list(find_runs(self.paths))
            with self._lock:
                self._total = len(found)
            for start in range(0, len(found), BATCH):
                self._load_batch(found[start : start + BATCH], opener, judge)
        except Exception as error:
            log.exception("loading reports ended early")
            self._fail("loading", error)
        finally:
            with self._lock:
                self._finished = True

    def _load_batch(self, paths: list[Path], opener: Opener, judge: Judge) -> None:
        reports, failures = opener(paths)
        for failure in failures:
            self._fail(str(failure.path), failure.error)
        for report in reports:
            self._add(report, judge)
        with self._lock:
            self._done += len(paths)

    def _add(self, report: Any, judge: Judge) -> None:
        key = report.key[:KEY_LENGTH]
        with self._lock:
            known = key in self._keys
            self._keys.add(key)
            if known:
                twin = next((e.report.run.path for e in self._launches.values() if e.report.key == report.key), key)
                self._duplicates.append(Failure(str(report.run.path), f"same content as {twin}, shown once"))
        if known:
            return
        try:
            launches = [int(number) for number in report.launches["launch"]]
        except Exception as error:
            self._fail(str(report.run.path), error)
            return
        judged = [entry for number in launches if (entry := self._judge(report, number, judge)) is not None]
        with self._lock:
            self._launches |= {address(report.key, entry.launch): entry for entry in judged}

    def _judge(self, report: Any, number: int, judge: Judge) -> Launch | None:
        try:
            verdict = judge(report, number)
            return Launch(report, number, verdict, launch_row(report, number, verdict))
        except Exception as error:
            self._fail(f"{report.run.path}, launch {number}", error)
            return None

    def _fail(self, where: str, error: Exception | str) -> None:
        if isinstance(error, NcubbleError):
            failure = Failure(where, error.message, error.remedy)
        elif isinstance(error, Exception):
            log.error("%s: unexpected error", where, exc_info=error)
            failure = Failure(where, f"unexpected {type(error).__name__}: {error}", "report this as a bug of ncubble")
        else:
            failure = Failure(where, error)
        with self._lock:
            self._failures.append(failure)


def address(key: str, launch: int) -> str:
    """``<key>/<launch>`` as it stands in a kernel page's address and as the row's id."""
    return f"{key[:KEY_LENGTH]}/{launch}"


def default_paths(given: Iterable[Path], here: Path) -> list[Path]:
    """The paths to show: those given, else ``here/runs`` where it exists, else the recordings that are shipped."""
    from ncubble.recordings import ROOT

    chosen = list(given)
    if chosen:
        return chosen
    runs = here / "runs"
    return [runs] if runs.is_dir() else [ROOT]


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
