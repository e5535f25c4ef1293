"""What commands that run for long have in common: ends by signals, and what they write beside their result."""

from __future__ import annotations

import signal
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
def ended_by_signals(said: str = "nothing was kept") -> Iterator[None]:
    """SIGTERM, SIGHUP and SIGINT end the block by an exception, so that it cleans up, and the command with 143, 129 or
    130. ``said``: what came of what it made."""

    def terminate(number: int, frame: Any) -> None:
        raise _EndedError(number)

    # What nohup has silenced stays so.
    heard = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN]
    before = {one: signal.signal(one, terminate) for one in heard}
    try:
        yield
    except (KeyboardInterrupt, _EndedError) as ended:
        number = ended.args[0] if isinstance(ended, _EndedError) else signal.SIGINT
        typer.echo(f"ncubble: interrupted; {said}", err=True)
        raise typer.Exit(128 + number) from None
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def write_perfetto_to(path: Path, lanes: pd.DataFrame, told: dict[str, Any]) -> None:
    """Write trace events of ``lanes`` to the file of --perfetto; raises UsageError where that is not possible."""
    from ncubble.analysis.traces.perfetto import write_perfetto
    from ncubble.cli.render import finite

    try:
        write_perfetto(path, lanes, finite(told))
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"--perfetto {path}: {why}", "name a file in a folder that exists") from error
