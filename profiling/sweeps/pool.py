"""The workers of a Dask cluster as a sweep sees them: which there are, one order at a time each,
and what came back.

Orders are pinned to a worker, so that none ever has two, and so that the sweep, not the cluster,
decides what happens to the job of a worker that died.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from typing import Any, Literal

from ncubble.profiling.sweeps import worker as sweep_worker
from ncubble.profiling.sweeps.job import Machine, Reply

_FETCHES = 16
_RESULT_S = 60.0  # to fetch a result that is there


@dataclass(frozen=True)
class Event:
    """What happened to the worker ``worker``: it ``joined`` or ``left`` the cluster, was ``probed``
    (a Machine), is ``done`` with its order (a Reply), could not even run it (``broken``: why), or
    ``waits`` outside of the job's limit (for what, or "" if that is known). ``order`` is what
    ``start`` gave."""

    kind: Literal["joined", "left", "probed", "done", "broken", "waits"]
    worker: str
    value: Any = None
    order: str = ""


def say(topic: str, order: str, sentence: str) -> None:
    """Called on a worker, in its thread for jobs: tell the sweep that has ``topic`` what an order
    waits for."""
    with suppress(Exception):  # a lost message costs nothing
        worker = import_module("distributed").get_worker()
        worker.log_event(topic, {"worker": worker.address, "order": order, "waits": sentence})


class DaskPool:
    """The workers of the cluster of ``client`` (``distributed.Client``). ``child`` and ``limit_s``
    are as in ``worker.run_job``, which is ``work``."""

    def __init__(
        self,
        client: Any,
        child: Sequence[str],
        limit_s: float,
        work: Callable[..., Reply] = sweep_worker.run_job,
        probe: Callable[..., Machine] = sweep_worker.probe,
    ) -> None:
        self._client, self._child, self._limit_s = client, tuple(child), limit_s
        self._work, self._probe = work, probe
        self._topic = f"ncubble-{uuid.uuid4().hex}"
        self._futures: dict[str, tuple[str, Any]] = {}
        self._lost, self._closing = False, False
        self._fetching = asyncio.Semaphore(_FETCHES)
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    @property
    def address(self) -> str:
        """Of the scheduler."""
        return str(self._client.scheduler.address) if self._client.scheduler else ""

    @property
    def connected(self) -> bool:
        """Whether the scheduler is there, and has been all the time: one that was restarted knows
        nothing of us."""
        return not self._lost and self._client.status == "running"

    def open(self) -> int:
        """Begin to hear of workers; returns how many there are, each of which has joined as an
        event."""
        self._client.subscribe_topic("all", self._hear)
        self._client.subscribe_topic(self._topic, self._hear_waiting)
        workers = list(self._client.scheduler_info(n_workers=-1)["workers"])
        for worker in workers:
            self.events.put(Event("joined", worker))
        return len(workers)

    def _hear(self, event: tuple[float, Any]) -> None:
        _, message = event
        action = message.get("action") if isinstance(message, Mapping) else None
        if action in ("add-worker", "remove-worker") and "worker" in message:
            self.events.put(Event("joined" if action == "add-worker" else "left", message["worker"]))

    def _hear_waiting(self, event: tuple[float, Any]) -> None:
        _, message = event
        self.events.put(Event("waits", message["worker"], message["waits"], message["order"]))

    def probe(self, worker: str) -> None:
        """Ask what the worker's machine is."""
        self._submit("probed", worker, "", self._probe, self._child)

    def start(self, worker: str, name: str, order: Mapping[str, Any], machine: Machine, apart: bool) -> None:
        """Have the worker carry out an order, called ``name``."""
        arguments = (self._child, self._limit_s, asdict(machine), apart, partial(say, self._topic, name))
        self._submit("done", worker, name, self._work, dict(order), *arguments)

    def _submit(self, kind: Literal["probed", "done"], worker: str, name: str, work: Any, *arguments: Any) -> None:
        key = f"ncubble-{kind}-{uuid.uuid4().hex}"
        future = self._client.submit(work, *arguments, key=key, workers=[worker], pure=False, retries=0)
        self._futures[key] = worker, future
        future.add_done_callback(lambda done: self._finished(kind, worker, name, done))

    def _finished(self, kind: Literal["probed", "done"], worker: str, name: str, future: Any) -> None:
        """In the client's thread for callbacks."""
        if self._futures.pop(future.key, None) is None or self._closing:
            return  # given up before
        if future.status in ("cancelled", "lost"):
            self._lost = True
            return
        self._client.loop.add_callback(self._fetch, kind, worker, name, future)

    async def _fetch(self, kind: Literal["probed", "done"], worker: str, name: str, future: Any) -> None:
        """In the client's event loop: many results come at once, and one whose worker is gone holds
        up no other."""
        try:
            async with self._fetching:
                result = await asyncio.wait_for(self._client.gather(future, asynchronous=True), _RESULT_S)
            event = Event(kind, worker, result, name)
        except Exception as error:  # whatever the cluster, or unpickling on either side, can raise
            event = Event("broken", worker, f"{type(error).__name__}: {error}", name)
        future.release()
        self.events.put(event)

    def give_up(self, worker: str) -> None:
        """Forget what a worker that left was asked: the cluster would wait for ever for it to come
        back."""
        for key in [key for key, (owner, _) in list(self._futures.items()) if owner == worker]:
            under_way = self._futures.pop(key, None)
            if under_way is not None:
                with suppress(Exception):
                    under_way[1].cancel(force=True)

    def restart(self, worker: str) -> None:
        """Replace the worker's process by a new one, which joins. Without a nanny it stays, and
        joins again.

        It ends itself, as if it had died: a nanny that is told to restart its worker while that
        dies ends the next one, too, and then leaves it at that (distributed 2026.8).
        """
        threading.Thread(target=self._restart, args=(worker,), daemon=True).start()

    def _restart(self, worker: str) -> None:
        with suppress(Exception):  # it cannot answer, and may already be gone
            known = self._client.scheduler_info(n_workers=-1)["workers"].get(worker, {})
            if known and not known.get("nanny"):
                self.events.put(Event("joined", worker))
            elif known:
                self._client.run(sweep_worker.leave, workers=[worker], wait=False, on_error="ignore")

    def close(self) -> None:
        """Give up what is still under way, and end it on its workers as far as these can be
        reached."""
        self._closing = True
        with suppress(Exception):
            self._client.unsubscribe_topic("all")
            self._client.unsubscribe_topic(self._topic)
        under_way, self._futures = list(self._futures.values()), {}
        if not under_way or not self.connected:
            return
        with suppress(Exception):
            self._client.cancel([future for _, future in under_way], force=True)
            workers = sorted({worker for worker, _ in under_way})
            self._client.run(sweep_worker.end_jobs, workers=workers, on_error="ignore")
