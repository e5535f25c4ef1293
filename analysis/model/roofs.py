"""What the roofline needs of one launch: FLOP/s, DRAM bytes, and the roofs of its GPU. Pure:
numbers in, numbers out.

Nothing is guessed. FLOPs are those that the run's facts name, else those that counters of the
report give: added, multiplied and fused operations of CUDA cores of each width, and, where the
tensor pipe worked, its operations. FLOPs are not known where a pipe's operations were not counted,
unless the report shows that this pipe did nothing. Operations of halves count twice: their
instructions work on pairs. Roofs are peaks that the report states (``peak_sustained`` times the
clock), else the memory's bus width times its clock, else FLOP per clock and SM of the CUDA
programming guide times SMs times the clock.

In a roofline of many launches, x is measured FLOP per measured byte of DRAM, y measured TFLOP/s. A
roof is the median over the launches of its GPU, each at its own clock. A roof that a measurement
exceeds by more than 5 % is left out: DRAM by bytes, a compute roof by the FLOP/s of a launch that
no other roof could hold. Those of CUDA cores do not bound launches whose tensor pipe worked, or may
have.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ncubble.chips import chip_of
from ncubble.text.values import device_of, gpu_names, number

Scalars = Mapping[str, float]
Stated = list[float | str | None]
"""Keys of a peak and its source in JSON."""
_OPS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
_PEAK = "sm__sass_thread_inst_executed_op_{}_pred_on.sum.peak_sustained"
_WEIGHTED = "derived__smsp__sass_thread_inst_executed_op_{}_pred_on_x{}"
_WEIGHTED_PEAK = "derived__sm__sass_thread_inst_executed_op_{}_pred_on_x{}"
_TENSOR_OPS = re.compile(r"sm__ops_path_tensor_src_((?!int)\w+)\.sum\.per_cycle_elapsed")
_KINDS = {
    "FP32": {"fadd": 1, "fmul": 1, "ffma": 2},
    "FP64": {"dadd": 1, "dmul": 1, "dfma": 2},
    "FP16": {"hadd": 2, "hmul": 2, "hfma": 4},
}
"""FLOPs per thread-level instruction, as in ncu's derived metrics."""
_PIPES = {
    "FP32": (),
    "FP64": ("sm__inst_executed_pipe_fp64", "sm__pipe_fp64_cycles_active"),
    "FP16": ("sm__inst_executed_pipe_fma_type_fp16",),
}
"""Counters that are 0 if no operation of a kind was executed."""
_FP16_PIPE, _FP16_PIPE_UNTIL = "sm__inst_executed_pipe_fp16", (7, 5)
"""Up to this compute capability that pipe executes all half-precision work; later ones execute
bfloat16, or all of it, with FMA."""
_PIPE_FORMS = [
    f".{rollup}{form}"
    for rollup in ("sum", "avg")
    for form in ("", *(f".pct_of_peak_sustained_{span}" for span in ("active", "elapsed")))
]
DRAM = "DRAM"
GUIDE = {"FP32": "fp32", **{f"tensor {kind}": f"tensor_{kind.lower()}" for kind in ("FP16", "FP8", "FP4")}}
"""Pipes of ``chips.toml`` by kind of roof. Without a rate there, there is no roof, rather than a
guessed one."""
_TENSOR_KINDS = {
    "float16": "tensor FP16",
    "bfloat16": "tensor FP16",
    "float8_e4m3fn": "tensor FP8",
    "float4_e2m1fn_x2": "tensor FP4",
}
"""Kind of tensor roof by the input type declared by the run."""
STATED, BUS, GUIDED = "peak given in the report", "bus width × memory clock", "FLOP per clock × SMs × SM clock"
MOST_GPUS = 3
OVERSHOOT = 1.05
Row = Mapping[str, Any]
IDLE_TENSOR_PCT = 0.05
"""Below this share of time, the tensor pipe did no work that FLOPs could miss."""


@dataclass(frozen=True)
class Subject:
    """One launch: its scalar metrics, its duration, its SM clock in Hz, and what the run and the
    verdict say of it.

    ``flops`` is what the run names; ``tensor_pct`` and ``compute_capability`` may be unknown
    (None).
    """

    scalars: Scalars
    duration_ns: float | None
    clock_hz: float | None
    flops: float | None = None
    dtype: str = ""
    tensor_pct: float | None = None
    compute_capability: str = ""


def speeds(subject: Subject) -> dict[str, float | str | dict[str, Stated] | None]:
    """``tflops``, ``dram_gbs``, ``intensity`` (FLOP/byte), ``flops_from`` and ``roofs``; None for
    what is not known.

    ``roofs`` holds [peak, where it comes from] by name: DRAM in GB/s, the others in TFLOP/s.
    """
    tflops, source = _tflops(subject)
    moved = _dram_gbs(subject)
    intensity = 1e3 * tflops / moved if tflops and moved else None
    return {
        "tflops": _short(tflops),
        "dram_gbs": _short(moved),
        "intensity": _short(intensity),
        "flops_from": source if tflops else None,
        "roofs": roofs(subject),
    }


def roofs(subject: Subject) -> dict[str, Stated]:
    """The roofs of the GPU at the clocks of this launch, by name."""
    known: dict[str, Stated] = {}
    if memory := _dram_roof(subject):
        known[DRAM] = memory
    for kind in _KINDS:
        if (roof := _core_roof(subject, kind)) and (kind == "FP32" or _rate(subject, kind)):
            known[kind] = roof
    return known | _tensor_roofs(subject)


def _tflops(subject: Subject) -> tuple[float | None, str]:
    """Measured TFLOP/s, and where the FLOPs come from."""
    if subject.flops and subject.duration_ns:
        return subject.flops / subject.duration_ns / 1e3, "run"
    rates = {kind: rate for kind in _KINDS if (rate := _rate(subject, kind)) is not None}
    tensor = _tensor_rates(subject)
    worked = subject.tensor_pct is None or subject.tensor_pct > IDLE_TENSOR_PCT
    uncounted = [kind for kind in _KINDS if kind not in rates and not _idle(subject, kind)]
    if uncounted or not rates or (worked and not tensor):
        return None, ""
    total = sum(rates.values()) + sum(tensor.values())
    return (total / 1e12 or None), f"counters: {', '.join([*rates, *(['tensor'] if tensor else [])])}"


def _rate(subject: Subject, kind: str) -> float | None:
    """FLOP/s of one kind of CUDA core operations; None where its counters are not there."""
    clock = number(subject.scalars.get("smsp__cycles_elapsed.avg.per_second"))
    counted = [_per_cycle(subject.scalars, name, weight) for name, weight in _KINDS[kind].items()]
    if clock is None or None in counted:
        return None
    return clock * math.fsum(flops or 0.0 for flops in counted)


def _per_cycle(scalars: Scalars, name: str, weight: int) -> float | None:
    """FLOPs per cycle of one operation: as it was counted, else as ncu has weighted it already."""
    counted = number(scalars.get(_OPS.format(name)))
    return number(scalars.get(_WEIGHTED.format(name, weight))) if counted is None else weight * counted


def _idle(subject: Subject, kind: str) -> bool:
    """Whether the report shows that no operation of this kind was executed."""
    pipes = _PIPES[kind]
    if kind == "FP16" and _version(subject.compute_capability) <= _FP16_PIPE_UNTIL:
        pipes = (*pipes, _FP16_PIPE)
    values = (number(subject.scalars.get(pipe + form)) for pipe in pipes for form in _PIPE_FORMS)
    known = [value for value in values if value is not None]
    return bool(known) and not any(known)


def _version(capability: str) -> tuple[int, int]:
    """``8.6`` as a pair; what is no version comes after all of them."""
    major, _, minor = capability.partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else (sys.maxsize, 0)


def _tensor_rates(subject: Subject) -> dict[str, float]:
    """FLOP/s of the tensor pipe by type of its inputs, where it did any."""
    clock = number(subject.scalars.get("sm__cycles_elapsed.avg.per_second"))
    if clock is None:
        return {}
    matched = ((_TENSOR_OPS.fullmatch(name), value) for name, value in subject.scalars.items())
    return {match[1]: value * clock for match, value in matched if match and number(value)}


def _dram_gbs(subject: Subject) -> float | None:
    """Bytes from and to DRAM in GB/s."""
    counted = [
        next((known for name in names if (known := number(subject.scalars.get(name))) is not None), None)
        for names in (
            ("dram__bytes_read.sum", "dram__bytes_op_read.sum"),
            ("dram__bytes_write.sum", "dram__bytes_op_write.sum"),
        )
    ]
    if subject.duration_ns and all(size is not None for size in counted):
        return sum(size or 0.0 for size in counted) / subject.duration_ns
    rate = number(subject.scalars.get("dram__bytes.sum.per_second"))
    return None if rate is None else rate / 1e9


def _dram_roof(subject: Subject) -> Stated | None:
    values = subject.scalars
    clock = number(values.get("dram__cycles_elapsed.avg.per_second"))
    per_cycle = number(values.get("dram__bytes.sum.peak_sustained"))
    if clock and per_cycle:
        return [_short(clock * per_cycle / 1e9), STATED]
    width = number(values.get("device__attribute_global_memory_bus_width"))
    clock = clock or 1e3 * (number(values.get("device__attribute_memory_clock_rate")) or 0.0)
    return [_short(2 * width / 8 * clock / 1e9), BUS] if width and clock else None  # two transfers per clock


def _core_roof(subject: Subject, kind: str) -> Stated | None:
    name, weight = list(_KINDS[kind].items())[-1]
    counted = number(subject.scalars.get(_PEAK.format(name)))
    per_cycle = weight * counted if counted else number(subject.scalars.get(_WEIGHTED_PEAK.format(name, weight)))
    if per_cycle and subject.clock_hz:
        return [_short(per_cycle * subject.clock_hz / 1e12), STATED]
    return _guided(subject, kind)


def _guided(subject: Subject, kind: str) -> Stated | None:
    chip = chip_of(subject.compute_capability)
    per_clock = chip.flop_per_clock_sm.get(GUIDE.get(kind, "")) if chip else None
    sms = number(subject.scalars.get("device__attribute_multiprocessor_count"))
    if not per_clock or not sms or not subject.clock_hz:
        return None
    return [_short(per_clock * sms * subject.clock_hz / 1e12), GUIDED]


def _tensor_roofs(subject: Subject) -> dict[str, Stated]:
    """The dense roof of each type of input that the tensor pipe worked on."""
    dense_roofs: dict[str, Stated] = {}
    for kind in _tensor_rates(subject):
        peaks = {name: value for name, value in subject.scalars.items() if _is_peak(name, kind)}
        dense = [value for name, value in peaks.items() if "sparsity_off" in name] or list(peaks.values())
        if dense and subject.clock_hz:
            dense_roofs[f"tensor {kind.split('_')[0].upper()}"] = [_short(max(dense) * subject.clock_hz / 1e12), STATED]
    named = _TENSOR_KINDS.get(subject.dtype, "") if (subject.tensor_pct or 0.0) > IDLE_TENSOR_PCT else ""
    if named and not dense_roofs and (guided := _guided(subject, named)):
        dense_roofs[named] = guided
    return dense_roofs


def _is_peak(name: str, kind: str) -> bool:
    return name.startswith("sm__ops_path_tensor_") and f"src_{kind}" in name and name.endswith(".sum.peak_sustained")


def _short(value: float | None) -> float | None:
    """Five significant digits: short in JSON, finer than any figure."""
    known = number(value)
    return None if known is None else float(f"{known:.5g}")


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
    return peaks.get(roof.name) == max(peaks.values(), default=None) and (cores_only or roof.name not in _KINDS)


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
