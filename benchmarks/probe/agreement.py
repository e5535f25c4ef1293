"""Do the probe's waits agree with the account's? Both of the same kernels, in one session on one
GPU.

What is compared, and why, is written in ``probe/waits.py``. The target is 5 points of elapsed time
for ``data_wait`` and for ``sync_wait``. Predicted before the first measurement: within 5 points for
gemm_tma at 3 and more stages, gemm_ws, async_pipeline and tensor_core_gemm at 2 and more stages, as
there is little of either; for tensor_core_gemm at 1 stage ``data_wait`` within 5, ``sync_wait``
lower than the account's, which cannot tell who comes late to a barrier; for gemm_tma at 1 and 2
stages, two CTAs an SM, the account's ``data_wait`` between the readings ``least`` and ``most``;
misses for warp_specialized, where the account's unit is DRAM, whose work no warp's region shows.

After four cases were measured (docs/trace.md) the column ``played``, a second definition, was
added. Predicted for it before it is measured: ``data_wait`` within 5 points for gemm_tma at 2 and
more stages and gemm_ws, where products are asynchronous; for tensor_core_gemm no better than the
first.

What counts was settled before the other twelve were measured, by what each definition says it holds
for: ``played`` where products are asynchronous (``ASYNCHRONOUS``), the first elsewhere; the count
by the first alone is printed, too. The last columns compare ``data_wait`` and ``copy_cost``
together. Predicted for them: within 5 points for tensor_core_gemm and async_pipeline at all stages;
for gemm_tma and gemm_ws as ``data_wait`` alone, since TMA's copies cost the warps next to nothing.

Usage: python -m benchmarks.probe.agreement OUT [--quick]    (OUT gets agreement.json, and lanes/CASE with
the lanes of one SM, from which other definitions can be computed; about 8 s a case)
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.harness.command import NCUBBLE
from benchmarks.probe.waits import waits
from ncubble.analysis.traces.probe import Recorded, decode, parse_dumps
from ncubble.analysis.traces.summary import traced_lanes
from ncubble.errors import NcubbleError
from ncubble.kernels.run.probe import TraceOptions, trace
from ncubble.kernels.run.session import KernelRequest, parse_parameters

TARGET = 5.0
SMS = 16
CASES = (
    "tensor_core_gemm stages=1",
    "tensor_core_gemm stages=2",
    "tensor_core_gemm stages=3",
    "tensor_core_gemm stages=4",
    "gemm_tma stages=1",
    "gemm_tma stages=2",
    "gemm_tma stages=3",
    "gemm_tma stages=6",
    "gemm_ws",
    "gemm_ws schedule=pingpong tile_n=128 stages=5",
    "async_pipeline stages=2",
    "async_pipeline stages=4",
    "warp_specialized roles=fused slots=1 work=256",
    "warp_specialized roles=fused slots=2 work=256",
    "warp_specialized roles=specialized slots=1 work=256",
    "warp_specialized roles=specialized slots=2 work=256",
)
QUICK = CASES[0:2] + CASES[4:6]
ASYNCHRONOUS = ("gemm_tma", "gemm_ws")


def account_of(name: str, parameters: list[str], folder: Path) -> dict[str, Any]:
    """The launch's verdict from ``ncubble profile``; raises CalledProcessError."""
    options = [text for each in parameters for text in ("-p", each)]
    command = [*NCUBBLE, "profile", name, *options, "--out", str(folder), "--force"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    report = [*NCUBBLE, "report", str(folder), "--json"]
    done = subprocess.run(report, check=True, capture_output=True, text=True, timeout=120)
    return dict(json.loads(done.stdout)["launches"][0])


def compare(case: str, folder: Path) -> dict[str, Any]:
    """One row: the account's parts, the probe's readings, and the differences in points."""
    name, *parameters = case.split()
    launch = account_of(name, parameters, folder)
    account = launch["account"]
    traced = trace(KernelRequest(name, parse_parameters(parameters)), TraceOptions(SMS, 2048, cost=False))
    recorded = decode(parse_dumps(traced.dump, case))
    busy = account["tensor_busy"] + account["unit_busy"]
    found = waits(recorded, busy)
    kept = folder.parent.parent / "lanes" / folder.name
    kept.mkdir(parents=True, exist_ok=True)
    first = int(recorded.warps["sm"].min())
    lanes, warps = (rows[rows["sm"] == first].reset_index(drop=True) for rows in (recorded.lanes, recorded.warps))
    traced_lanes(Recorded(lanes, warps, recorded.clock, recorded.loss), {"case": case}).save(kept)
    row = {"case": case, "unit": launch["unit"], "busy": busy, "profiled_us": launch["duration_ns"] / 1e3}
    row |= {"traced_us": float(recorded.warps["end_ns"].max()) / 1e3, "lost": recorded.loss.full}
    row |= found
    counts = "_played" if name in ASYNCHRONOUS else ""
    for part, said in (("data", "data_wait"), ("sync", "sync_wait"), ("copy", "copy_cost")):
        row[f"{part}_account"] = account.get(said, 0.0)
        row[f"{part}_counts"] = found[f"{part}{counts}"]
        row[f"{part}_off"] = row[f"{part}_counts"] - row[f"{part}_account"]
    row["data_and_copy_off"] = row["data_off"] + row["copy_off"]
    return row


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    parts = [f"{row['case']:<52} {row['unit'] or '':<6} {row['busy']:5.1f}"]
    for part in ("data", "sync"):
        mark = _mark(row[f"{part}_off"])
        least, most = row[f"{part}_least"], row[f"{part}_most"]
        own = f"{row[f'{part}_account']:6.1f} {row[part]:6.1f} ({least:4.1f}..{most:4.1f}) {mark}"
        parts.append(f"{own} {row[f'{part}_played']:5.1f}")
    account, probe = (row[f"data_{side}"] + row[f"copy_{side}"] for side in ("account", "counts"))
    parts.append(f"{account:6.1f} {probe:6.1f} {_mark(row['data_and_copy_off'])}")
    return "  ".join(parts)


def _mark(off: float) -> str:
    return " " if abs(off) <= TARGET else "!"


def main(arguments: list[str]) -> None:
    """Measure every case; one that fails is named and passed over."""
    out = Path(arguments[0])
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    parts = "data: account, probe (least..most), played   sync: the same   data + copy: account, probe"
    print(f"{'case':<52} {'unit':<6} busy   {parts}")
    for case in QUICK if "--quick" in arguments else CASES:
        try:
            rows.append(compare(case, out / "profiles" / case.replace(" ", "-").replace("=", "")))
        except (NcubbleError, subprocess.SubprocessError, OSError, KeyError) as error:
            print(f"{case}: failed: {error}")
            continue
        print(line(rows[-1]), flush=True)
        (out / "agreement.json").write_text(json.dumps({"target": TARGET, "sms": SMS, "rows": rows}, indent=1) + "\n")
    found = {
        "data and sync": [row[f"{part}_off"] for row in rows for part in ("data", "sync")],
        "the same by the first definition": [
            row[part] - row[f"{part}_account"] for row in rows for part in ("data", "sync")
        ],
        "data + copy": [row["data_and_copy_off"] for row in rows],
    }
    for said, offs in found.items():
        print(f"{said}: {sum(abs(off) <= TARGET for off in offs)} of {len(offs)} within {TARGET:g} points")


if __name__ == "__main__":
    main(sys.argv[1:])
