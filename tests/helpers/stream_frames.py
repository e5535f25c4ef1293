"""Recordings of streams made by hand: calls of the host, and work that they queued."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ncubble.analysis.streams.account import DeviceAccount, accounts
from ncubble.analysis.streams.recording import (
    BLOCKING,
    COLUMNS,
    DOWN,
    NON_BLOCKING,
    NULL,
    PAGEABLE,
    PINNED,
    STREAM_WAIT,
    UP,
    Recording,
)

DEFAULT_STREAM = 7
CONTEXT = 1
THREAD = 5


class Script:
    """Collects rows, times in us; most methods return the script itself. Streams: 7 is the legacy
    default stream, 1 to 6 are as ``streams`` says."""

    def __init__(self, **streams: int) -> None:
        self._rows: list[dict[str, Any]] = []
        self._last = 0
        self.row("context", device=0, flags=DEFAULT_STREAM)
        self.row("stream", stream=DEFAULT_STREAM, flags=NULL)
        for name, flags in (streams or {"s1": NON_BLOCKING, "s2": NON_BLOCKING}).items():
            self.row("stream", stream=int(name[1:]), flags=flags)

    def row(self, kind: str, name: str = "", start: float = 0, end: float = 0, **more: int) -> None:
        """Any row; what is not named is 0."""
        base = dict.fromkeys(COLUMNS, 0) | {"process": 1, "context": CONTEXT}
        times = {"start_ns": round(1e3 * start), "end_ns": round(1e3 * end)}
        self._rows.append({**base, "kind": kind, "name": name, **times, **more})

    def call(self, name: str, start: float, end: float, thread: int = THREAD) -> int:
        """A call of the host; returns its correlation."""
        self._last += 1
        kind = "runtime" if name.startswith("cuda") else "driver"
        self.row(kind, name, start, end, correlation=self._last, thread=thread)
        return self._last

    def kernel(
        self, asked: float, start: float, end: float, stream: int = 1, thread: int = THREAD, **more: int
    ) -> Script:
        """A kernel whose launch begins at ``asked`` and takes 2 us."""
        correlation = self.call("cuLaunchKernel", asked, asked + 2, thread)
        self.row("kernel", "square", start, end, stream=stream, correlation=correlation, channel=1, **more)
        return self

    def calls(self, name: str, start: float, end: float, thread: int = THREAD) -> Script:
        """A call of the host, in a row of others."""
        self.call(name, start, end, thread)
        return self

    def rename(self, name: str) -> None:
        """Calls the last kernel by another name."""
        self._rows[-1]["name"] = name

    def copy(
        self,
        asked: tuple[float, float],
        start: float,
        end: float,
        stream: int = 1,
        up: bool = True,
        pageable: bool = False,
        name: str = "cudaMemcpyAsync_v3020",
        **more: int,
    ) -> Script:
        """A copy of 1 MB that a call from and to ``asked`` queued; ``more`` replaces columns."""
        correlation = self.call(name, *asked)
        host = PAGEABLE if pageable else PINNED
        memory = {"source": host, "target": 3} if up else {"source": 3, "target": host}
        flags = UP if up else DOWN
        self.row(
            "copy",
            "",
            start,
            end,
            stream=stream,
            correlation=correlation,
            **{"flags": flags, "bytes": 10**6, "channel": 2, **memory, **more},
        )
        return self

    def event(self, time: float, stream: int, number: int, **more: int) -> Script:
        """An event recorded in a stream."""
        correlation = self.call("cudaEventRecord_v3020", time, time + 0.5)
        self.row("event", stream=stream, source=number, correlation=correlation, **more)
        return self

    def wait(self, time: float, stream: int, number: int, **more: int) -> Script:
        """A stream waits for an event."""
        correlation = self.call("cudaStreamWaitEvent_v3020", time, time + 0.5)
        told = {"stream": stream, "source": number, "flags": STREAM_WAIT, "correlation": correlation, **more}
        self.row("sync", "", time, time + 0.5, **told)
        return self

    def recording(self) -> Recording:
        """All of it."""
        rows = pd.DataFrame(self._rows, columns=[*COLUMNS]).sort_values(["start_ns", "end_ns"], kind="stable")
        return Recording(rows.reset_index(drop=True))

    def account(self) -> DeviceAccount:
        """The account of the one device."""
        (found,) = accounts(self.recording())
        return found


__all__ = ["BLOCKING", "DEFAULT_STREAM", "NON_BLOCKING", "Script"]
