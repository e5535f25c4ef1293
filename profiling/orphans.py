"""Ensures that no process outlives its supervisor: children are tied to their parent, and escaped
ones are found by a mark.

A mark is an environment variable, which every descendant inherits, whatever process group or
session it moves to.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

MARK = "NCUBBLE_SWEEP_JOB"
"""``PID-START-NUMBER`` of the supervising process: its id, and its start time relative to boot."""
PARENT = "NCUBBLE_SWEEP_PARENT"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PF_KTHREAD = 0x00200000  # linux/sched.h
_FLAGS, _ENV_START, _STARTTIME = 6, 47, 19  # among the fields of /proc/PID/stat from the state on (proc(5), 3)
_PASSES = 5
_PAUSE_S = 0.05


def tie_to_parent() -> bool:
    """Have the kernel send SIGTERM when the process named in ``PARENT`` ends; False where it has
    already.

    Linux ties a child to the *thread* that started it, which here is the one thread in which a
    worker runs jobs.
    """
    parent = os.environ.get(PARENT, "")
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    return parent in ("", str(os.getppid()))


def mark(number: str) -> str:
    """A mark for one job of this process."""
    return f"{os.getpid()}-{_started(os.getpid())}-{number}"


def end_marked(text: str) -> int:
    """SIGKILL all processes whose mark has this prefix, except this one; returns their number."""
    ended = 0
    for _ in range(_PASSES):  # a process may fork while the others are killed
        processes, unknown = _marked()
        pids = [pid for pid, own in processes if own.startswith(text)]
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        ended += len(pids)
        if not pids and not unknown:
            break
        time.sleep(_PAUSE_S)
    return ended


def end_orphans() -> int:
    """SIGKILL all marked processes of this user whose supervisor is dead; returns their number."""
    ended = 0
    for _ in range(_PASSES):
        processes, unknown = _marked()
        dead = {own for _, own in processes if not _supervised(own)}
        ended += sum(end_marked(own) for own in sorted(dead))
        if not unknown:
            break
        time.sleep(_PAUSE_S)
    return ended


def marked() -> list[tuple[int, str]]:
    """Process id and mark of every other process of this user that has one and has not ended."""
    return _marked()[0]


def _marked() -> tuple[list[tuple[int, str]], bool]:
    """What ``marked`` returns, and whether there are processes of this user that could not be
    asked.

    A process that sleeps in the kernel is not asked: it may hold the lock on its memory, as in a
    call of a driver that does not answer, and whoever reads its environment then sleeps with it.
    One within execve has no environment yet.
    """
    needle, processes, unknown = f"{MARK}=".encode(), [], False
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        try:
            if pid == os.getpid() or folder.stat().st_uid != os.geteuid():
                continue
            fields = _fields(folder / "stat")
            if not fields or fields[0] in ("Z", "X") or int(fields[_FLAGS]) & _PF_KTHREAD:
                continue
            if fields[0] == "D":
                unknown = True
                continue
            environment = (folder / "environ").read_bytes()
            unknown = unknown or (not environment and _within_execve(folder / "stat"))
        except OSError:  # not accessible, or gone
            continue
        for entry in environment.split(b"\0"):
            if entry.startswith(needle):
                processes.append((pid, entry[len(needle) :].decode(errors="replace")))
    return processes, unknown


def _within_execve(stat: Path) -> bool:
    """Whether a process whose environment read as empty is about to have one, or has one by now."""
    start, end = _fields(stat)[_ENV_START : _ENV_START + 2] or ("", "")
    return start == "0" or start != end


Process = tuple[int, str]
"""Id and start time of a process, unique across all processes."""


def with_mark(text: str) -> list[Process]:
    """The processes whose mark begins so."""
    return [(pid, _started(pid)) for pid, own in marked() if own.startswith(text)]


def outlast(processes: Iterable[Process], limit_s: float) -> list[Process]:
    """Wait until processes that were ended are gone, ``limit_s`` at most; returns those that are
    not.

    One that was using a GPU may take long: the driver has to stop its kernel first.
    """
    left, deadline = list(processes), time.monotonic() + limit_s
    while (left := [process for process in left if _there(process)]) and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
    return left


def _there(process: Process) -> bool:
    """Whether any thread of it has not ended: the first may, long before the others."""
    pid, started = process
    if _fields(Path(f"/proc/{pid}/stat"))[_STARTTIME : _STARTTIME + 1] != [started]:
        return False
    return any(_state(path) not in ("", "Z", "X") for path in Path(f"/proc/{pid}/task").glob("*/stat"))


def _supervised(own: str) -> bool:
    pid, _, rest = own.partition("-")
    return pid.isdigit() and _started(int(pid)) == rest.partition("-")[0] != ""


def _started(pid: int) -> str:
    """Start of a process in clock ticks since boot; empty where there is none (proc(5), field 22 of
    stat)."""
    fields = _fields(Path(f"/proc/{pid}/stat"))
    return "" if not fields or fields[0] in ("Z", "X") else fields[_STARTTIME]


def _state(stat: Path) -> str:
    return next(iter(_fields(stat)), "")


def _fields(stat: Path) -> list[str]:
    """Of a process or thread, from its state on; none where it is gone."""
    try:
        return stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
