"""What commands that run for long have in common: ends by signals, and what they write beside their result."""

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
    import pandas as pd


class _EndedError(Exception):
    """A signal ended the block; its number."""


@contextmanager
def ended_by_signals(kept: str = "nothing was kept") -> Iterator[None]:
    """SIGTERM, SIGHUP and SIGINT end the block by an exception, so that it cleans up, and the command with 143, 129 or
    130. ``kept``: what came of what it made."""

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


def write_perfetto_to(path: Path, lanes: pd.DataFrame, facts: dict[str, Any]) -> None:
    """Write trace events of ``lanes`` to the file of --perfetto; raises UsageError where that is not possible."""
    from ncubble.analysis.traces.perfetto import write_perfetto
    from ncubble.cli.render import finite

    try:
        write_perfetto(path, lanes, finite(facts))
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"--perfetto {path}: {why}", "name a file in a folder that exists") from error
