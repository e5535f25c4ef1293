"""Reports made up for tests of the dashboard: frames with exactly the columns of the contract, and
known content.

``store()`` holds eight launches in three reports: a starved GEMM with everything collected, its
saturated twin, a kernel without tensor work that lacks timeline and samples, and launches with
hostile names. One path fails to open.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from plotly.utils import PlotlyJSONEncoder

from ncubble.analysis.account.evidence import Evidence, evidence
from ncubble.analysis.account.units import Busy, busy_of
from ncubble.analysis.changes.change import Change
from ncubble.analysis.diagnosis.verdict import LaunchVerdict, Place
from ncubble.analysis.report.report import Launch, LaunchIdentity
from ncubble.dashboard.data.store import ReportStore
from ncubble.errors import ReportError
from ncubble.profiling.runs import Manifest, Run

HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
PARTS = {
    "tensor_busy": 43.1,
    "unit_busy": 0.0,
    "ramp": 2.4,
    "tail": 5.5,
    "wave_gap": 3.0,
    "data_wait": 6.0,
    "copy_cost": 21.0,
    "smem_wait": 5.0,
    "sync_wait": 6.5,
    "issue": 4.5,
    "epilogue": 2.0,
    "other": 1.0,
}


@dataclass
class FakeReport:
    """Stands in for ``analysis.report.Report``: the attributes that the dashboard reads, and no
    others."""

    run: Run
    key: str
    launches: pd.DataFrame
    timeline: pd.DataFrame
    source: pd.DataFrame
    rules: pd.DataFrame
    verdicts: dict[int, LaunchVerdict] = field(default_factory=dict)
    numbers: dict[int, dict[str, float]] = field(default_factory=dict)

    def identity(self, launch: int) -> LaunchIdentity:
        """The row of ``launches`` of one launch."""
        rows = self.launches[self.launches["launch"] == launch]
        return LaunchIdentity.of(rows.to_dict("records")[0])

    def scalars(self, launch: int) -> dict[str, float]:
        """The metrics of one launch by name: those of ``numbers``."""
        return self.numbers.get(launch, {})

    @property
    def metrics(self) -> pd.DataFrame:
        """All of ``numbers``, as the frame of the contract."""
        rows = [(launch, name, value, "") for launch, found in self.numbers.items() for name, value in found.items()]
        return pd.DataFrame(rows, columns=["launch", "metric", "value", "unit"])

    def launch(self, number: int) -> Launch:
        """One launch."""
        return Launch(self, number)  # type: ignore[arg-type]

    def memo(self, number: int) -> dict[object, Any]:
        """The unit of its account and its phases are known of a launch, although no counter says
        them."""
        parts = self.verdicts[number].account if number in self.verdicts else None
        busy = Busy("tensor", parts["tensor_busy"], "tensor") if parts else None
        timed = None if self.timeline.empty else phases()
        known = {busy_of: busy, evidence: Evidence(source=self.source_of(number), busy=busy, phases=timed)}
        return {getattr(function, "__wrapped__"): fact for function, fact in known.items()}  # noqa: B009 - untyped

    def read_one_at_a_time(self) -> None:
        """All frames stay."""

    def source_of(self, launch: int) -> pd.DataFrame:
        """The instructions of one launch, numbered from 0."""
        return self.source[self.source["launch"] == launch].reset_index(drop=True)

    def timeline_of(self, launch: int) -> pd.DataFrame:
        """The samples of one launch."""
        return self.timeline[self.timeline["launch"] == launch]

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.run.path


def phases() -> SimpleNamespace:
    """What ``analysis.phases`` finds on ``timeline()``, with its field names."""
    return SimpleNamespace(
        ramp=2.4,
        tail=5.5,
        wave_gap=3.0,
        steady=52.0,
        start_ns=0,
        ramp_end_ns=12_000,
        tail_start_ns=372_000,
        end_ns=399_000,
        dips=((99_000, 106_500), (198_000, 205_500), (297_000, 304_500)),
    )


def timeline(launch: int) -> pd.DataFrame:
    """Samples every 1.5 µs over 400 µs: tensor steady at 52 % with a ramp, three dips and a
    tail."""
    t = np.arange(0, 400_500, 1500)
    rng = np.random.default_rng(launch)
    tensor = 52.0 + rng.normal(0, 1.2, len(t))
    tensor[t < 12_000] = np.linspace(0, 40, int((t < 12_000).sum()))
    tensor[t > 372_000] = np.linspace(30, 4, int((t > 372_000).sum()))
    for start, end in phases().dips:
        tensor[(t >= start) & (t < end)] = 18.0
    active = np.where(t > 380_000, 9000.0, 21_000.0)
    series = {
        "tensor": (tensor, "%"),
        "sm_active": (active, "cycle"),
        "dram": (20 + rng.normal(0, 2, len(t)), "%"),
        "l2": (34 + rng.normal(0, 2, len(t)), "%"),
    }
    frames = [
        pd.DataFrame({"launch": launch, "t_ns": t, "metric": name, "value": values, "unit": unit})
        for name, (values, unit) in series.items()
    ]
    return pd.concat(frames, ignore_index=True)


def source(launch: int, text: str = "gemm.cu") -> pd.DataFrame:
    """Forty instructions, the most samples on the one after the wait for copies."""
    rng = np.random.default_rng(7)
    samples = rng.integers(1, 60, 40)
    samples[17] = 900
    frame = pd.DataFrame(
        {
            "launch": launch,
            "pc": np.arange(40) * 16,
            "sass": [f"HMMA.16816.F32 R{i}, R8, R{i + 4}, R{i} ;" for i in range(40)],
            "opcode": "HMMA.16816.F32",
            "file": f"/home/someone/{text}",
            "line": np.arange(40) + 60,
            "samples": samples.astype(float),
            "executed": 4096.0,
        }
    )
    frame["long_scoreboard"] = (frame["samples"] * 0.6).round()
    frame["barrier"] = (frame["samples"] * 0.2).round()
    frame["selected"] = frame["samples"] - frame["long_scoreboard"] - frame["barrier"]
    return frame


def rules(launch: int) -> pd.DataFrame:
    return pd.DataFrame(
        [
            (
                launch,
                "SpeedOfLight",
                "SOLBottleneck",
                "Latency Issue",
                "See @section:WarpStateStats:Warp State Statistics@ for more.",
                "optimization",
                21.5,
                "global",
            ),
            (
                launch,
                "LaunchStats",
                "LaunchConfiguration",
                "Tail Effect",
                f"A partial wave. {HOSTILE}",
                "warning",
                np.nan,
                "",
            ),
            (launch, "Occupancy", "TheoreticalOccupancy", "Occupancy", "Fine.", "ok", np.nan, ""),
        ],
        columns=["launch", "section", "rule", "title", "message", "kind", "speedup_pct", "speedup_kind"],
    )


def launches(rows: list[tuple[int, str, float, str]]) -> pd.DataFrame:
    """The launches frame of (launch, kernel, duration_ns, device)."""
    frame = pd.DataFrame(rows, columns=["launch", "kernel", "duration_ns", "device"])
    frame["demangled"] = frame["kernel"]
    frame["grid"], frame["block"] = "32,32,1", "256,1,1"
    frame["registers"], frame["smem_static_B"], frame["smem_dynamic_B"] = 128.0, 0.0, 49152.0
    frame["compute_capability"], frame["ncu_version"], frame["nvtx"] = "9.0", "2025.3.1.0", ""
    frame["cycles"], frame["sm_clock_hz"] = frame["duration_ns"] * 1.755, 1.755e9
    return frame


KINDS = {"copy_cost": "copies", "sync_wait": "barriers", "issue": "registers", "tail": "ctas", "slow_path": "path"}


def verdict(kernel: str, duration_ns: float | None, cause: str, **changes: Any) -> LaunchVerdict:
    """A verdict of a made-up launch, whose first change acts on ``cause``; no change if that is
    ``unknown``."""
    place = Place("/home/someone/gemm.cu", 77, "LDGSTS.E.BYPASS.128 [R1], [R2.64] ;", 33.0)
    base: dict[str, Any] = {
        "report": "made up",
        "launch": 0,
        "integrity": "ok",
        "label": "",
        "shape": {},
        "kernel": kernel,
        "device": "NVIDIA H200",
        "compute_capability": "9.0",
        "duration_ns": duration_ns,
        "cycles": None,
        "sm_clock_hz": None,
        "tensor_elapsed_pct": 43.1,
        "tensor_of_active_pct": None,
        "dram_pct": 20.4,
        "async_copy": {"ldgsts": 4194304.0, "tma": None},
        "unit": "tensor",
        "account": dict(PARTS),
        "merged": {},
        "where": {"copy_cost": [place]},
        "changes": changes_to(cause),
        "warnings": [],
    }
    return LaunchVerdict(**base | changes)


def changes_to(cause: str) -> list[Change]:
    """The first change acts on ``cause``; ``none`` and ``bytes`` are kinds."""
    gain: dict[str, Any] = {"gain_pct": 12.5, "low": 5.0, "high": 20.0, "basis": "predicted"}
    more = Change(kind="barriers", part="sync_wait", text="fewer barriers per tile")
    if cause in ("none", "bytes"):
        return [Change(kind=cause, text="nothing is known to gain 3 %" if cause == "none" else "move fewer bytes")]
    first = Change(kind=KINDS.get(cause, "stages"), part=cause, text="copy 16 bytes per thread, or use TMA", **gain)
    return [] if cause == "unknown" else [first, more]


def _run(name: str, manifest: Manifest | None = None) -> Run:
    path = Path("runs") / name
    return Run(path, path / "report.ncu-rep", manifest or Manifest())


def _empty(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.iloc[0:0]


def gemm() -> FakeReport:
    facts = {"name": "tensor_core_gemm", "function": "wmma_gemm", "parameters": {"stages": 3}, "shape": {"m": 4096}}
    manifest = Manifest(
        kernel=facts, metric_set=["pipeline", "timeline"], device={"driver": "580.95"}, started="2026-11-20T10:00:00Z"
    )
    rows = [
        (0, "void wmma_gemm<3, 16>(half const*, half const*, float*)", 400_123.0, "NVIDIA H200"),
        (1, "wmma_gemm_deep", 310_000.0, "NVIDIA H200"),
    ]
    report = FakeReport(
        _run("tensor_core_gemm-1", manifest),
        "0123456789abcdef",
        launches(rows),
        pd.concat([timeline(0), timeline(1)], ignore_index=True),
        source(0),
        rules(0),
    )
    report.numbers[0] = {"launch__block_size": 256.0, "sm__cycles_active.avg": 702_000.0}
    full = {**dict.fromkeys(PARTS, 0.0), "tensor_busy": 96.9, "issue": 3.1}
    report.verdicts = {
        0: verdict(rows[0][1], rows[0][2], "copy_cost"),
        1: verdict(rows[1][1], rows[1][2], "none", tensor_elapsed_pct=96.9, account=full, where={}, dram_pct=31.0),
    }
    return report


def bare() -> FakeReport:
    """A report with counters only: no timeline, no samples, no rules; its second launch lacks
    nearly everything."""
    rows = [
        (0, "copy_kernel(float*, float*)", 52_000.0, "NVIDIA A100-SXM4-40GB"),
        (1, "unknown_kernel", float("nan"), ""),
    ]
    report = FakeReport(
        _run("counters.ncu-rep"),
        "fedcba9876543210",
        launches(rows),
        _empty(timeline(0)),
        _empty(source(0)),
        _empty(rules(0)),
    )
    busy = {"tensor_busy": 0.0, "unit_busy": 91.0, "no_cta": 3.0, "idle": 6.0}
    report.verdicts = {
        0: verdict(
            rows[0][1],
            rows[0][2],
            "bytes",
            tensor_elapsed_pct=0.0,
            dram_pct=91.0,
            unit="dram",
            account=busy,
            where={},
        ),
        1: verdict(
            rows[1][1],
            None,
            "unknown",
            tensor_elapsed_pct=None,
            dram_pct=None,
            unit=None,
            account=None,
            where={},
            device=None,
            async_copy={"ldgsts": None, "tma": None},
        ),
    }
    return report


def hostile(count: int = 4) -> FakeReport:
    """Launches whose names, source files and warnings try to be markup."""
    rows = [(i, f"{HOSTILE}_{i}", 10_000.0 * (i + 1), "NVIDIA H200") for i in range(count)]
    report = FakeReport(
        _run("hostile.ncu-rep"),
        "00000000deadbeef",
        launches(rows),
        timeline(0).assign(unit=HOSTILE),
        source(0, f"{HOSTILE}.cu").assign(sass=HOSTILE).rename(columns={"barrier": HOSTILE}),
        rules(0),
    )
    report.verdicts = {
        i: verdict(
            rows[i][1],
            rows[i][2],
            "sync_wait",
            warnings=[HOSTILE],
            changes=[Change(kind=HOSTILE, part="sync_wait", text=HOSTILE)],
        )
        for i in range(count)
    }
    return report


def store(tmp_path: Path, reports: list[FakeReport] | None = None) -> ReportStore:
    """A loaded store of the made-up reports and one damaged file."""
    made = [gemm(), bare(), hostile()] if reports is None else reports
    paths = [tmp_path / f"{index}.ncu-rep" for index in range(len(made))] + [tmp_path / "damaged.ncu-rep"]
    by_path = dict(zip(paths, made, strict=False))

    def opener(asked: Any) -> tuple[list[Any], list[Any]]:
        failed = [
            SimpleNamespace(path=p, error=ReportError("file ends inside block 3", "record it again"))
            for p in asked
            if p not in by_path
        ]
        return [by_path[p] for p in asked if p in by_path], failed

    opened = ReportStore(paths, opener, judge)
    opened.start().wait(30)
    return opened


def judge(report: FakeReport, launch: int) -> LaunchVerdict:
    """Stands in for ``analysis.verdict.launch_verdict``."""
    return report.verdicts[launch]


def view(shown: ReportStore, key: str = "0123456789abcdef", launch: int = 0, search: str = "") -> Any:
    """What the panels of a launch's page are made from, at an address."""
    from ncubble.dashboard.pages.addresses import KernelAddress
    from ncubble.dashboard.pages.kernel.view import LaunchView

    entry = shown.find(key, launch)
    assert entry is not None
    return LaunchView(shown, entry, KernelAddress.parse(search))


def late_parts(shown: ReportStore, path: str) -> list[Any]:
    """What comes after the first paint at the address of a launch, but the table of metrics;
    nothing at others."""
    from ncubble.dashboard.pages.kernel.layout import PANELS, panel

    kind, _, address = path.removeprefix("/").partition("/")
    key, _, launch = address.partition("/")
    if kind != "kernel" or shown.find(key, int(launch)) is None:
        return []
    return [panel(view(shown, key, int(launch)), place) for place, late in PANELS.items() if late.stage is not None]


def sent(content: Any) -> str:
    """What a browser gets of components."""
    return json.dumps(content, cls=PlotlyJSONEncoder, ensure_ascii=False)


def texts(content: Any) -> list[str]:
    """Every text that components show, in order."""
    if isinstance(content, str | int | float):
        return [str(content)]
    if isinstance(content, list | tuple):
        return [text for child in content for text in texts(child)]
    return texts(getattr(content, "children", None) or [])
