"""Kernels as a Kineto trace has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ncubble.analysis.streams.recording import readable
from ncubble.text.values import number, string

_COMPILATION = re.compile(r"\[abi:[^\]]*\]")
"""Numba's compilation tag: a counter of earlier compilations in the process."""
_BLANK = re.compile(r"\s+")


@lru_cache(maxsize=4096)
def launch_name(name: str) -> str:
    """A kernel's name with its template arguments, equal for one kernel in a trace and in a report:
    demangled as Kineto does (the C++ library's way, which is not Nsight's), without ``void``,
    blanks and Numba's tags."""
    return _BLANK.sub("", _COMPILATION.sub("", readable(name)).removeprefix("void "))


@dataclass(frozen=True)
class TracedLaunch:
    """What a trace tells of a kernel that two slices share: its name as ``launch_name`` gives it,
    grid and block as ``x,y,z``, registers of a thread, shared memory of a CTA in bytes, and the
    GPU's name. Empty or None where it does not tell."""

    name: str
    grid: str = ""
    block: str = ""
    registers: int | None = None
    shared_b: int | None = None
    device: str = ""


@dataclass(frozen=True)
class KernelSlice:
    """A kernel of a trace: ``launch``, the name as it is written, the process that it is drawn in,
    its start and its length in µs: an end would lose the length's digits, as traces may count µs
    from 1970, of which a double tells quarters apart."""

    launch: TracedLaunch
    written: str
    process: int | float | str
    start_us: float
    time_us: float


def kernel_slice(event: Any, devices: Mapping[int, str]) -> KernelSlice | None:
    """The kernel that an event of a trace is; None for any other event."""
    if not isinstance(event, dict) or event.get("ph") != "X" or string(event.get("cat")).lower() != "kernel":
        return None
    start, length = number(event.get("ts")), number(event.get("dur"))
    name, process = event.get("name"), event.get("pid")
    if start is None or length is None or length < 0 or not isinstance(name, str):
        return None
    if not isinstance(process, int | float | str) or isinstance(process, bool):
        return None
    args = event["args"] if isinstance(event.get("args"), dict) else {}
    launch = TracedLaunch(
        launch_name(name),
        _size(args.get("grid")),
        _size(args.get("block")),
        _count(args.get("registers per thread")),
        _count(args.get("shared memory")),
        _model(args.get("device", process), devices),
    )
    return KernelSlice(launch, name, process, start, length)


def device_names(properties: Any) -> dict[int, str]:
    """The GPUs' names by their numbers, of a trace's member ``deviceProperties``."""
    known = properties if isinstance(properties, list) else []
    pairs = [(_count(one.get("id")), string(one.get("name"))) for one in known if isinstance(one, dict)]
    return {place: name for place, name in pairs if place is not None and name}


def _model(device: Any, devices: Mapping[int, str]) -> str:
    """The name of a GPU; of one without a number only where all have one name."""
    place = _count(device)
    if place is not None:
        return devices.get(place, "")
    names = set(devices.values())
    return names.pop() if len(names) == 1 else ""


def _size(value: Any) -> str:
    """``x,y,z`` of a list of three whole numbers; empty for anything else."""
    sizes = [_count(one) for one in value] if isinstance(value, list) and len(value) == 3 else [None]
    return "" if None in sizes else ",".join(map(str, sizes))


def _count(value: Any) -> int | None:
    known = number(value)
    return int(known) if known is not None and known >= 0 and known == int(known) else None
