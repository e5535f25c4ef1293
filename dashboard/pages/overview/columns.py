"""The columns of the table of launches: what each is called, its unit, what it means, and where its
number comes from.

One list for the table, its filters, its search and its downloads. Parameters and dimensions of runs
get columns of their own (``of_parameters``), hidden until they are chosen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ncubble.analysis.launches.table import LaunchRows

PARAMETER = re.compile(r"(parameters|dims)\.([A-Za-z_]\w{0,39})")
"""Fields of parameters and dimensions: names that are no plain words get no column."""
MOST_PARAMETERS = 40


@dataclass(frozen=True)
class TableColumn:
    """One column. ``kind``: text, number, percent, time (ns in rows), bytes, or account (parts of
    elapsed time).

    ``metric`` is ncu's own name of what is shown, where there is one; ``formatter`` a function of
    ``assets/grid.js``; ``shown`` whether the table shows it unless asked otherwise.
    """

    field: str
    name: str
    kind: str
    tip: str
    unit: str = ""
    metric: str = ""
    shown: bool = False
    width: int = 0
    flex: int = 0
    renderer: str = ""
    formatter: str = ""
    hover: str = ""

    @property
    def numeric(self) -> bool:
        """Whether values are numbers, sorted largest first."""
        return self.kind not in ("text", "account")

    @property
    def explained(self) -> str:
        """The text of the header's tooltip: meaning, unit, and ncu's name."""
        unit = f" Unit: {self.unit}." if self.unit else ""
        return f"{self.tip}.{unit}{f' ncu: {self.metric}' if self.metric else ''}"


_NAME = "Kernel name; below it what tells its launches apart"
_TIME = "Time of the launch, or of all launches of the row, and its share of what is listed"
_DURATION = "gpu__time_duration.sum"
_ACCOUNT = (
    "Elapsed time, as measured where it was ablated: green is work, the rest bubbles; of several launches the mean"
)
_BUBBLE = "Largest part that is not work, of elapsed time, as measured where it was ablated"
_GAIN = "Idle time of the counted unit: the most that removing every bubble can give back; 0 where nothing is to gain"
_BUSY = "Busy share of elapsed time of the counted unit: the tensor pipe, or without tensor work the busiest unit"
_CAUSE = "The cause to remove first; below it what it costs, as measured where it was ablated, and its hottest line"
_TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed, or its name on this chip"
_DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
_TFLOPS = "Floating-point operations per second: those the run names, else those that counters of the report give"
_APART = "Longest minus shortest time of this launch among the ranks of its program, of the median"
_BYTES = "(dram__bytes_read.sum + dram__bytes_write.sum) / gpu__time_duration.sum"

COLUMNS: tuple[TableColumn, ...] = (
    TableColumn("name", "Kernel", "text", _NAME, shown=True, width=236, flex=6, renderer="NcKernel"),
    TableColumn("duration_ns", "Time", "time", _TIME, "ns", _DURATION, True, 100, renderer="NcTime"),
    TableColumn("account", "Account", "account", _ACCOUNT, "%", shown=True, width=230, flex=6, renderer="NcAccount"),
    TableColumn("cause", "Cause", "text", _CAUSE, shown=True, width=230, flex=5, renderer="NcCause"),
    TableColumn("busy", "Busy %", "percent", _BUSY, "%", shown=True, width=96, renderer="NcBusy"),
    TableColumn("recoverable_ns", "Recoverable ≤", "time", _GAIN, "ns", shown=True, width=128),
    TableColumn("dram", "DRAM %", "percent", "DRAM throughput, of its peak", "%", _DRAM, True, 88),
    TableColumn("gpu", "GPU", "text", "GPU that ran it", shown=True, width=92, hover="device"),
    TableColumn("label", "Parameters", "text", "Parameters of the run, or grid × block", width=236, flex=3),
    TableColumn(
        "tensor", "Tensor %", "percent", "Tensor pipe active over elapsed time, of peak", "%", _TENSOR, width=94
    ),
    TableColumn("bubble_pct", "Biggest bubble", "percent", _BUBBLE, "%", width=160, renderer="NcBubble"),
    TableColumn("shape", "Shape", "text", "Problem shape of the run, or grid × block", width=190, flex=2),
    TableColumn("report", "Report", "text", "Run or report file", width=240, flex=2, hover="path"),
    TableColumn("demangled", "Full name", "text", "Demangled name with its arguments", width=320, flex=2),
    TableColumn("unit", "Counted unit", "text", "The unit whose idle time the account splits", width=110),
    TableColumn("disease", "Disease", "text", "What exactly the cause is, where it was recognized", width=150),
    TableColumn("cause_pct", "Cause %", "percent", "What the cause costs, of kernel time", "%", width=90),
    TableColumn("cycles", "Cycles", "number", "Elapsed SM cycles", "cycles", "sm__cycles_elapsed.max", width=110),
    TableColumn(
        "clock_ghz", "SM clock", "number", "SM clock during the launch", "GHz", "sm__cycles_elapsed.avg.per_second"
    ),
    TableColumn(
        "grid", "Grid", "text", "CTAs of the launch in x, y, z", metric="launch__grid_dim_x, _y, _z", width=110
    ),
    TableColumn(
        "block", "Block", "text", "Threads of a CTA in x, y, z", metric="launch__block_dim_x, _y, _z", width=100
    ),
    TableColumn("ctas", "CTAs", "number", "CTAs of the launch", "CTAs", "launch__grid_size", width=90),
    TableColumn(
        "waves", "Waves", "number", "CTAs over those that fit the GPU at once", "", "launch__waves_per_multiprocessor"
    ),
    TableColumn("registers", "Registers", "number", "Registers per thread", "", "launch__registers_per_thread"),
    TableColumn(
        "smem_B",
        "Shared memory",
        "bytes",
        "Static and dynamic shared memory of a CTA",
        "B",
        "launch__shared_mem_per_block_static + launch__shared_mem_per_block_dynamic",
        width=120,
    ),
    TableColumn(
        "occupancy",
        "Occupancy %",
        "percent",
        "Warps that were resident, of what an SM holds, while it was active",
        "%",
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        width=112,
    ),
    TableColumn(
        "occupancy_limit",
        "Occupancy limit %",
        "percent",
        "Warps that can be resident with these registers, this shared memory and this block",
        "%",
        "sm__maximum_warps_per_active_cycle_pct",
        width=130,
    ),
    TableColumn("tflops", "TFLOP/s", "number", _TFLOPS, "TFLOP/s", width=96),
    TableColumn(
        "dram_gbs", "DRAM GB/s", "number", "Bytes from and to DRAM over the time of the launch", "GB/s", _BYTES
    ),
    TableColumn(
        "intensity", "FLOP/byte", "number", "Floating-point operations for each byte from or to DRAM", "FLOP/byte"
    ),
    TableColumn(
        "flops_from", "FLOP source", "text", "Whether the run names its FLOPs, or counters give them", width=130
    ),
    TableColumn("compute_capability", "CC", "text", "Compute capability of the GPU", width=70),
    TableColumn("device", "Device", "text", "Full name of the GPU", width=180),
    TableColumn("ncu_version", "ncu", "text", "Release of Nsight Compute that wrote the report", width=90),
    TableColumn("nvtx", "NVTX", "text", "NVTX ranges around the launch", width=150),
    TableColumn("launch", "Launch", "number", "Number of the launch in its report", "", width=80),
    TableColumn("rank", "Rank", "number", "Rank of the process that launched it", "", width=80),
    TableColumn("rank_spread_pct", "Ranks apart %", "percent", _APART, "%", width=120),
    TableColumn("path", "Path", "text", "Where the report lies", width=300, flex=2),
)

SEARCHED = (
    "name",
    "label",
    "gpu",
    "cause",
    "disease",
    "bubble",
    "unit",
    "shape",
    "report",
    "demangled",
    "device",
    "path",
)
"""Fields that the search looks through."""


def of_parameters(rows: Sequence[Mapping[str, Any]]) -> tuple[TableColumn, ...]:
    """A column for each parameter and dimension that a row names, at most ``MOST_PARAMETERS``, most
    common first.

    Numeric where every value is a number.
    """
    seen: dict[str, int] = {}
    words: set[str] = set()
    for group in ("parameters", "dims"):
        codes, values = LaunchRows.of(rows).coded(group)
        for known, count in zip(values, np.bincount(codes, minlength=len(values)).tolist(), strict=True):
            for name, value in (known or {}).items() if count else ():
                field = f"{group}.{name}"
                seen[field] = seen.get(field, 0) + count
                if isinstance(value, bool) or not isinstance(value, int | float):
                    words.add(field)
    common = sorted((field for field in seen if PARAMETER.fullmatch(field)), key=lambda field: (-seen[field], field))
    return tuple(_parameter(field, field in words) for field in common[:MOST_PARAMETERS])


def _parameter(field: str, is_text: bool) -> TableColumn:
    group, name = field.split(".", 1)
    what = "Parameter of the run" if group == "parameters" else "Dimension of the problem"
    return TableColumn(field, name, "text" if is_text else "number", f"{what}: {name}", width=90)


def value_of(row: Mapping[str, Any], field: str) -> Any:
    """The value of a column in a row; None where the row lacks it."""
    group, _, name = field.partition(".")
    if name:
        return (row.get(group) or {}).get(name)
    return row.get(field)
