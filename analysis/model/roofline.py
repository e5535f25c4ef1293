"""What a roofline of many launches consists of: launches with FLOPs and bytes, and the roofs of
their GPUs.

Pure: rows of launches in. x is measured FLOP per measured byte of DRAM, y measured TFLOP/s. A roof
is the median over the launches of its GPU of what ``roofs`` found for each at its own clock. A roof
that a measurement exceeds by more than 5 % is left out: DRAM by bytes, a compute roof by the FLOP/s
of a launch that no other roof could hold. Those of CUDA cores do not bound launches whose tensor
pipe worked, or may have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ncubble.analysis.model.roofs import DRAM, IDLE_TENSOR_PCT, is_of_cores
from ncubble.text.values import device_of, gpu_names

MOST_GPUS = 3
OVERSHOOT = 1.05
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Roof:
    """One roof of one GPU: ``peak`` in GB/s for DRAM, else in TFLOP/s; ``basis`` says where it
    comes from.

    ``gpu`` is what the GPU is called in the figure: by its full name only where another one shares
    the short name.
    """

    gpu: str
    name: str
    peak: float
    basis: str


def roofs_of(rows: Sequence[Row]) -> list[Roof]:
    """The roofs of the GPUs that most rows ran on, at most ``MOST_GPUS``, without those that a row
    exceeds."""
    devices = Counter(device_of(row) for row in rows)
    names, roofs = gpu_names(devices), list[Roof]()
    for device, _ in devices.most_common(MOST_GPUS):
        mine = [row for row in rows if device_of(row) == device]
        for name in dict.fromkeys(name for row in mine for name in row.get("roofs") or {}):
            stated = [row["roofs"][name] for row in mine if name in (row.get("roofs") or {})]
            roof = Roof(
                names[device] or "unknown GPU",
                name,
                float(median(statement[0] for statement in stated)),
                str(stated[0][1]),
            )
            if not _exceeded(roof, mine):
                roofs.append(roof)
    return roofs


def _exceeded(roof: Roof, rows: Sequence[Row]) -> bool:
    """Whether a launch was faster than this roof: then what was counted, or the roof, is wrong."""
    speed = "dram_gbs" if roof.name == DRAM else "tflops"
    return any(_bounds(roof, row) and (row.get(speed) or 0.0) > OVERSHOOT * roof.peak for row in rows)


def _bounds(roof: Roof, row: Row) -> bool:
    """Whether a launch cannot be faster than ``roof``: no higher one, and no pipe without one, may
    have worked."""
    if roof.name == DRAM:
        return True
    peaks = {name: peak for name, (peak, _) in (row.get("roofs") or {}).items() if name != DRAM}
    tensor = row.get("tensor")
    cores_only = tensor is not None and tensor <= IDLE_TENSOR_PCT
    return peaks.get(roof.name) == max(peaks.values(), default=None) and (cores_only or not is_of_cores(roof.name))


Span = tuple[float, float]
Groups = Sequence[tuple[Roof | None, Sequence[Roof]]]


def roofs_by_gpu(rows: Sequence[Row]) -> Groups:
    """The DRAM roof of each GPU, if it has one, with its compute roofs."""
    by_gpu: dict[str, list[Roof]] = {}
    for roof in roofs_of(rows):
        by_gpu.setdefault(roof.gpu, []).append(roof)
    return [
        (next((roof for roof in mine if roof.name == DRAM), None), [roof for roof in mine if roof.name != DRAM])
        for mine in by_gpu.values()
    ]


def intensity_span(rows: Sequence[Row], groups: Groups) -> Span:
    """The range of x: the launches and the ridges, with room on both sides."""
    values = [float(row["intensity"]) for row in rows]
    return padded(values + [1e3 * top.peak / memory.peak for memory, tops in groups if memory for top in tops], 3, 4)


def padded(values: Sequence[float], below: float, above: float) -> Span:
    """From the smallest positive value to the largest, widened by these factors."""
    positive = [value for value in values if value > 0]
    return min(positive, default=1.0) / below, max(positive, default=100.0) * above


def ridge(memory: Roof, tops: Sequence[Roof], high: float) -> float:
    """FLOP per byte at which the DRAM roof meets the highest compute roof; ``high`` where there is
    none."""
    return 1e3 * max((top.peak for top in tops), default=memory.peak * high / 1e3) / memory.peak


def equal_ratios(low: float, high: float, count: int = 12) -> list[float]:
    """Points from ``low`` to ``high`` at equal ratios, so that a line can be hovered anywhere."""
    ratio = max(high / low, 1.0)
    return [low * ratio ** (index / (count - 1)) for index in range(count)]
