"""The account of a trace, without counters, beside the account of a profile of the same kernel.

    python -m benchmarks.probe.coarse                 # the recordings that ship: no GPU is needed
    python -m benchmarks.probe.coarse --measure OUT   # CASES anew, on a GPU

The definition is written in ``analysis/traces/account.py``; it was written down before this was
run. Compared are points of time: each part as the trace tells it against the account of the
profile, whether the profile's lies within the range of the trace's readings (to half a point), and
all bubbles of the steady loop together. The trace's ``compute`` stands against busy, shared-memory
waits and issue together, ``launch`` for ramp, tail and wave gaps. The target is 5 points.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.command import NCUBBLE, REPOSITORY
from ncubble.analysis.diagnosis.results import report_json
from ncubble.analysis.traces.account import HOLDS, WORK, TraceAccount, trace_account
from ncubble.analysis.traces.lanes import read_warps

TARGET, ROUNDING = 5.0, 0.5
SMS = 16
CASES = (
    *(f"tensor_core_gemm stages={stages}" for stages in (1, 2, 3, 4)),
    *(f"gemm_tma stages={stages}" for stages in (1, 2, 3, 6)),
    "gemm_ws",
    "gemm_ws schedule=pingpong tile_n=128 stages=5",
    "async_pipeline stages=2",
    "async_pipeline stages=4",
    *(
        f"warp_specialized roles={roles} slots={slots} work=256"
        for roles in ("fused", "specialized")
        for slots in (1, 2)
    ),
)
KEPT = REPOSITORY / "docs" / "validation" / "coarse.json"
"""What ``--measure`` wrote on an H100."""
LANES, RUNS = Path("recordings/h200-lanes"), Path("recordings/h200")
PAIRS = {
    "tensor_core_gemm stages=1": (LANES / "trace-tensor_core_gemm-stages1", RUNS / "tensor_core_gemm" / "stages1"),
    "tensor_core_gemm stages=2": (LANES / "trace-tensor_core_gemm-stages2", RUNS / "tensor_core_gemm" / "stages2"),
    "gemm_tma stages=3": (LANES / "trace-gemm_tma-stages3", RUNS / "gemm_tma" / "stages3"),
    "gemm_ws": (LANES / "trace-gemm_ws", RUNS / "gemm_ws" / "default"),
}
"""Kernels of which both ship, of different days: the trace of one SM, and a profile."""
GROUPS: dict[str, tuple[str, ...]] = {
    WORK: (*HOLDS, WORK),
    "launch": ("ramp", "tail", "wave_gap"),
    "data_wait": ("data_wait",),
    "copy_cost": ("copy_cost",),
    "data + copy": ("data_wait", "copy_cost"),
    "sync_wait": ("sync_wait",),
    "epilogue": ("epilogue",),
}


@dataclass(frozen=True)
class CoarseRow:
    """One group of parts of one case, in percent: by the profile, by the trace, and the range of
    the trace's readings."""

    case: str
    group: str
    profile: float
    trace: float
    low: float
    high: float

    @property
    def off(self) -> float:
        """Points by which the trace is above the profile."""
        return self.trace - self.profile

    @property
    def within(self) -> bool:
        """Whether the profile's value lies in the range."""
        return self.low - ROUNDING <= self.profile <= self.high + ROUNDING


def rows_of(case: str, profile: Mapping[str, float], traced: TraceAccount) -> Iterator[CoarseRow]:
    """The groups of one case."""
    for group, parts in GROUPS.items():
        readings = [
            sum(reading.get(part, 0.0) for part in parts) for reading in (traced.parts, traced.at_least, traced.at_most)
        ]
        known = sum(profile.get(part, 0.0) for part in parts)
        yield CoarseRow(case, group, known, readings[0], min(readings), max(readings))


def shipped() -> Iterator[CoarseRow]:
    """All pairs that ship."""
    for case, (trace, run) in PAIRS.items():
        (launch,) = report_json([REPOSITORY / run])["launches"]
        traced = trace_account(read_warps(REPOSITORY / trace).rows)
        if traced is not None:
            yield from rows_of(case, launch["account"], traced)


def measured(out: Path) -> Iterator[CoarseRow]:
    """CASES: a profile and a trace of 16 SMs each, on a GPU."""
    from ncubble.analysis.traces.probe import decode, parse_dumps
    from ncubble.kernels.run.probe import TraceOptions, trace
    from ncubble.kernels.run.session import KernelRequest, parse_parameters

    for case in CASES:
        name, *parameters = case.split()
        folder = str(out / case.replace(" ", "-").replace("=", ""))
        options = [text for each in parameters for text in ("-p", each)]
        subprocess.run([*NCUBBLE, "profile", name, *options, "--out", folder, "--force"], check=True, timeout=120)
        (launch,) = report_json([Path(folder)])["launches"]
        dump = trace(KernelRequest(name, parse_parameters(parameters)), TraceOptions(SMS, 2048, cost=False)).dump
        traced = trace_account(decode(parse_dumps(dump, case)).lanes)
        if traced is not None:
            yield from rows_of(case, launch["account"], traced)


def kept() -> list[CoarseRow]:
    """What was measured last."""
    return [CoarseRow(**row) for row in json.loads(KEPT.read_text(encoding="utf-8"))]


def table(rows: list[CoarseRow], each: bool = True) -> str:
    """Markdown: a row for ``each`` case, and below them how many agree."""
    groups = list(GROUPS)
    lines = [f"|  | {' | '.join(groups)} |", f"| --- |{' ---: |' * len(groups)}"]
    for case in dict.fromkeys(row.case for row in rows if each):
        cells = [
            f"{row.profile:.1f}, {row.trace:.1f} ({row.low:.1f}..{row.high:.1f})" for row in rows if row.case == case
        ]
        lines.append(f"| {case} | {' | '.join(cells)} |")
    near, inside = [], []
    for group in groups:
        own = [row for row in rows if row.group == group]
        near.append(f"{sum(abs(row.off) <= TARGET for row in own)} of {len(own)}")
        inside.append(f"{sum(row.within for row in own)} of {len(own)}")
    lines += [
        f"| within {TARGET:g} points | {' | '.join(near)} |",
        f"| profile within the range | {' | '.join(inside)} |",
    ]
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", type=Path, metavar="OUT", help="measure anew, on a GPU; OUT gets coarse.json")
    out: Path | None = parser.parse_args(arguments).measure
    if out is None:
        rows = list(shipped())
    else:
        out.mkdir(parents=True, exist_ok=True)
        rows = list(measured(out))
        (out / "coarse.json").write_text(json.dumps([vars(row) for row in rows], indent=1) + "\n")
    sys.stdout.write(table(rows) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
