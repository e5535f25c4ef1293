"""Programs that answer requests, one JSON object a line, and may crash, hang or run out of memory
alone.

``ServingProcess`` starts such a program and asks it; ``answer_requests`` and ``limit_memory`` are
for the program.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ncubble.profiling.processes.process import ending

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
