"""Prints warnings of the libraries to stderr, one line each."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

from ncubble.cli.render import printable


class _Line(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """One line without control characters: the names of files and kernels are part of it."""
        return f"ncubble: {printable(record.getMessage())}"


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to what ``sys.stderr`` is at that moment: a progress bar that is being drawn takes it over."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(_Line())

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


def show_notes() -> None:
    """Print the warnings of all rooms from now on. A second call does nothing."""
    logger = logging.getLogger("ncubble")
    if not any(isinstance(handler, _Stderr) for handler in logger.handlers):
        logger.addHandler(_Stderr())
