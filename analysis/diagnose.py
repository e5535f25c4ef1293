"""What stands between this launch and a busy pipe: ranked causes in the words of the field, with evidence and fix.

The share of a cause is its part of the account: the most that removing it can give back. A gain is predicted only where
a prediction has been held against measurement, which none has yet; until then ``predicted_gain_pct`` is None ("not
identified").
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from ncubble.analysis import lacking
from ncubble.analysis.account import BubbleAccount
from ncubble.analysis.fixes import FIXES
from ncubble.analysis.opcodes import is_wgmma, role, width_bytes
from ncubble.analysis.places import hottest
from ncubble.analysis.report import Report
from ncubble.analysis.slices import staged_through_registers
from ncubble.analysis.units import MEMORY, ratio, utilization
from ncubble.profiling.generations import load_generations

REMOVABLE = (
    "data_wait",
    "copy_cost",
    "smem_wait",
    "sync_wait",
    "issue",
    "epilogue",
    "ramp",
    "tail",
    "no_cta",
    "wave_gap",
)
CAUSE_OF = {"no_cta": "tail"}
"""Causes of parts that are merged for lack of counters: ramp is short wherever SMs stand without a CTA for long."""
SATURATED_PCT = 90.0
MEMORY_ROOF_PCT = 80.0
"""DRAM throughput from which on a matrix kernel counts as memory-bound: a plain copy reaches 86 to 90 % on an H200."""
MEMORY_BOUND_PCT = 60.0
"""The same without tensor work, for DRAM or L2 as the busiest unit. Nsight calls less than this latency-bound."""
TINY_NS = 5_000.0
"""Launches shorter than this are mostly launch latency (an empty kernel takes 2 to 3 µs)."""
NEGLIGIBLE_PCT = 1.0
PLACES = 3


@dataclass(frozen=True)
class Cause:
    """One cause with its share in percent of kernel time; ``where`` lists file, line, sass and pct of kernel time."""

    cause: str
    disease: str | None
    pct: float
    where: list[dict[str, object]] = field(default_factory=list)
    fix: str = ""
    predicted_gain_pct: float | None = None


@dataclass(frozen=True)
class Diagnosis:
    """The verdict: one word, finer where it can be told, the ranked causes behind it, and what to know beside it."""

    cause: str
    disease: str | None
    causes: list[Cause]
    warnings: list[str] = field(default_factory=list)


def diagnose(report: Report, launch: int, account: BubbleAccount | None) -> Diagnosis:
    """Ranked causes of one launch. Without an account the verdict is ``unknown`` and says what lacks."""
    if account is None:
        return Diagnosis("unknown", None, [], [lacking.no_account(report, launch).text])
    facts = Facts.of(report, launch)
    causes = [
        _cause(part, pct, account, facts, first=not rank)
        for rank, (part, pct) in enumerate(account.bubbles.items())
        if part in REMOVABLE and pct >= NEGLIGIBLE_PCT
    ]
    verdict = _verdict(account, facts, causes)
    disease = next((cause.disease for cause in causes if cause.cause == verdict), None)
    gaps = [lack.text for lack in lacking.of_account(report, launch, account)]
    return Diagnosis(verdict, disease, causes, [*facts.warnings, *gaps])


@dataclass(frozen=True)
class Facts:
    """What the report says of a launch beside its account. NaN and None mean not collected."""

    source: pd.DataFrame
    dram_pct: float
    duration_ns: float
    hopper: bool
    stages: int | None
    ctas: float
    sms: float
    waves: float
    bank_conflict_share: float
    warnings: list[str]

    @cached_property
    def opcodes(self) -> list[str]:
        """Mnemonics of the kernel's instructions, in their order."""
        return self.source["opcode"].tolist()

    @cached_property
    def roles(self) -> list[str]:
        """What each instruction does (``opcodes.role``)."""
        return [role(opcode) for opcode in self.opcodes]

    @cached_property
    def staged(self) -> bool:
        """Whether tiles go from global to shared memory through registers."""
        return any(staged_through_registers(self.source["sass"].tolist(), self.roles))

    @classmethod
    def of(cls, report: Report, launch: int) -> Facts:
        """Collect the facts of one launch."""
        row = report.identity(launch)
        kernel = report.run.manifest.kernel_of(launch)
        matches = str(kernel.get("function") or "") == str(row["kernel"])
        source = report.source_of(launch)
        return cls(
            source=source,
            dram_pct=utilization(report, launch, MEMORY["dram"]),
            duration_ns=float(row["duration_ns"]),
            hopper=bool(row["compute_capability"] == "9.0"),
            stages=kernel.get("stages") if matches else None,
            ctas=report.value(launch, "launch__grid_size"),
            sms=report.first(launch, load_generations().quantities["sms"]),
            waves=report.value(launch, "launch__waves_per_multiprocessor"),
            bank_conflict_share=ratio(report, launch, "bank_conflicts"),
            warnings=_warnings(bool(row["compute_capability"] == "9.0"), source),
        )


def _warnings(hopper: bool, source: pd.DataFrame) -> list[str]:
    mma = [opcode for opcode in source["opcode"].tolist() if role(opcode) == "mma"]
    if hopper and mma and not any(is_wgmma(opcode) for opcode in mma):
        return [
            "slow MMA path: mma.sync/WMMA does 2730.67 of wgmma's 4096 FLOP per cycle and SM (fp16), "
            "so a pipe that is 100 % busy reaches 66.7 % of the peak"
        ]
    return []


def _verdict(account: BubbleAccount, facts: Facts, causes: list[Cause]) -> str:
    busy = account.parts["tensor_busy"] + account.parts["unit_busy"]
    if facts.duration_ns < TINY_NS:
        return "tiny_launch"
    if facts.dram_pct >= MEMORY_ROOF_PCT or (account.unit in MEMORY and busy >= MEMORY_BOUND_PCT):
        return "memory_bound"
    if account.unit != "tensor":
        return "no_tensor_work"
    if busy >= SATURATED_PCT:
        return "slow_path" if any("slow MMA path" in text for text in facts.warnings) else "none"
    return causes[0].cause if causes else "unknown"


def _cause(part: str, pct: float, account: BubbleAccount, facts: Facts, first: bool = True) -> Cause:
    name = CAUSE_OF.get(part, part)
    disease = _disease(name, facts)
    if disease == "shallow_pipeline" and not first:
        disease = None  # something else bounds the kernel: that depth would help is not shown
    return Cause(name, disease, pct, _where(part, pct, account, facts.source), _fix(name, disease, facts))


def _fix(cause: str, disease: str | None, facts: Facts) -> str:
    """What to do, without what the kernel already does: fragments that come by ldmatrix, banks without conflicts."""
    if cause == "smem_wait" and disease is None:
        wider = "" if any(opcode.startswith("LDSM") for opcode in facts.opcodes) else ", or wider loads (ldmatrix)"
        return FIXES["smem_wait"] + wider
    return FIXES[disease] if disease else FIXES[cause]


def _disease(part: str, facts: Facts) -> str | None:
    copies = [opcode for opcode in facts.opcodes if opcode.startswith("LDGSTS")]
    bulk = any(opcode.startswith(("UTMALDG", "UBLKCP")) for opcode in facts.opcodes)
    if part in ("data_wait", "copy_cost") and not copies and not bulk and facts.staged:
        return "no_async"
    if part == "data_wait" and (copies or bulk) and facts.stages is not None:
        return "single_buffer" if facts.stages == 1 else "shallow_pipeline"
    if part == "copy_cost" and copies and max(width_bytes(opcode) for opcode in copies) < 16:
        return "narrow_copies"
    if part == "smem_wait" and facts.bank_conflict_share > 0.25:
        return "bank_conflicts"
    if part == "issue" and facts.roles.count("local") >= 4:
        return "spills"
    if part == "tail":
        return _tail(facts)
    return None


def _tail(facts: Facts) -> str | None:
    """Too few CTAs to give every SM one, or a last wave that fills only some of the SMs; None where occupancy is
    unknown."""
    if facts.ctas < facts.sms:
        return "too_few_ctas"
    last = facts.waves - math.floor(facts.waves) if not math.isnan(facts.waves) else math.nan
    return "partial_wave" if 0.0 < last < 0.9 else None


def _where(part: str, pct: float, account: BubbleAccount, source: pd.DataFrame) -> list[dict[str, object]]:
    """The source lines with most samples of this part; by instruction where the report has no line information."""
    if account.weights is None or part not in account.weights:
        return []
    places = hottest(source, account.weights[part], PLACES)
    return [{**{key: place[key] for key in ("file", "line", "sass")}, "pct": pct * place["share"]} for place in places]
