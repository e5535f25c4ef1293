"""What the commands of the gate share: reading reports, the console, and files that only they may replace."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ncubble.errors import GateError, MeasurementError
from ncubble.text.values import expression

if TYPE_CHECKING:
    from rich.console import Console

    from ncubble.analysis.report.report import Report, ReportFailure

PIPED_WIDTH = 150


def open_all(paths: list[Path], kernel: str) -> tuple[list[Report], list[ReportFailure]]:
    """All reports below ``paths``, and those that cannot be read; ``kernel`` must be a regular expression."""
    from ncubble.analysis.report.report import open_reports
    from ncubble.cli.terminal import reading

    expression(kernel, f"--kernel {kernel!r}")
    with reading() as progress:
        return open_reports(paths, progress)


def write(file: Path, text: str, code: int) -> None:
    """Write an output. Where that fails, a regression (``code`` 1) still ends the command with 1."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise unwritten(file, error, code) from error


def unwritten(place: Path, error: OSError, code: int) -> GateError | MeasurementError:
    """The error to raise where ``place`` cannot be written; a regression (``code`` 1) stays one."""
    kind = GateError if code == GateError.exit_code else MeasurementError
    return kind(f"{place}: could not be written ({error})", "check the path and its permissions")


def console() -> Console:
    """A console as wide as the terminal, or as COLUMNS says, else PIPED_WIDTH."""
    from rich.console import Console

    piped = None if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit() else PIPED_WIDTH
    return Console(highlight=False, width=piped)
