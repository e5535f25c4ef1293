"""What a worker does: one job at a time, each in a child process of its own, and what came of it as
a ``Reply``.

The child is a program that is started with a folder: it finds ``order.json`` there, writes the run
directory ``run`` and ``result.json``, and ends with 0. Whatever else happens to it is a failure of
the job. Nothing of it is left behind, and nothing of CUDA is ever loaded into a worker, so that a
GPU error ends with its job.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import os
import platform
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ncubble.errors import MeasurementError
from ncubble.profiling import orphans, processes, ranks
from ncubble.profiling.provenance import utc_now
from ncubble.profiling.runs import Members
from ncubble.profiling.scratch import abandoned, scratch
from ncubble.profiling.sweeps.store import DONE, Attempt, Machine, Reply, SweepJob
from ncubble.records import typed
from ncubble.store import lock

log = logging.getLogger(__name__)
PREFIX = "ncubble-job-"
ORDER, RESULT, RUN = "order.json", "result.json", "run"
PROBE = "probe"
PROBE_LIMIT_S = 180.0
BUSY_S = 3600.0
LET_GO_S, BRIEF_S = 120.0, 2.0
_TAIL = 12
_numbers = itertools.count()


class NoWorkerError(MeasurementError):
    """No worker is left that can measure."""

    def __init__(self, reasons: Iterable[str]) -> None:
        listed = "".join(f"\n    {reason}" for reason in dict.fromkeys(reasons)) or " none joined the cluster"
        super().__init__(
            f"no worker can measure:{listed}",
            "fix one of them (`ncubble doctor --gpu` on it shows what is missing): the same command continues with the "
            "missing jobs",
        )


def run_job(
    order: Members, child: Sequence[str], limit_s: float, here: Machine, say: Callable[[str], None] = log.info
) -> Reply:
    """Do one job on the GPU of the machine ``here``; never raises for what the job does.

    ``child`` is what follows the interpreter in the child's argv. ``say`` is told what the job
    waits for outside of its limit: another sweep that uses the GPU (its counters serve one profiler
    at a time), or the driver.
    """
    tidy()
    started, begun = utc_now(), time.monotonic()
    try:
        with (
            lock(f"gpu-{here.uuid or 'any'}", f"GPU {here.uuid}", BUSY_S, say),
            scratch(Path(tempfile.gettempdir()), PREFIX, {}) as work,
        ):
            started, begun = utc_now(), time.monotonic()
            (work / ORDER).write_text(json.dumps(dict(order)), encoding="utf-8")
            raw, killed = _run_child(child, work, _environment(here), limit_s)
            seconds = round(time.monotonic() - begun, 3)
            attempt = Attempt(**raw, started=started, ended=utc_now(), seconds=seconds, host=here.host, gpu=here.uuid)
            if stuck := _let_go(killed, say):
                attempt = replace(attempt, error=f"{attempt.error}; {stuck}")
            files = {path.name: path.read_bytes() for path in sorted((work / RUN).glob("*")) if path.is_file()}
            return Reply(attempt, here, files if attempt.state in DONE else {})
    except (MeasurementError, OSError) as error:  # no lock, no room for temporary files
        why = f"{error.message}; {error.remedy}" if isinstance(error, MeasurementError) else str(error)
        return Reply(Attempt("unable", started, host=here.host, gpu=here.uuid, error=why, exit_code=3), here)


def measured_here(
    jobs: Mapping[str, SweepJob], child: Sequence[str], limit_s: float, here: Machine, say: Callable[[str], None]
) -> Generator[tuple[str, Reply], None, None]:
    """Key and reply of each job, done one after the other on this machine's first GPU. Raises
    NoWorkerError where it cannot measure any more."""
    for key, job in jobs.items():
        reply = run_job(job.order, child, limit_s, here, partial(_labelled, say, job.label))
        if reply.attempt.state == "unable":
            raise NoWorkerError([f"{here.host}: {reply.attempt.error}"])
        yield key, reply


def _labelled(say: Callable[[str], None], label: str, sentence: str) -> None:
    say(f"{label}: {sentence}")


def probe(child: Sequence[str], gpu: str = "") -> Machine:
    """What this worker's machine is, with ``gpu`` as its first GPU (empty: as it is), asked in a
    child, so that no driver is loaded here; never raises."""
    tidy()
    with scratch(Path(tempfile.gettempdir()), PREFIX, {}) as work:
        (work / ORDER).write_text(json.dumps({PROBE: True}), encoding="utf-8")
        raw, killed = _run_child(child, work, {"CUDA_VISIBLE_DEVICES": gpu} if gpu else {}, PROBE_LIMIT_S)
    if killed:
        raw["error"] = f"the GPU's driver has not answered for {PROBE_LIMIT_S:g} s"
    machine = Machine(why_not=str(raw["error"])) if raw.get("error") else typed(raw, Machine)
    return replace(machine, host=platform.node())


def tidy() -> None:
    """End what workers that died have left running on this host, and remove what they have left
    lying."""
    orphans.end_orphans()
    for left in abandoned(Path(tempfile.gettempdir()), PREFIX):
        log.info("%s: left behind by a worker that died", left.work)


def end_jobs() -> int:
    """End whatever this process has children do now; returns how many processes there were."""
    return orphans.end_marked(orphans.mark(""))


def _run_child(
    child: Sequence[str], work: Path, env: Mapping[str, str], limit_s: float
) -> tuple[Members, list[orphans.Process]]:
    """What the child wrote into its result (or, where it wrote none, how it ended), and the
    processes that were ended at the time limit."""
    token = orphans.mark(str(next(_numbers)))
    own = {orphans.MARK: token, orphans.PARENT: str(os.getpid())}
    tail: deque[str] = deque(maxlen=_TAIL)
    hear = processes.LineSplitter(lambda stream, line: tail.append(line) if line.strip() else None)
    killed: list[orphans.Process] = []

    def note() -> None:
        killed.extend(orphans.with_mark(token))

    try:
        # A worker started by srun or mpirun has a rank; its jobs are not ranks of one program.
        inherited = {name: value for name, value in os.environ.items() if name not in ranks.VARIABLES}
        argv = [sys.executable, *child, str(work)]
        status = processes.stream(argv, {**inherited, **env, **own}, hear, limit_s, before_end=note)
    except processes.TimedOutError:
        return _failed(f"time limit of {limit_s:g} s reached: the job and its child processes were killed"), killed
    finally:
        orphans.end_marked(token)
    hear.close()
    try:
        return dict(json.loads((work / RESULT).read_text(encoding="utf-8"))), []
    except (OSError, ValueError):
        last = "".join(f"\n    {line}" for line in tail) or " no output"
        ended = f"{'ended with' if status >= 0 else 'was ended by'} {processes.ending(status)}"
        return _failed(f"the job's process {ended}, and left no result; its last output:{last}"), []


def _failed(error: str) -> Members:
    return {"state": "failed", "error": error, "remedy": "", "exit_code": 3}


def _let_go(killed: Sequence[orphans.Process], say: Callable[[str], None]) -> str:
    """Wait until the driver has let go of processes that were ended: the next job's limit would
    pass meanwhile. Returns which are still there after ``LET_GO_S``, in words."""
    if left := orphans.outlast(killed, BRIEF_S):
        say(f"waiting for the driver to release process {left[0][0]}, which was killed")
        left = orphans.outlast(left, LET_GO_S)
    names = ", ".join(str(pid) for pid, _ in left)
    return f"the driver has not released process {names} after {LET_GO_S:g} s" if left else ""


def _environment(machine: Machine) -> dict[str, str]:
    """ncu lets one process of a host profile at a time, by a lock in TMPDIR, whatever their GPUs
    are. Counters belong to a GPU, so that jobs on different GPUs need not wait for each other: then
    each GPU has a TMPDIR of its own."""
    env = {"CUDA_VISIBLE_DEVICES": machine.uuid} if machine.uuid else {}
    of_host = len(list(Path("/proc/driver/nvidia/gpus").glob("*")))  # visible to CUDA here or not; 0 where unknown
    if machine.uuid and (of_host > 1 or machine.uuid.startswith("MIG-")):
        short = hashlib.sha256(machine.uuid.encode()).hexdigest()[:12]
        own = Path(tempfile.gettempdir()) / f"ncubble-{os.getuid()}-gpu-{short}"
        own.mkdir(mode=0o700, exist_ok=True)
        if own.is_symlink() or own.stat().st_uid != os.getuid():
            raise PermissionError(f"{own} belongs to another user")
        env["TMPDIR"] = str(own)
    return env
