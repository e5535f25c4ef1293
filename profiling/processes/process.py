"""Runs one program in its own process group, streams its output, and leaves no processes behind."""

from __future__ import annotations

import codecs
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from ncubble.errors import UsageError

Stream = Literal["stdout", "stderr"]

_GRACE_S = 3.0  # between SIGTERM and SIGKILL
_STUCK_S = 10.0  # SIGKILL ends everything except processes blocked in the kernel, e.g. by an unresponsive driver
_POLL_S = 0.2


class TimedOutError(Exception):
    """The program exceeded its limit and was stopped."""


def stream(
    argv: Sequence[str],
    env: Mapping[str, str],
    on_text: Callable[[Stream, str], None],
    timeout_s: float | None = None,
    folder: Path | None = None,
    before_end: Callable[[], None] = lambda: None,
    silence_s: float | None = None,
) -> int:
    """Run ``argv`` (no shell), hand over its output as it comes, return its exit status (negative:
    ended by a signal).

    It runs in ``folder``, by default in the current directory. ``before_end`` is called before a
    program that ran past its limit is ended, ``timeout_s`` in all or ``silence_s`` without a word.

    Whatever ends this call, an exception in ``on_text`` or an interrupt included, the whole process
    group is gone then, but for what the kernel does not let go: that is waited for no longer than
    10 s. Raises TimedOutError, and UsageError if the program cannot be started.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    with _explained(argv[0]):
        process = subprocess.Popen(
            list(argv),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            cwd=folder,
            start_new_session=True,  # its own group: an interrupt at the terminal reaches only us, and we kill it
        )
    try:
        _pump(process, on_text, deadline, silence_s)
        return process.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
    except (TimedOutError, subprocess.TimeoutExpired) as error:
        before_end()
        raise TimedOutError from error
    finally:
        end_group(process)


def require_program(program: Sequence[str]) -> None:
    """Raise UsageError if ``program``, an argv, is empty, or does not begin with a program that can
    be started."""
    if not program:
        raise UsageError("no program is named", "write it and its arguments after --, as: -- python train.py")
    if not shutil.which(program[0]):
        raise _no_program(program[0])


def _no_program(name: str) -> UsageError:
    if not Path(name).exists():
        return UsageError(f"no such program: {name!r}", "check its name and path")
    if os.sep in name:
        remedy = f"name an executable program; a script also by its interpreter: python {name}"
        return UsageError(f"cannot start {name!r}: it is not executable", remedy)
    return UsageError(f"no such program on PATH: {name!r}", f"write ./{name}, or name its interpreter: python {name}")


def ending(status: int) -> str:
    """How a program ended, by its exit status: ``exit code 3``, or ``SIGKILL`` for -9."""
    if status >= 0:
        return f"exit code {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


@contextmanager
def _explained(program: str) -> Iterator[None]:
    """The error for a program that could not be started, with the system's reason."""
    try:
        yield
    except FileNotFoundError as error:
        raise _no_program(program) from error
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"cannot start {program!r}: {why}", "name an executable program") from error


def _pump(
    process: subprocess.Popen[bytes],
    on_text: Callable[[Stream, str], None],
    deadline: float | None,
    silence_s: float | None,
) -> None:
    assert process.stdout and process.stderr  # noqa: S101 (PIPE was asked for)
    pipes: dict[int, Stream] = {process.stdout.fileno(): "stdout", process.stderr.fileno(): "stderr"}
    decoders = {number: codecs.getincrementaldecoder("utf-8")(errors="replace") for number in pipes}
    heard = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for number in pipes:
            selector.register(number, selectors.EVENT_READ)
        while selector.get_map():
            if deadline is not None and time.monotonic() > deadline:
                raise TimedOutError
            if silence_s is not None and time.monotonic() > heard + silence_s:
                raise TimedOutError
            ready = selector.select(_POLL_S)
            # A grandchild may hold the pipes open for ever: once the program is gone, silence is
            # the end.
            if not ready and process.poll() is not None:
                return
            if ready:
                heard = time.monotonic()
            for key, _ in ready:
                data = os.read(key.fd, 65536)
                on_text(pipes[key.fd], decoders[key.fd].decode(data, final=not data))
                if not data:
                    selector.unregister(key.fd)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End the remaining process group: SIGTERM, a grace period, SIGKILL. Safe to call if it is
    gone."""
    try:
        if process.poll() is None:
            _signal_group(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
    finally:  # a second interrupt during the grace period must not spare the group
        _signal_group(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_STUCK_S)
    for pipe in (process.stdout, process.stderr):
        if pipe:
            pipe.close()


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
