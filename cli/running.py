"""Shared parts of long-running commands: handling of signals, and output besides the result."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ncubble.errors import UsageError

if TYPE_CHECKING:
    from ncubble.analysis.traces.drawing import Drawing

EVENTS = ".json"
"""How a file of --perfetto ends that holds trace events."""


class _EndedError(Exception):
    """A signal ended the block; its number."""


@contextmanager
def ended_by_signals(kept: str = "nothing was kept") -> Iterator[None]:
    """Turn SIGTERM, SIGHUP and SIGINT into an exception in the block, so that it cleans up, and
    exit with 143, 129 or 130. ``kept``: what came of what it made."""

    def terminate(number: int, frame: Any) -> None:
        raise _EndedError(number)

    # What nohup has silenced stays so.
    heard = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, terminate) for number in heard}
    try:
        yield
    except (KeyboardInterrupt, _EndedError) as ended:
        number = ended.args[0] if isinstance(ended, _EndedError) else signal.SIGINT
        typer.echo(f"ncubble: interrupted; {kept}", err=True)
        raise typer.Exit(128 + number) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def pass_on(stream: str, text: str) -> None:
    """Write what a program prints to stderr: stdout is for the result."""
    sys.stderr.write(text)
    sys.stderr.flush()


def require_viewer_format(path: Path | None) -> None:
    """Raise UsageError, before anything runs, if the file of --perfetto cannot be written."""
    if path is None:
        return
    if path.suffix != EVENTS:
        from ncubble.analysis.traces.perfetto import require_perfetto

        require_perfetto()
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"--perfetto {path}: no file in a folder that exists", "name a file in a folder that exists")


def write_drawing_to(path: Path, drawing: Drawing, facts: dict[str, Any]) -> None:
    """Write tracks to the file of --perfetto, as trace events if it ends in .json, else in
    Perfetto's format; raises UsageError if that is not possible."""
    from ncubble.analysis.traces.perfetto import write_perfetto
    from ncubble.analysis.traces.trace_events import write_trace_events
    from ncubble.cli.render import finite
    from ncubble.store import draft_of

    write = write_trace_events if path.suffix == EVENTS else write_perfetto
    try:
        with draft_of(path, shared=True) as draft:
            write(draft, drawing, finite(facts))
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"--perfetto {path}: {why}", "name a file in a folder that exists") from error
