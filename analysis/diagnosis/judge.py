"""Judges one launch: account, diagnosis and headline figures as its verdict."""

from __future__ import annotations

import math

from ncubble.analysis.account.account import BubbleAccount, account
from ncubble.analysis.account.plausibility import doubts
from ncubble.analysis.account.units import MEMORY, tensor_share_of_active, tensor_utilization, utilization
from ncubble.analysis.diagnosis.diagnose import Diagnosis, diagnose
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.report.report import Launch
from ncubble.profiling.metrics.generations import load_generations
from ncubble.text.values import number


def launch_verdict(launch: Launch) -> LaunchVerdict:
    """The verdict of one launch; values that the report does not hold are None."""
    counted = account(launch)
    return describe(launch, counted, diagnose(launch, counted))


def describe(launch: Launch, counted: BubbleAccount | None, diagnosis: Diagnosis) -> LaunchVerdict:
    """Put identity, headline figures, account and diagnosis of one launch together."""
    row, doubted = launch.identity, doubts(launch)
    return LaunchVerdict(
        report=str(launch.report.path),
        launch=launch.number,
        integrity="suspicious" if doubted else "ok",
        label=launch.label,
        shape=dict(launch.report.run.manifest.kernel_of(launch.number).get("shape") or {}),
        kernel=row.kernel,
        device=row.device or None,
        compute_capability=row.compute_capability or None,
        duration_ns=number(row.duration_ns),
        cycles=number(row.cycles),
        sm_clock_hz=number(row.sm_clock_hz),
        tensor_elapsed_pct=number(tensor_utilization(launch)),
        tensor_of_active_pct=number(tensor_share_of_active(launch)),
        dram_pct=number(utilization(launch, MEMORY["dram"])),
        async_copy={
            "ldgsts": _count(launch, "ldgsts", "LDGSTS"),
            "tma": _count(launch, "tma", "UTMALDG"),
        },
        unit=counted.unit if counted else None,
        account={part: float(pct) for part, pct in counted.parts.items()} if counted else None,
        merged={part: list(finer) for part, finer in counted.merged.items()} if counted else {},
        cause=diagnosis.cause,
        disease=diagnosis.disease,
        causes=diagnosis.causes,
        warnings=[*doubted, *diagnosis.warnings],
    )


def _count(launch: Launch, quantity: str, opcode: str) -> float | None:
    """Executed asynchronous copies, in warp instructions: by counter, else summed over the code;
    None if neither is there."""
    value = launch.first(load_generations().quantities[quantity])
    if not math.isnan(value):
        return value
    source = launch.source
    if source.empty or source["executed"].isna().all():
        return None
    return float(source.loc[source["opcode"].str.startswith(opcode), "executed"].sum())
