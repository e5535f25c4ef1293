"""Traces in the layout of Kineto's writer (libkineto/src/output_json.cpp): what a recording of
streams tells of kernels and calls, with the geometry of launches, which only reports have."""

import json

DEVICE = "NVIDIA H200"


def geometry(grid=(1, 1, 1), block=(128, 1, 1), registers=32, shared=0):
    """Arguments of a kernel as Kineto names them."""
    return {"registers per thread": registers, "shared memory": shared, "grid": list(grid), "block": list(block)}


def kernel(name, start_us, dur_us, device=0, stream=7, correlation=1, **told):
    """One kernel's event as text, with three digits of a µs as Kineto writes them."""
    args = {
        "External id": correlation,
        "queued": 0,
        "device": device,
        "context": 1,
        "stream": stream,
        "correlation": correlation,
        **geometry(**told),
        "est. achieved occupancy %": 33,
    }
    body = ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in args.items())
    return (
        f'  {{\n    "ph": "X", "cat": "kernel", "name": {json.dumps(name)}, "pid": {device}, "tid": {stream},\n'
        f'    "ts": {start_us:.3f}, "dur": {dur_us:.3f},\n    "args": {{\n      {body}\n    }}\n  }}'
    )


def call(name, start_us, dur_us, correlation=1, thread=1102):
    """A call of the CUDA runtime."""
    return (
        f'  {{\n    "ph": "X", "cat": "cuda_runtime", "name": "{name}", "pid": {thread}, "tid": {thread},\n'
        f'    "ts": {start_us:.3f}, "dur": {dur_us:.3f},\n'
        f'    "args": {{\n      "cbid": 211, "correlation": {correlation}\n    }}\n  }}'
    )


def trace(events, device=DEVICE):
    """A whole trace as text."""
    known = f'[\n    {{\n      "id": 0, "name": "{device}", "computeMajor": 9, "numSms": 132\n    }}\n  ]'
    return (
        f'\n{{\n  "schemaVersion": 1,\n  "deviceProperties": {known},\n  "record_shapes": 1,\n'
        '  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": 1732000000000000000,\n  "traceEvents": [\n'
        + ",\n".join(events)
        + '\n  ],\n  "traceName": "step.pt.trace.json"\n}\n'
    )


def recorded(activity, geometries):
    """The trace of a recording of streams: ``activity`` as ``records.read`` gives it;
    ``geometries`` by a part of the kernel's name, of launches that were profiled elsewhere."""
    events = []
    for row in activity.itertuples():
        start, length = row.start_ns / 1e3, (row.end_ns - row.start_ns) / 1e3
        if row.kind == "kernel":
            told = next((told for part, told in geometries.items() if part in row.name), {})
            events.append(kernel(row.name, start, length, stream=row.stream, correlation=row.correlation, **told))
        elif row.kind == "runtime":
            events.append(call(row.name, start, length, row.correlation))
    return trace(events)
