"""Programs that are run: one in its own process group, whose output is streamed and which leaves no
processes behind (``stream``); and programs that answer requests, one JSON object a line, and may
crash, hang or run out of memory alone (``ServingProcess``; ``answer_requests`` and ``limit_memory``
are for the program).
"""

from __future__ import annotations

import codecs
import json
import os
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from ncubble.errors import MeasurementError, UsageError

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
    silence_s: Callable[[], float | None] = lambda: None,
) -> int:
    """Run ``argv`` (no shell), hand over its output as it comes, return its exit status (negative:
    ended by a signal).

    It runs in ``folder``, by default in the current directory. ``before_end`` is called before a
    program that ran past its limit is ended, ``timeout_s`` in all or what ``silence_s`` returns
    without a word.

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


class LineSplitter:
    """Takes output as it comes (for ``stream``), and calls ``on_line`` with each line; ``close``
    gives it the ``rest``, which had no end yet."""

    def __init__(self, on_line: Callable[[Stream, str], None]) -> None:
        self._on_line = on_line
        self.rest: dict[Stream, str] = {"stdout": "", "stderr": ""}

    def __call__(self, stream: Stream, text: str) -> None:
        """The next piece."""
        *lines, self.rest[stream] = (self.rest[stream] + text).split("\n")
        for line in lines:
            self._on_line(stream, line)

    def close(self) -> None:
        """The output has ended, maybe within a line."""
        for stream, rest in self.rest.items():
            if rest:
                self._on_line(stream, rest)


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
    silence_s: Callable[[], float | None],
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
            if (silent_s := silence_s()) is not None and time.monotonic() > heard + silent_s:
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


MARKS = (
    "CUDA_INJECTION64_PATH",
    "NV_COMPUTE_PROFILER_PERFWORKS_DIR",
    "NV_TPS_LAUNCH_TOKEN",
    "NSYS_PROFILING_SESSION_ID",
    "NVIDIA_PROCESS_INJECTION_CRASH_REPORTING",
)
"""Variables that profilers set for what they start: libraries for injection the first, ncu the
second and third, nsys the fourth, both the last. NVIDIA documents the first only."""


def active_profiler(env: Mapping[str, str]) -> str:
    """The variable that tells of one; empty where none does."""
    return next((name for name in MARKS if env.get(name)), "")


def refuse_inside_profiler(env: Mapping[str, str]) -> None:
    """Raise MeasurementError where another profiler has this process, which would have the program,
    too."""
    if taken := active_profiler(env):
        message = f"another profiler is active here ({taken} is set)"
        raise MeasurementError(message, "run `ncubble streams` outside of ncu and nsys, and unset that variable")


_DYING_S = 2.0


class ServerDiedError(Exception):
    """A program ended before its answer, because it showed no progress if ``expired``; ``status``
    as of ``Popen``."""

    def __init__(self, expired: bool, status: int) -> None:
        super().__init__(ending(status))
        self.expired, self.status = expired, status


class ServingProcess:
    """``python -m module``, started when first asked and again after each death.

    For one thread at a time, but for ``end``. ``environment`` returns the variables to add at each
    start. With ``own_group`` an interrupt at the terminal does not reach the program, and what it
    has started ends with it.
    """

    def __init__(
        self, module: str, environment: Callable[[], Mapping[str, str]] = dict, own_group: bool = False
    ) -> None:
        self.module, self.environment, self.own_group = module, environment, own_group
        self.process: subprocess.Popen[str] | None = None

    def ask(
        self, request: Mapping[str, Any], silent_s: float, meanwhile: Callable[[], object] = lambda: None
    ) -> dict[str, Any]:
        """Return the answer to a request; lines with a member ``at`` that come before it show
        progress. ``meanwhile`` is called once the program has the request.

        Raises ServerDiedError where the program ends before it, or shows no progress for
        ``silent_s``, and OSError where it cannot be started.
        """
        process, expired = self._started(), threading.Event()
        assert process.stdin is not None  # noqa: S101
        with suppress(BrokenPipeError, ValueError):
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        meanwhile()
        with suppress(ValueError):
            while line := self._line(process, silent_s, expired):
                answer: dict[str, Any] = json.loads(line)
                if "at" not in answer:
                    if expired.is_set():  # it arrived just before the end
                        self.close()
                    return answer
        raise ServerDiedError(expired.is_set(), self.close(_DYING_S))

    def _line(self, process: subprocess.Popen[str], silent_s: float, expired: threading.Event) -> str:
        """The next line of the answer; empty once the process is gone."""
        assert process.stdout is not None  # noqa: S101

        def expire() -> None:
            expired.set()
            self._kill(process)

        timer = threading.Timer(silent_s, expire)
        timer.start()
        try:
            return process.stdout.readline()
        finally:
            timer.cancel()

    def _started(self) -> subprocess.Popen[str]:
        if self.process is None or _has_ended(self.process):
            self.close()
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", self.module],  # -P: nothing is imported from the working directory
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=self.own_group,
                env={**os.environ, **self.environment()},
            )
        return self.process

    def end(self) -> None:
        """End what the program is doing, from any thread."""
        if (process := self.process) is not None:
            self._kill(process)

    def close(self, patience_s: float = 0.0) -> int:
        """End the program, unless it does so by itself within ``patience_s``, and return its exit
        status."""
        process, self.process = self.process, None
        if process is None:
            return 0
        assert process.stdin is not None and process.stdout is not None  # noqa: S101
        with suppress(OSError):
            process.stdin.close()
        deadline = time.monotonic() + patience_s
        while not _has_ended(process) and time.monotonic() < deadline:
            time.sleep(0.02)
        self._kill(process)
        status = process.wait()
        process.stdout.close()
        return status

    def _kill(self, process: subprocess.Popen[str]) -> None:
        with suppress(ProcessLookupError, PermissionError):
            (os.killpg if self.own_group else os.kill)(process.pid, signal.SIGKILL)


def _has_ended(process: subprocess.Popen[str]) -> bool:
    """Whether a process has ended. It is not collected yet, so that its id and its group are no one
    else's."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def limit_memory(limit_b: int) -> None:
    """Let whatever asks for absurd amounts of memory fail, or end this process, and leave no core
    file."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit_b if hard == resource.RLIM_INFINITY else min(hard, limit_b), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def resident_b() -> int:
    """Memory that this process holds. Not its peak, which begins as that of the process that
    started it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def answer_requests(answer: Callable[[dict[str, Any], Callable[[], None]], Mapping[str, Any]]) -> None:
    """Answer requests from stdin until it closes; ``answer`` also gets what to call whenever it
    gets further."""
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)  # output of native code is not an answer

        def send(line: Mapping[str, Any]) -> None:
            replies.write(json.dumps(line) + "\n")
            replies.flush()

        for line in sys.stdin:
            send(answer(json.loads(line), lambda: send({"at": time.monotonic()})))
