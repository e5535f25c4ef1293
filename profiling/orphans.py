"""No process outlives the one that it works for: children tied to their parent, and what slipped away found by a mark.

A mark is an environment variable, which every descendant inherits, whatever process group or session it moves to.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MARK = "NCUBBLE_SWEEP_JOB"
"""``PID-START-NUMBER`` of the process that supervises: its id, and the boot-relative time at which it started."""
PARENT = "NCUBBLE_SWEEP_PARENT"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PASSES = 5
_PAUSE_S = 0.05


def tie_to_parent() -> None:
    """Have the kernel send SIGTERM when the process named in ``PARENT`` ends; exit at once where it has already.

    Linux ties a child to the *thread* that started it, which here is the one thread in which a worker runs jobs.
    """
    parent = os.environ.get(PARENT, "")
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if parent and parent != str(os.getppid()):
        os._exit(1)


def mark(number: str) -> str:
    """A mark for one job of this process."""
    return f"{os.getpid()}-{_started(os.getpid())}-{number}"


def end_marked(text: str) -> int:
    """SIGKILL all processes whose mark begins so; returns how many there were. This process is spared."""
    ended = 0
    for _ in range(_PASSES):  # a process may fork while the others are ended
        found = [pid for pid, own in marked() if own.startswith(text)]
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        ended += len(found)
        if not found:
            break
        time.sleep(_PAUSE_S)
    return ended


def end_orphans() -> int:
    """SIGKILL all marked processes of this user whose supervisor is dead; returns how many there were."""
    dead = {own for _, own in marked() if not _supervised(own)}
    return sum(end_marked(own) for own in sorted(dead))


def marked() -> Iterator[tuple[int, str]]:
    """Process id and mark of every other process of this user that has one and has not ended."""
    needle = f"{MARK}=".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:  # of another user, or gone
            continue
        for entry in environment.split(b"\0"):
            if entry.startswith(needle) and int(folder.name) != os.getpid():
                yield int(folder.name), entry[len(needle) :].decode(errors="replace")


def _supervised(own: str) -> bool:
    pid, _, rest = own.partition("-")
    return pid.isdigit() and _started(int(pid)) == rest.partition("-")[0] != ""


def _started(pid: int) -> str:
    """Start of a process in clock ticks since boot; empty where there is none (proc(5), field 22 of stat)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] in ("Z", "X") else fields[19]
