"""A log that stays small however many requests go wrong."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

MOST, WINDOW_S = 50, 600.0
"""Maximum messages per time window (a traceback is one); further messages are only counted."""


@dataclass
class RateLimit:
    """A filter for handlers that lets ``most`` messages pass in ``window_s``; the first one after
    that says how many were left out."""

    most: int = MOST
    window_s: float = WINDOW_S
    _began: float = field(default_factory=time.monotonic)
    _seen: int = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write a message. Handlers of several threads ask under their own locks: a
        count may be off by a few."""
        if (now := time.monotonic()) - self._began > self.window_s:
            left_out, self._began, self._seen = max(0, self._seen - self.most), now, 0
            if left_out:
                record.msg, record.args = f"{record.getMessage()} ({left_out} earlier messages were left out)", ()
        self._seen += 1
        return self._seen <= self.most


def limit_log() -> None:
    """Limit what this process writes of ncubble, and of libraries that have no handler."""
    limit = RateLimit()
    for handler in (*logging.getLogger("ncubble").handlers, logging.lastResort):
        if handler is not None:
            handler.addFilter(limit)
