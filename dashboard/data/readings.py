"""What is known of a path, of a launch, and of the whole while reports are read. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ncubble.analysis.ablation.result import Ablation
from ncubble.analysis.diagnosis.results import readable_ablation
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.dashboard.data.index import Signature


class Opens(Protocol):
    """What gives a launch its report and its verdict: the store."""

    def report_of(self, entry: Entry) -> Any:
        """The report of a launch."""

    def verdict_of(self, entry: Entry) -> LaunchVerdict:
        """The verdict of a launch."""


@dataclass(frozen=True)
class Failure:
    """A report (or one launch of it) that could not be shown: where, and why."""

    where: str
    error: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One launch: its row of the table at once, its report and verdict when they are asked for."""

    key: str
    number: int
    row: Mapping[str, Any]
    path: Path
    doubt: str
    _store: Opens = field(repr=False, compare=False)

    @property
    def report(self) -> Any:
        """The report, opened anew if it was not looked at lately. Raises NcubbleError where that
        fails, or where another report lies in its place now."""
        return self._store.report_of(self)

    @property
    def launch(self) -> Any:
        """The ``Launch`` in its report; raises NcubbleError as ``report`` does."""
        return self.report.launch(self.number)

    @property
    def verdict(self) -> LaunchVerdict:
        """The verdict of this launch; raises NcubbleError as ``report`` does."""
        return self._store.verdict_of(self)

    @property
    def ablation(self) -> Ablation | None:
        """What was measured of this launch; None where nothing was, or the file is damaged, which
        the list of failures says."""
        return readable_ablation(self.path, self.number, [])


@dataclass(frozen=True)
class Reading:
    """What became of one path: ``state`` is queued, reading, shown, failed or duplicate; ``ids``
    are those of its rows.

    ``shown_as`` is the name under which people know it, where that is not its path.
    """

    path: Path
    state: str = "queued"
    shown_as: str = ""
    signature: Signature = ()
    key: str = ""
    ids: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    twin: str = ""

    @property
    def settled(self) -> bool:
        """Whether reading it has ended."""
        return self.state not in ("queued", "reading")


@dataclass(frozen=True)
class Progress:
    """How far loading has come. ``version`` changes whenever there is something new to show."""

    done: int
    total: int
    launches: int
    failures: int
    finished: bool
    version: int
