"""Records the GPU activity of this process through cupti-python. Imported by the starter, before
the program begins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ncubble.profiling.recorders.raw import (
    CONTEXT,
    COPY,
    DRIVER,
    EVENT,
    GRAPH,
    KERNEL,
    MARK,
    OVERHEAD,
    POOL,
    RUNTIME,
    SET,
    STREAM,
    SYNC,
    RawWriter,
    block_word,
    grid_words,
)

BUFFER_B = 8 << 20
WORD, LONG = 2**32 - 1, 2**64 - 1
KINDS = (
    *("CONTEXT", "STREAM", "CONCURRENT_KERNEL", "MEMCPY", "MEMCPY2", "MEMSET", "DRIVER", "RUNTIME"),
    *("SYNCHRONIZATION", "CUDA_EVENT", "OVERHEAD", "MEMORY_POOL", "MARKER"),
)
NVTX = "NVTX_INJECTION64_PATH"
"""Environment variable that names the library NVTX calls: CUPTI itself, which then records
ranges."""
OF_THREAD = 2
"""CUPTI's object kind of a marker: a thread, not the process."""
NEEDED = ("CONCURRENT_KERNEL", "MEMCPY", "DRIVER", "RUNTIME")
"""These are required; without one of the others the account is less detailed, and the run notes
it."""


class OccupiedError(Exception):
    """Another client of CUPTI is active in this process, or there is none to be had."""


class ActivityRecorder:
    """Records from its making until ``close``. Raises OccupiedError where CUPTI cannot be had."""

    def __init__(self, folder: Path, most: int, library: Any = None) -> None:
        self._pid, self._closed, self._ended = os.getpid(), False, False
        self._cupti = library if library is not None else _library()
        self._api_names: dict[tuple[int, int], int] = {}
        self._failed = 0
        self._subscribe()
        if (path := _loaded_cupti()) and NVTX not in os.environ:
            os.environ[NVTX] = path
        self._writer = RawWriter(folder, self._pid, most)
        self._make = self._makers()
        self._cupti.activity_register_callbacks(_buffer, self._completed)
        self._enabled, self._refused = [], []
        for name in KINDS:
            try:
                self._cupti.activity_enable(self._cupti.ActivityKind[name])
                self._enabled.append(name)
            except (self._cupti.cuptiError, KeyError) as error:
                if name in NEEDED:
                    raise OccupiedError(f"CUPTI does not record {name}: {error}") from error
                self._refused.append(name)

    def close(self) -> None:
        """Flushes what is left and ends the files; does nothing in a child that was forked, and at
        a second call."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        error = ""
        try:
            self._cupti.activity_flush_all(1)
        except Exception as raised:
            error = str(raised)
        dropped = self._dropped()
        self._ended = True
        self._writer.close(
            recorder="cupti-python",
            dropped=dropped,
            unread=self._failed,
            refused=self._refused,
            error=error,
            version=_version(),
        )

    def _subscribe(self) -> None:
        """Takes CUPTI's one place for a client, so that a second one is refused rather than given
        our records."""
        try:
            self._cupti.subscribe(_nothing, None)
        except Exception as error:  # without a driver the library raises its own error types
            what = "another client of CUPTI is active" if "MULTIPLE" in str(error) else "CUPTI cannot be used"
            raise OccupiedError(f"{what} ({error})") from error

    def _completed(self, activities: Iterable[Any]) -> None:
        """Takes a buffer of records. An exception in here would be lost in CUPTI's thread, so it is
        counted."""
        if self._ended or os.getpid() != self._pid:
            return
        for activity in activities:
            try:
                make = self._make.get(int(activity.kind))
                if make is not None:
                    self._writer.add(make(activity))
            except Exception:
                self._failed += 1
        self._writer.flush()

    def _dropped(self) -> int | None:
        """Records that CUPTI itself had no room for; None where it does not say."""
        import ctypes

        count = ctypes.c_size_t(0)
        try:
            self._cupti.activity_get_num_dropped_records(0, 0, ctypes.addressof(count))
        except Exception:
            return None
        return int(count.value)

    def _api(self, domain: int, cbid: int) -> int:
        """The number of the name of a call."""
        key = (domain, cbid)
        if key not in self._api_names:
            try:
                name = self._cupti.get_callback_name(domain, cbid) or f"call {cbid}"
            except self._cupti.cuptiError:
                name = f"call {cbid}"
            self._api_names[key] = self._writer.number(str(name))
        return self._api_names[key]

    def _makers(self) -> dict[int, Callable[[Any], tuple[int, ...]]]:
        """How each kind of activity becomes a record."""
        kinds, domains = self._cupti.ActivityKind, self._cupti.CallbackDomain
        driver, runtime = int(domains.DRIVER_API), int(domains.RUNTIME_API)

        def call(kind: int, domain: int) -> Callable[[Any], tuple[int, ...]]:
            def make(a: Any) -> tuple[int, ...]:
                times = (a.start, a.end, 0, a.process_id)
                return (kind, 0, 0, 0, *times, *(a.correlation_id, a.thread_id & WORD, self._api(domain, a.cbid)),
                        int(a.return_value) & WORD, 0, 0, 0, 0)  # fmt: skip

            return make

        def kernel(a: Any) -> tuple[int, ...]:
            name = self._writer.number(a.name or "")
            node = int(a.graph_node_id) & LONG
            memory = int(getattr(a, "dynamic_shared_memory", 0)) & WORD
            return (*_where(KERNEL, a), memory, node, a.correlation_id, 0, name, *_geometry(a), *_how(a))

        def mark(a: Any) -> tuple[int, ...]:
            text = f"{a.domain}@{a.name}" if a.domain and a.name else a.name or ""
            thread = _thread_of(a)
            return (MARK, 0, 0, 0, a.timestamp, a.timestamp, 0, int(a.id), 0, thread, self._writer.number(text),
                    int(a.flags_) & WORD, 0, 0, 0, 0)  # fmt: skip

        return {
            int(kinds.CONCURRENT_KERNEL): kernel,
            int(kinds.MEMCPY): _copy,
            int(kinds.MEMCPY2): _peer_copy,
            int(kinds.MEMSET): _memset,
            int(kinds.DRIVER): call(DRIVER, driver),
            int(kinds.RUNTIME): call(RUNTIME, runtime),
            int(kinds.SYNCHRONIZATION): _sync,
            int(kinds.STREAM): _stream,
            int(kinds.CONTEXT): _context,
            int(kinds.GRAPH_TRACE): _graph,
            int(kinds.CUDA_EVENT): _event,
            int(kinds.OVERHEAD): _overhead,
            int(kinds.MEMORY_POOL): _pool,
            int(kinds.MARKER): mark,
        }


def _where(kind: int, a: Any) -> tuple[int, ...]:
    return kind, a.device_id, a.context_id, a.stream_id & WORD, a.start, a.end


def _how(a: Any) -> tuple[int, int]:
    return int(a.channel_type) & WORD, int(a.graph_id) & WORD


def _geometry(a: Any) -> tuple[int, int, int]:
    """Block and grid of a kernel; zeros where this CUPTI does not tell them."""
    try:
        block, grid = ([int(getattr(a, f"{what}_{axis}")) for axis in "xyz"] for what in ("block", "grid"))
    except AttributeError:
        return 0, 0, 0
    first, rest = grid_words(*grid)
    return block_word(*block) & WORD, first & WORD, rest & WORD


def _thread_of(a: Any) -> int:
    """The thread of a mark; 0 where it is of the process, or CUPTI does not tell."""
    if int(a.object_kind) != OF_THREAD:
        return 0
    try:
        return int(a.object_id.pt.thread_id) & WORD
    except AttributeError:
        return 0


def _copy(a: Any) -> tuple[int, ...]:
    rest = (a.correlation_id, 0, 0, int(a.copy_kind), int(a.src_kind), int(a.dst_kind))
    return (*_where(COPY, a), a.bytes, 0, *rest, *_how(a))


def _peer_copy(a: Any) -> tuple[int, ...]:
    rest = (a.correlation_id, 0, 0, int(a.copy_kind), int(a.src_kind), int(a.dst_kind))
    return (*_where(COPY, a), a.bytes, (a.src_device_id << 32 | a.dst_device_id) & LONG, *rest, *_how(a))


def _memset(a: Any) -> tuple[int, ...]:
    return (*_where(SET, a), a.bytes, 0, a.correlation_id, 0, 0, 0, int(a.memory_kind), 0, *_how(a))


def _sync(a: Any) -> tuple[int, ...]:
    event, which = a.cuda_event_id & WORD, int(getattr(a, "cuda_event_sync_id", 0)) & LONG
    times = (a.start, a.end, 0, which)
    return (SYNC, 0, a.context_id, a.stream_id & WORD, *times, a.correlation_id, 0, 0, int(a.type), event, 0, 0, 0)


def _stream(a: Any) -> tuple[int, ...]:
    times = (0, 0, 0, int(getattr(a, "priority", 0)) & WORD)
    return (STREAM, 0, a.context_id, a.stream_id & WORD, *times, a.correlation_id, 0, 0, int(a.flag), 0, 0, 0, 0)


def _context(a: Any) -> tuple[int, ...]:
    flags, green = int(a.null_stream_id), int(getattr(a, "is_green_context", 0))
    return (CONTEXT, a.device_id, a.context_id, 0, 0, 0, 0, 0, 0, 0, 0, flags, green, 0, 0, 0)


def _graph(a: Any) -> tuple[int, ...]:
    return (*_where(GRAPH, a), 0, 0, a.correlation_id, 0, 0, 0, 0, 0, 0, int(a.graph_id) & WORD)


def _event(a: Any) -> tuple[int, ...]:
    which = int(getattr(a, "cuda_event_sync_id", 0)) & LONG
    where = (EVENT, int(getattr(a, "device_id", 0)) & WORD, a.context_id, a.stream_id & WORD)
    return (*where, 0, 0, 0, which, a.correlation_id, 0, 0, 0, a.event_id & WORD, 0, 0, 0)


def _overhead(a: Any) -> tuple[int, ...]:
    return (OVERHEAD, 0, 0, 0, a.start, a.end, 0, 0, int(getattr(a, "correlation_id", 0)), 0, 0, int(a.overhead_kind),
            0, 0, 0, 0)  # fmt: skip


def _pool(a: Any) -> tuple[int, ...]:
    times = (a.timestamp, a.timestamp, int(a.size_) & LONG, int(a.release_threshold) & LONG)
    operation = int(a.memory_pool_operation_type)
    return (POOL, a.device_id, 0, 0, *times, a.correlation_id, 0, 0, operation, 0, 0, 0, 0)


def _buffer() -> tuple[int, int]:
    return BUFFER_B, 0


def _nothing(userdata: Any, domain: int, callback_id: int, data: Any) -> None:
    """Hears nothing: no callback is enabled."""


def _loaded_cupti() -> str:
    """The path of the CUPTI that this process has loaded; empty where there is none."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.split(maxsplit=5)[5] for line in lines if "/libcupti.so" in line), "")


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("cupti-python")
    except metadata.PackageNotFoundError:
        return ""


def _library() -> Any:
    try:
        from cupti import cupti
    except Exception as error:
        raise OccupiedError(f"cupti-python cannot be loaded ({error})") from error
    return cupti
