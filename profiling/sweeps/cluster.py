"""The workers of a Dask cluster, one that is running already, or a new one of this host with a
worker for each GPU. Each job is pinned to a worker, so that none ever has two, and so that the
sweep, not the cluster, decides what happens to the job of a worker that died.

Whoever can connect to a scheduler or worker can run code in it, and on a host of several users that
is all of them: the new cluster has TLS with a certificate that lasts as long as it.
"""

from __future__ import annotations

import logging
import math
import os
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling import orphans
from ncubble.profiling.provenance import utc_now
from ncubble.profiling.runs import Members
from ncubble.profiling.sweeps.store import Attempt, Machine, Reply, SweepJob
from ncubble.profiling.sweeps.worker import NoWorkerError, end_jobs, probe, run_job
from ncubble.text.remedies import extras_command

SILENT = logging.CRITICAL + 1
TLS_REMEDY = "set distributed.comm.tls in Dask's configuration: docs/sweeps.md"
TRIES = 3
"""Workers that may end during a job before it counts as failed."""
WAIT_S, POLL_S, TELL_S, HOPELESS_S = 600.0, 0.05, 10.0, 1.0
WAITING = f"waiting for a worker; the sweep ends after {WAIT_S:g} s without one"
_START_S = 60.0
_CONNECT_S = 30.0
_SETTINGS = {
    "distributed.admin.tick.limit": "1h",
    "distributed.scheduler.allowed-failures": 0,
    # A cluster looks 15 s after a worker was lost whether it is there, and if not closes its nanny
    # for good: also when it came back long ago, and was just then being restarted once more.
    "distributed.deploy.lost-worker-timeout": "1000d",
}


class SchedulerLostError(MeasurementError):
    """The connection to the scheduler of the workers broke."""

    def __init__(self) -> None:
        remedy = "finished jobs are in the store; restart the cluster: the same command continues"
        super().__init__("the scheduler of the workers is gone", remedy)


def require_dask() -> Any:
    """The module ``distributed``, most of which has no types; raises MeasurementError where it, or
    what makes its certificates, is missing."""
    try:
        import_module("cryptography")
        return import_module("distributed")
    except ImportError as error:
        raise MeasurementError(f"sweeps over several GPUs need Dask: {error}", extras_command("cluster")) from error


@contextmanager
def local(gpus: Sequence[str]) -> Iterator[Any]:
    """A client of a new cluster on this host: for each of ``gpus`` (as CUDA_VISIBLE_DEVICES has it)
    a process of one thread, which a nanny restarts when it dies. It listens on 127.0.0.1 only.
    Raises MeasurementError where the cluster does not start."""
    dask = require_dask()
    security = dask.Security.temporary()
    common = {"host": "127.0.0.1", "security": security}
    options = {**common, "nthreads": 1, "memory_limit": 0, "silence_logs": SILENT}
    quiet = {"DASK_LOGGING__DISTRIBUTED": "critical"}
    workers = {
        number: {"cls": dask.Nanny, "options": {**options, "env": {**quiet, "CUDA_VISIBLE_DEVICES": gpu}}}
        for number, gpu in enumerate(gpus)
    }
    pages = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
    scheduler = {"cls": dask.Scheduler, "options": {**common, **pages}}
    try:
        with (
            _quiet(),
            dask.SpecCluster(workers, scheduler, security=security, silence_logs=SILENT) as cluster,
            dask.Client(cluster, set_as_default=False) as client,
        ):
            client.wait_for_workers(len(gpus), timeout=_START_S)
            yield client
    finally:
        orphans.end_orphans()  # the workers are gone: no later job on this host need end what theirs have left


@contextmanager
def running(address: str) -> Iterator[Any]:
    """A client of the cluster at ``address``, or whose scheduler wrote the file ``address``. The
    cluster is left running.

    An address ``tls://…`` takes the certificates of Dask's settings (``distributed.comm.tls``).
    Raises MeasurementError where nothing answers there, and UsageError for what is no address,
    lacks a certificate, or has no TLS and listens to other hosts.
    """
    dask = require_dask()
    where = {"scheduler_file" if Path(address).is_file() else "address": address}
    with _quiet():
        try:
            client = dask.Client(**where, timeout=_CONNECT_S, set_as_default=False)
        except ValueError as error:
            raise UsageError(f"--scheduler {address}: {error}", "for example tls://host:8786") from error
        except TypeError as error:  # raised where no context for TLS could be made
            raise UsageError(f"--scheduler {address}: no TLS certificate is configured", TLS_REMEDY) from error
        except (OSError, TimeoutError, AssertionError) as error:
            remedy = "start one with `dask scheduler`, and give the address that it prints"
            raise MeasurementError(f"no Dask scheduler answers at {address}: {error}", remedy) from error
        try:
            found = client.scheduler.address
            if not found.startswith(("tls://", "inproc://", "tcp://127.", "tcp://[::1]")):
                message = f"--scheduler {found}: has no TLS, and anyone who can reach it can run code there"
                raise UsageError(message, f"start it and its workers with --protocol tls, and {TLS_REMEDY}")
            yield client
        finally:
            client.close(timeout=5)


@contextmanager
def _quiet() -> Iterator[None]:
    """Dask's own messages, of workers that die and are replaced, say nothing that the sweep does
    not say better."""
    import dask

    loggers = [logging.getLogger(name) for name in ("distributed", "tornado", "asyncio")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(SILENT)
    try:
        with dask.config.set(_SETTINGS):
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


@cache
def machine_here(child: tuple[str, ...], sweep: str) -> Machine:
    """Called on a worker: its machine, asked once by each sweep, as tools may change between."""
    return probe(child)


def common_machine(
    client: Any,
    child: tuple[str, ...],
    tools: Sequence[str],
    sweep: str,
    device: str = "",
    say: Callable[[str], None] = lambda text: None,
) -> tuple[Machine, int]:
    """The machine that most workers have, of those with GPUs of the model ``device``, if named, and
    how many have it; ``sweep`` is a name that no other one has. Raises NoWorkerError where none can
    measure, and SchedulerLostError."""
    try:
        if not _present(client):
            say(WAITING)
        client.wait_for_workers(1, timeout=WAIT_S)
        answers = client.run(machine_here, child, sweep, on_error="return")
    except TimeoutError as error:
        raise NoWorkerError([]) from error
    except OSError as error:
        raise SchedulerLostError from error
    machines = [found for found in answers.values() if isinstance(found, Machine) and not found.why_not]
    able = [machine for machine in machines if device in ("", machine.device)]
    if not able:
        raise NoWorkerError(f"{worker}: {_why_not(found)}" for worker, found in answers.items())
    ((kind, number),) = Counter(machine.kind(tools) for machine in able).most_common(1)
    return next(machine for machine in able if machine.kind(tools) == kind), number


def _why_not(answer: Machine | Exception) -> str:
    return answer.why_not or f"it has {answer.device}" if isinstance(answer, Machine) else repr(answer)


@dataclass(frozen=True)
class WorkerCall:
    """What a worker is asked to do with an order: start ``child``, for ``limit_s`` at most, if its
    machine is of the ``kind`` that the sweep is for. ``topic``: where the sweep hears of jobs that
    wait."""

    child: tuple[str, ...]
    limit_s: float
    kind: tuple[str, ...]
    tools: tuple[str, ...]
    topic: str

    def __call__(self, order: Members, label: str) -> Reply:
        """On the worker."""
        here = machine_here(self.child, self.topic)
        kind, why = here.kind(self.tools), here.why_not
        if not why and kind != self.kind:
            has, wanted = (", ".join(filter(None, names)) for names in (kind, self.kind))
            why = f"it has {has}; this sweep is for {wanted}"
        if why:
            return Reply(Attempt("unable", error=why), here)
        return run_job(order, self.child, self.limit_s, here, lambda sentence: self._tell(f"{label}: {sentence}"))

    def _tell(self, sentence: str) -> None:
        with suppress(Exception):  # a lost message costs nothing
            import_module("distributed").get_worker().log_event(self.topic, sentence)


def measured(
    client: Any, jobs: Mapping[str, SweepJob], call: WorkerCall, say: Callable[[str], None]
) -> Generator[tuple[str, Reply], None, None]:
    """Key and reply of each job, as they come. A job whose worker dies goes to another, after the
    others, ``TRIES`` times in all. A worker that cannot measure, or not what the sweep is for, is
    left out, and its job goes to another. Raises NoWorkerError and SchedulerLostError."""
    pending, lost = deque(jobs), Counter[str]()
    given: dict[str, tuple[str, Any]] = {}
    excluded: dict[str, str] = {}
    seen, told, lost_at = time.monotonic(), False, -math.inf
    client.subscribe_topic(call.topic, lambda event: say(str(event[1])))
    try:
        while pending or given:
            present = _present(client)
            able = [worker for worker in present if worker not in excluded]
            seen, absent_s = (time.monotonic(), 0.0) if able else (seen, time.monotonic() - seen)
            # A cluster may start another worker in the place of one that ended.
            hopeless = present and not given and time.monotonic() - lost_at > WAIT_S
            if absent_s > (HOPELESS_S if hopeless else WAIT_S):
                raise NoWorkerError(excluded.values())
            if absent_s > TELL_S and not told:
                say(WAITING)
                told = True
            for worker in able:
                if pending and worker not in given:
                    key = pending.popleft()
                    given[worker] = key, _submitted(client, worker, call, jobs[key])
            for worker, (key, future) in list(given.items()):
                if worker in present and not future.done():
                    continue
                del given[worker]
                reply = _reply(future) if future.done() else None
                if reply is None:
                    with suppress(Exception):
                        future.cancel(force=True)  # it would wait for ever for the worker to come back
                    lost[key] += 1
                    lost_at = time.monotonic()
                    if lost[key] < TRIES:
                        say(f"{jobs[key].label}: its worker ended during the job; it is retried")
                        pending.append(key)
                        continue
                    error = f"its worker ended during the job; so did {TRIES - 1} before"
                    reply = Reply(Attempt("failed", ended=utc_now(), error=error, exit_code=3), Machine())
                elif reply.attempt.state == "unable":
                    excluded[worker] = f"{reply.machine.host or worker}: {reply.attempt.error}"
                    say(f"a worker is excluded: {excluded[worker]}")
                    pending.appendleft(key)
                    continue
                yield key, reply
            time.sleep(POLL_S)
    finally:
        with suppress(Exception):
            client.unsubscribe_topic(call.topic)
            if given and client.status == "running":
                client.run(end_jobs, workers=list(given), on_error="ignore")


def _present(client: Any) -> Mapping[str, Any]:
    """The workers that the scheduler has; raises SchedulerLostError."""
    try:
        if client.status == "running":
            workers: Mapping[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
            return workers
    except (OSError, TimeoutError) as error:
        raise SchedulerLostError from error
    raise SchedulerLostError


def _submitted(client: Any, worker: str, call: WorkerCall, job: SweepJob) -> Any:
    key = f"ncubble-{uuid.uuid4().hex}"
    return client.submit(call, dict(job.order), job.label, key=key, workers=[worker], pure=False, retries=0)


def _reply(future: Any) -> Reply | None:
    """What a worker sent back; None where it ended. Raises SchedulerLostError where the scheduler
    was restarted, and knows nothing of the job."""
    try:
        reply: Reply = future.result()
        return reply
    except Exception as error:  # whatever a cluster, or unpickling on either side, can raise
        kind = type(error).__name__
        if "KilledWorker" in kind:
            return None
        if "Cancelled" in kind:
            raise SchedulerLostError from error
        return Reply(Attempt("unable", error=f"{kind}: {error}"), Machine())


def chosen_gpus(visible: Sequence[str], named: Sequence[str]) -> list[str]:
    """All visible GPUs; those ``named``, else by CUDA_VISIBLE_DEVICES, where the driver knows only
    parts of GPUs (MIG)."""
    pieces = named or [piece.strip() for piece in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    return list(pieces if any(piece.startswith("MIG-") for piece in pieces) else visible)
