"""Traces in the layout of Proton's writers (Triton 3.9, third_party/proton: TraceWriter.cpp and
Dump/ChromeTrace.cpp). Times in cycles, of which 1,000 count as 1 µs."""

import json


def scope(name, start, end, warp=0, line=0, sm=0, cta=0, kernel="matmul_kernel", **more):
    """A scope within a kernel."""
    told = {"Init Time (ns)": 0, "Post Final Time (ns)": 9, "Finalization Time (ns)": 1, "Frequency (MHz)": 1000.0}
    event = {
        "args": {**told, "call_stack": ["ROOT", kernel]},
        "cat": kernel,
        "cname": "cq_build_passed",
        "dur": (end - start) / 1000,
        "name": name,
        "ph": "X",
        "pid": f"{kernel} Core{sm} CTA{cta}",
        "tid": f"warp {warp} (line {line})",
        "ts": start / 1000,
    }
    return {**event, **more}


def kernel(name, start_us, dur_us, stream=0, cat="kernel", tid=None):
    """A kernel, or with another ``cat`` a scope of the host."""
    event = {"args": {"call_stack": ["ROOT", name]}, "cat": cat, "dur": dur_us, "name": name, "ph": "X", "pid": 0}
    return {**event, "tid": 200_000 + stream if tid is None else tid, "ts": start_us}


def thread(tid, name):
    """The name of a lane."""
    return {"ph": "M", "pid": 0, "tid": tid, "name": "thread_name", "args": {"name": name}}


def text(events, unit="ns"):
    """A whole file."""
    return json.dumps({"displayTimeUnit": unit, "traceEvents": events}, separators=(",", ":")) + "\n"
