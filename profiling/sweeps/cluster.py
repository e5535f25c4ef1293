"""Where a sweep runs: a Dask cluster of this host with a worker for each GPU, or one that is
running already."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling import orphans
from ncubble.text.remedies import extras_command

SILENT = logging.CRITICAL + 1
TLS_REMEDY = "set distributed.comm.tls in Dask's configuration: docs/sweeps.md"
_START_S = 60.0
_LOOK_S, _DEAD_S = 1.0, 4.0
_CONNECT_S = 30.0
_QUIET = {"DASK_LOGGING__DISTRIBUTED": "critical"}
_SETTINGS = {
    "distributed.admin.tick.limit": "1h",
    "distributed.scheduler.allowed-failures": 0,
    # A cluster looks 15 s after a worker was lost whether it is there, and if not closes its nanny
    # for good: also when it came back long ago, and was just then being restarted once more.
    "distributed.deploy.lost-worker-timeout": "1000d",
}


class DaskMissingError(MeasurementError):
    """Dask is not installed."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"Dask cannot be imported: {error}", extras_command("cluster"))


def require_dask() -> Any:
    """The module ``distributed``, most of which has no types; raises DaskMissingError."""
    try:
        return import_module("distributed")
    except ImportError as error:
        raise DaskMissingError(error) from error


@contextmanager
def local(gpus: Sequence[str]) -> Iterator[Any]:
    """A ``distributed.Client`` of a new cluster on this host: for each of ``gpus`` (as
    CUDA_VISIBLE_DEVICES has it; "" for none) one worker process of one thread, which a nanny
    restarts when it dies. It listens on 127.0.0.1 only.

    Raises UsageError for a GPU that is named twice, and MeasurementError where the cluster does not
    start.
    """
    twice = sorted({gpu for gpu in gpus if gpu and list(gpus).count(gpu) > 1})
    if twice:
        message = f"{', '.join(twice)} is named twice: only one profiler at a time can use a GPU's counters"
        raise UsageError(message, "name each GPU once")
    dask = require_dask()

    options = {"nthreads": 1, "memory_limit": 0, "host": "127.0.0.1", "silence_logs": SILENT}
    workers = {
        number: {"cls": dask.Nanny, "options": {**options, "env": _environment(gpu), "resources": {"GPU": 1}}}
        for number, gpu in enumerate(gpus)
    }
    scheduler = {
        "cls": dask.Scheduler,
        "options": {"host": "127.0.0.1", "dashboard": False, "dashboard_address": "127.0.0.1:0"},
    }
    with _no_orphans(), _quiet(), _security() as security:
        if security is not None:
            scheduler["options"]["security"] = security
            for worker in workers.values():
                worker["options"]["security"] = security
        with (
            dask.SpecCluster(workers, scheduler, security=security, silence_logs=SILENT) as cluster,
            dask.Client(cluster, set_as_default=False) as client,
        ):
            client.wait_for_workers(len(gpus), timeout=_START_S)
            cluster.loop.add_callback(_revive, cluster)
            yield client


@contextmanager
def _no_orphans() -> Iterator[None]:
    """Afterwards: the workers are gone, and no later job on this host need come to end what theirs
    have left."""
    try:
        yield
    finally:
        orphans.end_orphans()


async def _revive(cluster: Any) -> None:
    """A nanny does not restart a worker that dies before it has heard that the worker runs
    (distributed 2026.8)."""
    dead: dict[Any, float] = {}
    while cluster.status.name == "running":
        await asyncio.sleep(_LOOK_S)
        for name, nanny in list(cluster.workers.items()):
            if nanny.is_alive() or nanny.status.name != "running":
                dead.pop(name, None)
            elif time.monotonic() - dead.setdefault(name, time.monotonic()) > _DEAD_S:
                dead.pop(name, None)
                with suppress(Exception):
                    await nanny.instantiate()


def _environment(gpu: str) -> dict[str, str]:
    return {**_QUIET, "CUDA_VISIBLE_DEVICES": gpu} if gpu else dict(_QUIET)


@contextmanager
def _security() -> Iterator[Any]:
    """TLS with a certificate that lasts as long as the cluster: whoever can connect to a worker can
    run code in it, and on a host of several users that is all of them. None where the package
    ``cryptography`` is missing."""
    try:
        yield require_dask().Security.temporary()
    except ImportError:
        yield None


@contextmanager
def _quiet() -> Iterator[None]:
    """Dask's own messages, of workers that die and are replaced, say nothing that the sweep does
    not say better."""
    import dask

    require_dask()  # first: where its settings are not there yet, leaving the block would take all of them away
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


@contextmanager
def running(address: str) -> Iterator[Any]:
    """A ``distributed.Client`` of the cluster at ``address``, or whose scheduler wrote the file
    ``address``. The cluster is left running.

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
            raise UsageError(f"--scheduler {address}: {error}", "for example tcp://host:8786") from error
        except TypeError as error:  # raised where no context for TLS could be made
            raise UsageError(f"--scheduler {address}: no TLS certificate is configured", TLS_REMEDY) from error
        except (OSError, TimeoutError, AssertionError) as error:
            remedy = "start one with `dask scheduler`, and give the address that it prints"
            raise MeasurementError(f"no Dask scheduler answers at {address}: {error}", remedy) from error
        try:
            yield client
        finally:
            client.close(timeout=5)


def default_gpus(visible: Sequence[str]) -> list[str]:
    """All visible GPUs, or what CUDA_VISIBLE_DEVICES names where the driver knows only parts of
    GPUs (MIG)."""
    named = [piece.strip() for piece in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if piece.strip()]
    return named if any(piece.startswith("MIG-") for piece in named) else list(visible)
