"""The workers of a Dask cluster, one that is running already, or a new one of this host with a
worker for each GPU. Orders are pinned to a worker, so that none ever has two, and so that the
sweep, not the cluster, decides what happens to the job of a worker that died.

Whoever can connect to a scheduler or worker can run code in it, and on a host of several users that
is all of them: the new cluster has TLS with a certificate that lasts as long as it.
"""

from __future__ import annotations

import logging
import os
import queue
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling import orphans
from ncubble.profiling.sweeps.dispatch import SchedulerLostError, Workers
from ncubble.profiling.sweeps.worker import end_jobs
from ncubble.text.remedies import extras_command

SILENT = logging.CRITICAL + 1
TLS_REMEDY = "set distributed.comm.tls in Dask's configuration: docs/sweeps.md"
_START_S = 60.0
_CONNECT_S = 30.0
_SETTINGS = {
    "distributed.admin.tick.limit": "1h",
    "distributed.scheduler.allowed-failures": 0,
    # A cluster looks 15 s after a worker was lost whether it is there, and if not closes its nanny
    # for good: also when it came back long ago, and was just then being restarted once more.
    "distributed.deploy.lost-worker-timeout": "1000d",
}


def require_dask() -> Any:
    """The module ``distributed``, most of which has no types; raises MeasurementError where it, or
    what makes its certificates, is missing."""
    try:
        import_module("cryptography")
        return import_module("distributed")
    except ImportError as error:
        raise MeasurementError(f"sweeps over several GPUs need Dask: {error}", extras_command("cluster")) from error


@contextmanager
def local(gpus: Sequence[str], say: Callable[[str], None] = lambda sentence: None) -> Iterator[DaskWorkers]:
    """Workers of a new cluster on this host: for each of ``gpus`` (as CUDA_VISIBLE_DEVICES has it)
    a process of one thread, which a nanny restarts when it dies. It listens on 127.0.0.1 only.
    Raises MeasurementError where the cluster does not start."""
    dask = require_dask()
    security = dask.Security.temporary()
    common = {"host": "127.0.0.1", "security": security}
    options = {**common, "nthreads": 1, "memory_limit": 0, "silence_logs": SILENT}
    workers = {
        number: {"cls": dask.Nanny, "options": {**options, "env": _environment(gpu), "resources": {"GPU": 1}}}
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
            yield DaskWorkers(client, say)
    finally:
        orphans.end_orphans()  # the workers are gone: no later job on this host need end what theirs have left


def _environment(gpu: str) -> dict[str, str]:
    return {"DASK_LOGGING__DISTRIBUTED": "critical", "CUDA_VISIBLE_DEVICES": gpu}


@contextmanager
def running(address: str, say: Callable[[str], None] = lambda sentence: None) -> Iterator[DaskWorkers]:
    """Workers of the cluster at ``address``, or whose scheduler wrote the file ``address``. The
    cluster is left running.

    An address ``tls://…`` takes the certificates of Dask's settings (``distributed.comm.tls``).
    Raises MeasurementError where nothing answers there, and UsageError for what is no address or
    lacks a certificate.
    """
    dask = require_dask()
    where: dict[str, Any] = {"scheduler_file": address} if Path(address).is_file() else {"address": address}
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
            yield DaskWorkers(client, say)
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


def tell(topic: str, label: str, sentence: str) -> None:
    """Called on a worker, in its thread for jobs: tell the sweep that has ``topic`` what a job
    waits for."""
    with suppress(Exception):  # a lost message costs nothing
        import_module("distributed").get_worker().log_event(topic, f"{label}: {sentence}")


class DaskWorkers(Workers):
    """The workers of the cluster of ``client`` (``distributed.Client``)."""

    def __init__(self, client: Any, say: Callable[[str], None]) -> None:
        super().__init__(say)
        self.client, self._topic = client, f"ncubble-{uuid.uuid4().hex}"
        self._changes: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()
        client.subscribe_topic("all", self._hear)
        client.subscribe_topic(self._topic, lambda event: say(str(event[1])))
        for worker in client.scheduler_info(n_workers=-1)["workers"]:
            self._changes.put((worker, True))

    def _hear(self, event: tuple[float, Any]) -> None:
        action = event[1].get("action") if isinstance(event[1], Mapping) else None
        if action in ("add-worker", "remove-worker") and "worker" in event[1]:
            self._changes.put((event[1]["worker"], action == "add-worker"))

    def changes(self) -> list[tuple[str, bool]]:
        """Also raises SchedulerLostError where the scheduler was restarted: it knows nothing of us
        then."""
        if self.client.status != "running":
            raise SchedulerLostError(str(getattr(self.client.scheduler, "address", "")))
        found = []
        while not self._changes.empty():
            found.append(self._changes.get())
        return found

    def probe(self, worker: str, child: Sequence[str]) -> Any:
        """Asked on the worker."""
        return self._submit(worker, self.ask, tuple(child))

    def start(self, worker: str, label: str, *arguments: Any) -> Any:
        """Run on the worker."""
        return self._submit(worker, self.work, *arguments, partial(tell, self._topic, label))

    def _submit(self, worker: str, function: Callable[..., Any], *arguments: Any) -> Any:
        key = f"ncubble-{uuid.uuid4().hex}"
        return self.client.submit(function, *arguments, key=key, workers=[worker], pure=False, retries=0)

    def forget(self, future: Any) -> None:
        """The cluster would wait for ever for the worker to come back."""
        with suppress(Exception):
            future.cancel(force=True)

    def close(self, busy: Sequence[str]) -> None:
        """End jobs as far as their workers can be reached."""
        with suppress(Exception):
            self.client.unsubscribe_topic("all")
            self.client.unsubscribe_topic(self._topic)
            if busy and self.client.status == "running":
                self.client.run(end_jobs, workers=list(busy), on_error="ignore")


def chosen_gpus(visible: Sequence[str], named: Sequence[str]) -> list[str]:
    """All visible GPUs; those ``named``, else by CUDA_VISIBLE_DEVICES, where the driver knows only
    parts of GPUs (MIG)."""
    pieces = named or [piece.strip() for piece in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    return list(pieces if any(piece.startswith("MIG-") for piece in pieces) else visible)
