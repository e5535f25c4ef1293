"""Plays CUPTI. ``PLAYED_CUPTI`` holds words: ``occupied`` (another client is there),
``driverless``, ``raises`` (the flush fails), ``broken`` (one record lacks a member), ``dropped``
(CUPTI lost seven), ``training`` (other records: steps of a training)."""

import ctypes
import enum
import os
from types import SimpleNamespace

MODE = os.environ.get("PLAYED_CUPTI", "").split()


class cuptiError(Exception):  # noqa: N801 - as the library has it
    pass


class ActivityKind(enum.IntEnum):
    MEMCPY = 1
    MEMSET = 2
    DRIVER = 4
    RUNTIME = 5
    CONTEXT = 9
    CONCURRENT_KERNEL = 10
    MARKER = 12
    OVERHEAD = 17
    MEMCPY2 = 22
    CUDA_EVENT = 36
    STREAM = 37
    SYNCHRONIZATION = 38
    MEMORY_POOL = 50
    GRAPH_TRACE = 51


class CallbackDomain(enum.IntEnum):
    DRIVER_API = 1
    RUNTIME_API = 2


_called = []
ZERO = 1_800_000_000_000_000_000


def subscribe(callback, userdata):
    if "occupied" in MODE:
        raise cuptiError("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED")
    if "driverless" in MODE:
        raise RuntimeError("CUDA driver is not found")
    return 1


def activity_enable(kind):
    if kind == ActivityKind.MEMORY_POOL and "few" in MODE:
        raise cuptiError("CUPTI_ERROR_INVALID_KIND")


def activity_register_callbacks(requested, completed):
    requested()
    _called.append(completed)


def activity_flush_all(flag):
    if "raises" in MODE:
        raise cuptiError("CUPTI_ERROR_UNKNOWN")
    _called[0](played())


def activity_get_num_dropped_records(context, stream, address):
    ctypes.c_size_t.from_address(address).value = 7 if "dropped" in MODE else 0


def get_callback_name(domain, cbid):
    return {(1, 307): "cuLaunchKernel", (2, 31): "cudaMalloc_v3020"}.get((int(domain), cbid), "")


def _work(kind, start, end, **more):
    base = {"device_id": 0, "context_id": 1, "stream_id": 7, "graph_id": 0, "graph_node_id": 0, "channel_type": 1}
    return SimpleNamespace(kind=kind, start=ZERO + start, end=ZERO + end, **{**base, **more})


def _call(kind, cbid, start, end, correlation):
    times = {"start": ZERO + start, "end": ZERO + end, "process_id": os.getpid(), "thread_id": 5}
    return SimpleNamespace(kind=kind, cbid=cbid, correlation_id=correlation, return_value=0, **times)


def _mark(flags, at, number, name=None, domain=None, thread=5):
    where = SimpleNamespace(pt=SimpleNamespace(process_id=os.getpid(), thread_id=thread))
    what = {"flags_": flags, "timestamp": ZERO + at, "id": number, "name": name, "domain": domain}
    return SimpleNamespace(kind=ActivityKind.MARKER, object_kind=2, object_id=where, **what)


FIRST, SECOND = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_NTN"


def training(steps=6):
    """Steps of two products as recordings/h200-ranks/rank0 holds them, and a reduction, 1 ms each.
    The first step takes 4 ms; a kernel that fills memory comes before it. Ranges ``step`` and, in a
    domain, ``mine@forward``."""
    kinds = ActivityKind
    records, number = [], 0

    def launch(at, name, start, end, grid, block, memory=0):
        nonlocal number
        number += 1
        sizes = {"grid": grid, "block": block}
        geometry = {f"{what}_{axis}": size for what in sizes for axis, size in zip("xyz", sizes[what], strict=True)}
        records.append(_call(kinds.DRIVER, 307, at, at + 2_000, number))
        more = {"correlation_id": number, "name": name, "dynamic_shared_memory": memory, **geometry}
        records.append(_work(kinds.CONCURRENT_KERNEL, start, end, **more))

    launch(0, "_Z4fillPfi", 10_000, 20_000, (8, 1, 1), (256, 1, 1))
    at = 1_000_000
    for step in range(steps):
        length = 4_000_000 if step == 0 else 1_000_000
        opened, closed = 2, 4
        for flags, when, mark, name, domain in (
            (opened, 0, 10 * step, "step", None),
            (opened, 1_000, 10 * step + 1, "forward", "mine"),
            (closed, 25_000, 10 * step + 1, None, None),
            (closed, length - 1_000, 10 * step, None, None),
        ):
            records.append(_mark(flags, at + when, mark, name, domain))
        launch(at + 2_000, FIRST, at + 10_000, at + 350_000, (2, 66, 1), (384, 1, 1), 213_188)
        launch(at + 20_000, SECOND, at + 352_000, at + 688_000, (2, 66, 1), (384, 1, 1), 213_188)
        launch(at + 30_000, "_Z6reducePf", at + 690_000, at + 720_000, (64, 1, 1), (256, 1, 1))
        at += length
    return records


def played():
    """Two launches, 90 us apart: between them the host is in cudaMalloc for 80."""
    if "training" in MODE:
        return training()
    kinds = ActivityKind
    records = [
        SimpleNamespace(kind=kinds.CONTEXT, device_id=0, context_id=1, null_stream_id=7),
        SimpleNamespace(kind=kinds.STREAM, context_id=1, stream_id=7, correlation_id=0, flag=3),
        _call(kinds.DRIVER, 307, 0, 4_000, 1),
        _work(kinds.CONCURRENT_KERNEL, 5_000, 15_000, correlation_id=1, name="_Z6squarePfi"),
        _call(kinds.RUNTIME, 31, 20_000, 100_000, 2),
        _call(kinds.DRIVER, 307, 101_000, 103_000, 3),
        _work(kinds.CONCURRENT_KERNEL, 105_000, 115_000, correlation_id=3, name="_Z6squarePfi"),
        SimpleNamespace(
            kind=kinds.SYNCHRONIZATION,
            context_id=1,
            stream_id=7,
            start=ZERO + 104_000,
            end=ZERO + 116_000,
            correlation_id=4,
            type=3,
            cuda_event_id=2**32 - 1,
            cuda_event_sync_id=2**64 - 1,
        ),
    ]
    return [*records, SimpleNamespace(kind=kinds.MEMCPY)] if "broken" in MODE else records
