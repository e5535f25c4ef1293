"""Open reports that were looked at lately, so that the next page of one is made without opening it
again."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MOST = 16
MOST_B = 64 << 20
"""Bytes of frames that are kept of reports no page is being made of."""

WEIGH_S = 1.0
"""How often growing frames are weighed: a page asks for its report many times."""


@dataclass
class Held:
    """Reports by path, the last one looked at last. At least one is kept, whatever it weighs."""

    _reports: OrderedDict[Path, Any] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _weighed: float = 0.0

    def get(self, path: Path) -> Any | None:
        """The report at ``path`` if it is held. Frames grow while pages are made, so others may go
        now."""
        with self._lock:
            report = self._reports.get(path)
            if report is not None:
                self._reports.move_to_end(path)
                if time.monotonic() - self._weighed > WEIGH_S:
                    self._lighten()
            return report

    def put(self, path: Path, report: Any) -> None:
        """Hold a report, and let go of those that were not looked at for longest."""
        with self._lock:
            self._reports[path] = report
            self._reports.move_to_end(path)
            self._lighten()

    def drop(self, path: Path) -> None:
        """Let go of what has changed."""
        with self._lock:
            self._reports.pop(path, None)

    def _lighten(self) -> None:
        self._weighed = time.monotonic()
        weights = [getattr(report, "held_B", 0) for report in self._reports.values()]
        while len(weights) > 1 and (len(weights) > MOST or sum(weights) > MOST_B):
            self._reports.popitem(last=False)
            weights.pop(0)
