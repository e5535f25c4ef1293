"""Programs that a command runs for its user: how they are started, ended by signals, and named when they fail."""

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


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM, SIGHUP and SIGINT end the block by an exception, so that what it made is removed: 143, 129, 130."""

    def terminate(number: int, frame: Any) -> None:
        raise typer.Exit(128 + number)

    # What nohup has silenced stays so.
    heard = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN]
    before = {one: signal.signal(one, terminate) for one in heard}
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("ncubble: interrupted; nothing was kept", err=True)
        raise typer.Exit(130) from None
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@contextmanager
def told_if_not_started(program: str) -> Iterator[None]:
    """Says which program could not be started, and why, where the system does."""
    try:
        yield
    except FileNotFoundError as error:
        raise UsageError(f"no such program: {program!r}", "check the path of what follows --") from error
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"cannot start {program!r}: {why}", "name a program that can be executed") from error


def write_perfetto_to(path: Path, lanes: pd.DataFrame, told: dict[str, Any]) -> None:
    """Write trace events of ``lanes`` to the file of --perfetto; raises UsageError where that is not possible."""
    from ncubble.analysis.perfetto import write_perfetto
    from ncubble.cli.render import finite

    try:
        write_perfetto(path, lanes, finite(told))
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"--perfetto {path}: {why}", "name a file in a folder that exists") from error
