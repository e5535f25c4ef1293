"""What a worker does: one job at a time, each in a child process of its own, and what came of it as
a ``Reply``.

The child is a program that is started with a folder: it finds ``order.json`` there, writes the run
directory ``run`` and ``result.json``, and ends with 0. Whatever else happens to it is a failure of
the job. Nothing of it is left behind.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import os
import platform
import re
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ncubble.errors import MeasurementError
from ncubble.profiling import orphans, processes, provenance, ranks
from ncubble.profiling.scratch import abandoned, scratch
from ncubble.profiling.sweeps.job import Attempt, Machine, Reply
from ncubble.store import LockFile

log = logging.getLogger(__name__)
PREFIX = "ncubble-job-"
ORDER, RESULT, RUN = "order.json", "result.json", "run"
PROBE = "probe"
PROBE_LIMIT_S = 180.0
BUSY_S = 3600.0
LET_GO_S = 120.0
SIGN_S = 10.0
_TAIL = 12
_LOOK_S, _BRIEF_S = 0.05, 2.0
_STICKY = re.compile(
    r"CUDA_ERROR_(?:ILLEGAL_ADDRESS|LAUNCH_TIMEOUT|ASSERT|HARDWARE_STACK_ERROR|ILLEGAL_INSTRUCTION|MISALIGNED_ADDRESS"
    r"|INVALID_ADDRESS_SPACE|INVALID_PC|LAUNCH_FAILED|ECC_UNCORRECTABLE|NVLINK_UNCORRECTABLE|CONTAINED)\w*"
    r"|cudaError(?:IllegalAddress|LaunchTimeout|Assert|HardwareStackError|IllegalInstruction|MisalignedAddress"
    r"|InvalidAddressSpace|InvalidPc|LaunchFailure|ECCUncorrectable)"
    r"|LaunchFailed|an illegal memory access was encountered|unspecified launch failure|misaligned address"
    r"|an illegal instruction was encountered|device-side assert"
)
"""Errors after which a CUDA context is unusable (CUDA driver API, ``CUresult``: "This leaves the
process in an inconsistent state"), by the driver's, the runtime's and their messages' names."""
_numbers = itertools.count()


def run_job(
    order: Mapping[str, Any],
    child: Sequence[str],
    limit_s: float,
    machine: Mapping[str, Any],
    apart: bool = False,
    say: Callable[[str], None] = log.info,
) -> Reply:
    """Do one job on the GPU of ``machine`` (``asdict`` of a ``Machine``); never raises for what the
    job does.

    ``child`` is what follows the interpreter in the child's argv. ``apart``: other GPUs of this
    host are profiled at the same time. ``say`` is told what the job waits for outside of its limit,
    and every 10 s that it still waits ("").
    """
    here = Machine.from_dict(machine)
    tidy()
    with gpu_lock(here.uuid, say) as refusal, scratch(Path(tempfile.gettempdir()), PREFIX, {}) as work:
        started, begun = provenance.utc_now(), time.monotonic()
        if refusal:
            return Reply(Attempt("unable", started, host=here.host, gpu=here.uuid, error=refusal, exit_code=3))
        (work / ORDER).write_text(json.dumps(dict(order)), encoding="utf-8")
        raw, suspect, killed = _run_child(child, work, _environment(here, apart), limit_s)
        attempt = Attempt(
            started=started,
            ended=provenance.utc_now(),
            seconds=round(time.monotonic() - begun, 3),
            host=here.host,
            gpu=here.uuid,
            **raw,
        )
        if stuck := _let_go(killed, say):
            attempt = replace(attempt, error=f"{attempt.error}; {stuck} after {LET_GO_S:g} s")
        return Reply(attempt, suspect, _files(work / RUN) if attempt.state in ("ok", "incomplete") else {})


def probe(child: Sequence[str]) -> Machine:
    """What this worker's machine is, asked in a child, so that no driver is loaded here; never
    raises."""
    host = platform.node()
    tidy()
    with scratch(Path(tempfile.gettempdir()), PREFIX, {}) as work:
        (work / ORDER).write_text(json.dumps({PROBE: True}), encoding="utf-8")
        raw, _, _ = _run_child(child, work, {}, PROBE_LIMIT_S, probing=True)
    if raw.get("error"):
        return Machine(host=host, why_not=str(raw["error"]))
    return Machine.from_dict({**raw, "host": host})


def tidy() -> None:
    """End what workers that died have left running on this host, and remove what they have left
    lying."""
    orphans.end_orphans()
    for left in abandoned(Path(tempfile.gettempdir()), PREFIX):
        log.info("%s: left behind by a worker that died", left.work)


def end_jobs() -> int:
    """End whatever this process has children do now; returns how many processes there were."""
    return orphans.end_marked(orphans.mark(""))


async def leave() -> None:
    """End this worker process at once; its nanny starts another."""
    end_jobs()
    os.kill(os.getpid(), signal.SIGKILL)


def _run_child(
    child: Sequence[str], work: Path, env: Mapping[str, str], limit_s: float, probing: bool = False
) -> tuple[dict[str, Any], bool, list[orphans.Process]]:
    """What the child wrote into its result (or, where it wrote none, how it ended), whether that is
    suspect, and the processes that were ended at the time limit."""
    token = orphans.mark(str(next(_numbers)))
    own = {orphans.MARK: token, orphans.PARENT: str(os.getpid())}
    tail: deque[str] = deque(maxlen=_TAIL)
    argv, text = [sys.executable, *child, str(work)], {"stdout": "", "stderr": ""}
    killed: list[orphans.Process] = []

    def hear(stream: processes.Stream, piece: str) -> None:
        *lines, text[stream] = (text[stream] + piece).split("\n")
        tail.extend(line for line in lines if line.strip())

    def note() -> None:
        killed.extend(orphans.with_mark(token))

    try:
        # A worker started by srun or mpirun has a rank; its jobs are not ranks of one program.
        inherited = {name: value for name, value in os.environ.items() if name not in ranks.VARIABLES}
        status = processes.stream(argv, {**inherited, **env, **own}, hear, limit_s, before_end=note)
    except processes.TimedOutError:
        what = f"time limit of {limit_s:g} s reached: the job and its child processes were killed"
        return _failed(f"the GPU's driver has not answered for {limit_s:g} s" if probing else what), not probing, killed
    finally:
        orphans.end_marked(token)
    tail.extend(line for line in text.values() if line.strip())
    try:
        raw = json.loads((work / RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        last = "".join(f"\n    {line}" for line in tail) or " no output"
        ended = f"{'ended with' if status >= 0 else 'was ended by'} {processes.ending(status)}"
        return _failed(f"the job's process {ended}, and left no result; its last output:{last}"), True, []
    return raw, bool(_STICKY.search(str(raw.get("error", "")))), []


def _let_go(killed: Sequence[orphans.Process], say: Callable[[str], None]) -> str:
    """Wait until the driver has let go of processes that were ended: the next job's limit would
    pass meanwhile. Returns which are still there after ``LET_GO_S``, in words."""
    announced, deadline = False, time.monotonic() + LET_GO_S
    left = orphans.outlast(killed, _BRIEF_S)
    while left and time.monotonic() < deadline:
        say("" if announced else f"waiting for the driver to release the killed process ( {left[0]})")
        announced = True
        left = orphans.outlast(killed, min(SIGN_S, deadline - time.monotonic()))
    return f"the driver has not released process {', '.join(map(str, left))}" if left else ""


def _failed(error: str) -> dict[str, Any]:
    return {"state": "failed", "error": error, "remedy": "", "exit_code": 3}


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def _environment(machine: Machine, apart: bool) -> dict[str, str]:
    """ncu lets one process of a host profile at a time, by a lock in TMPDIR, whatever their GPUs
    are. Counters belong to a GPU, so that jobs on different GPUs need not wait for each other: then
    each GPU has a TMPDIR of its own."""
    env = {"CUDA_VISIBLE_DEVICES": machine.uuid} if machine.uuid else {}
    if machine.uuid and (apart or gpus_of_host() > 1):
        own = Path(tempfile.gettempdir()) / f"ncubble-{os.getuid()}-{_short(machine.uuid)}"
        own.mkdir(mode=0o700, exist_ok=True)
        if own.is_symlink() or own.stat().st_uid != os.getuid():
            raise PermissionError(f"{own} belongs to another user")
        env["TMPDIR"] = str(own)
    return env


def gpus_of_host() -> int:
    """GPUs that the driver lists on this host, visible to CUDA here or not; 0 where it does not
    say."""
    return len(list(Path("/proc/driver/nvidia/gpus").glob("*")))


@contextmanager
def gpu_lock(uuid: str, say: Callable[[str], None] = log.info) -> Iterator[str]:
    """Held by one process of this user and host at a time for each GPU: its counters serve one
    profiler at a time.

    Yields why it is not had: another process has held it for an hour, or no lock file can be; else
    nothing. It is the descriptor's: no child inherits it, and whatever becomes of a job's
    processes, it ends with the worker.
    """
    if not uuid:
        yield ""
        return
    with ExitStack() as stack:
        try:
            path = Path(tempfile.gettempdir()) / f"ncubble-{os.getuid()}-{_short(uuid)}.lock"
            refusal = _refusal(stack.enter_context(LockFile(path)), uuid, say)
        except MeasurementError as error:
            refusal = f"{error.message}; {error.remedy}"
        yield refusal


def _refusal(file: LockFile, uuid: str, say: Callable[[str], None]) -> str:
    begun = signed = time.monotonic()
    while not file.acquire():
        now = time.monotonic()
        if signed == begun or now - signed > SIGN_S:
            say(f"waiting for {uuid}: another sweep measures on it, {file.holder()}" if signed == begun else "")
            signed = now
        if now - begun > BUSY_S:
            return f"another sweep has used {uuid} for {BUSY_S:g} s: {file.holder()}"
        time.sleep(_LOOK_S)
    if signed > begun:
        say("")
    return ""


def _short(uuid: str) -> str:
    return f"gpu-{hashlib.sha256(uuid.encode()).hexdigest()[:12]}"
