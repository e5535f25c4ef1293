"""Takes measurements in a process of their own: what fails, hangs or crashes costs its own figures
only."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import queue
import signal
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.claims.measurements.compile_checks import ARCH
from benchmarks.claims.measurements.tools import compile_all
from benchmarks.claims.registry import KNOWN, load_all
from benchmarks.harness.command import module
from ncubble.errors import NcubbleError

PROGRAM = tuple(module("claims"))
PROBING = {
    f"benchmarks.claims.measurements.{name}" for name in ("probe_runs", "layout_runs", "stream_runs", "memory_runs")
}
MANY = 3  # measurements with probes, from which on all probes are compiled at once
PR_SET_PDEATHSIG = 1  # linux/prctl.h
START_S = 60.0  # imports and the first context of a fresh worker
Told = dict[str, Any]  # {"values": …, "seconds": …} or {"failed": reason}
Say = Callable[[str, Told], None]


def take(names: Iterable[str], say: Say) -> dict[str, Told]:
    """What came of every measurement named, told to ``say`` at once. Those that need no GPU run
    beside the others."""
    known = load_all()
    wanted = list(names)
    halves = [[name for name in wanted if known[name].needs_gpu is gpu] for gpu in (True, False)]
    with ThreadPoolExecutor(2) as pool:
        found = {
            name: told for half in pool.map(lambda half: _in_turn(half, say), halves) for name, told in half.items()
        }
    return {name: found[name] for name in wanted}


def _in_turn(names: list[str], say: Say) -> dict[str, Told]:
    found: dict[str, Told] = {}
    pending = list(names)
    while pending:
        with _Worker(pending) as worker:
            while pending:
                name = pending.pop(0)
                told = found[name] = worker.next(name)
                say(name, told)
                if "failed" in told:
                    break  # a fault of the device outlives its cause: go on in a fresh process
    return found


class _Worker:
    """A process that takes the measurements named, one after the other, and tells each outcome in a
    line."""

    def __init__(self, names: list[str]) -> None:
        argv = [*PROGRAM, "--worker", *names]
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self._lines: queue.Queue[str] = queue.Queue()
        self._fresh = True
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def next(self, name: str) -> Told:
        limit = KNOWN[name].timeout_s + (START_S if self._fresh else 0.0)
        self._fresh = False
        try:
            line = self._lines.get(timeout=limit)
        except queue.Empty:
            return {"failed": f"did not end within {limit:.0f} s"}
        if not line:
            return {"failed": f"the process ended with {self._process.wait(timeout=10)}"}
        told: dict[str, Any] = json.loads(line)
        if told.pop("name") != name:
            raise RuntimeError(f"the worker told of another measurement than {name}")
        return told

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # its own session: nobody else is in that group
        self._process.wait()


def work(names: list[str]) -> None:
    """The worker's side: a line of JSON per measurement; ends after the first that fails."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # nobody is left to end a worker without its parent
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print must not be taken for an outcome
    known = load_all()
    if sum(known[name].run.__module__ in PROBING for name in names) > MANY:
        with contextlib.suppress(NcubbleError):  # whoever needs the probe says so
            compile_all(ARCH)
    for name in names:
        start = time.monotonic()
        try:
            told: dict[str, Any] = {"values": known[name].take()}
        except BaseException as error:
            traceback.print_exc()
            told = {"failed": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300]}
        out.write(json.dumps({"name": name, **told, "seconds": round(time.monotonic() - start, 2)}) + "\n")
        out.flush()
        if "failed" in told:
            return
