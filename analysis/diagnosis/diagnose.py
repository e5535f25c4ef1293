"""From evidence and account of a launch to its verdict: ranked causes with places, fix and gain.

The share of a cause is its part of the account. What its removal gives back is estimated from that:
parts are not independent. Kernels that were cured of one planted disease lost time of other parts,
too (barriers wait less where copies are cheap, for example), and ablations show the same overlaps.
How much goes along is not known before, so the estimate is the mean of two cases: nothing else
goes, or all other idle time shrinks in proportion. The least is half of the cause's share, the rest
of which others may take. ``make validate`` measures how far this is off. A gain is None, not
identified, if nothing in the pipeline bounds the launch, and for idle time that the report cannot
split.

Of kernels without tensor work, what is lost to sectors that are fetched and that nobody asked for
is a cause of its own: their busiest server (DRAM, L2, or the L1 data pipe behind the LSU) is full
of work that coalesced accesses do without. The cure is bounded by the bytes that were asked for,
and by the server that is full next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from ncubble.analysis.account import lacking
from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.account import account as account_of
from ncubble.analysis.account.evidence import Evidence, evidence
from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.account.plausibility import doubts
from ncubble.analysis.account.units import MEMORY, tensor_share_of_active, tensor_utilization
from ncubble.analysis.changes.change import KEPT, Gain, gain_of
from ncubble.analysis.diagnosis.diseases import OVERFETCH, disease_of, fix_of
from ncubble.analysis.diagnosis.predicted import DEEPEST, SATURATED_PCT, TINY_NS, changes_of
from ncubble.analysis.diagnosis.verdict import Cause, LaunchVerdict, Place
from ncubble.analysis.model.pipeline import Unidentified, pipeline_of
from ncubble.analysis.model.predict import predict
from ncubble.analysis.report.report import Launch
from ncubble.text.values import number

MEMORY_ROOF_PCT = 80.0
"""DRAM throughput above which a matrix kernel counts as memory-bound: a plain copy reaches 86 to 90
% on an H200."""
SLOW_PATH_FIRST = 1.5
"""Factor by which the gain of the fast MMA path must exceed the largest idle part to be named
first: an idle part can be fixed within the kernel."""
KNOWN_FIRST = 0.75
"""Share of the largest gain that a cause with a known disease must reach to be named first, because
its fix is known."""
WAITS_PCT = 3.0
"""Minimum wait for data to predict other depths, the slowest step here."""
NEGLIGIBLE_PCT = 1.0
PLACES = 3
FULL_PCT = 60.0
"""Busy share of a server above which its work bounds the kernel (Nsight's rule ``SOLBottleneck``
calls less latency-bound)."""
NEXT_PCT = 80.0
"""Busy share of another server above which coalesced accesses would gain next to nothing."""


@dataclass(frozen=True)
class Diagnosis:
    """The verdict: one word, refined by a disease if known, the ranked causes, and warnings.
    ``gains``: what the fix of each cause gives back, where that is identified."""

    cause: str
    disease: str | None
    causes: list[Cause]
    warnings: list[str] = field(default_factory=list)
    gains: dict[str, Gain] = field(default_factory=dict)


def launch_verdict(launch: Launch) -> LaunchVerdict:
    """The verdict of one launch; values that the report does not hold are None."""
    counted = account_of(launch)
    return describe(launch, counted, diagnose(launch, counted))


def describe(launch: Launch, counted: BubbleAccount | None, diagnosis: Diagnosis) -> LaunchVerdict:
    """Put identity, headline figures, account and diagnosis of one launch together."""
    row, found, doubted = launch.identity, evidence(launch), doubts(launch)
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
        dram_pct=number(found.dram_pct),
        async_copy={"ldgsts": _count(found, "ldgsts", "LDGSTS"), "tma": _count(found, "tma", "UTMALDG")},
        unit=counted.unit if counted else None,
        account={part: float(pct) for part, pct in counted.parts.items()} if counted else None,
        merged={part: list(finer) for part, finer in counted.merged.items()} if counted else {},
        cause=diagnosis.cause,
        disease=diagnosis.disease,
        causes=diagnosis.causes,
        changes=changes_of(launch, counted, diagnosis.causes),
        warnings=[*doubted, *diagnosis.warnings],
    )


def _count(found: Evidence, quantity: str, opcode: str) -> float | None:
    """Executed asynchronous copies, in warp instructions: by counter, else summed over the code;
    None if neither is there."""
    if not math.isnan(value := found.quantity(quantity)):
        return value
    if found.source["executed"].isna().all():
        return None
    return float(found.source.loc[found.source["opcode"].str.startswith(opcode), "executed"].sum())


def diagnose(launch: Launch, account: BubbleAccount | None) -> Diagnosis:
    """Ranked causes of one launch. Without an account the verdict is ``unknown`` and lists the
    missing data."""
    if account is None:
        return Diagnosis("unknown", None, [], [lacking.no_account(launch).text])
    found = evidence(launch)
    gained = gains(launch, account)
    causes = _with_overfetch(_ranked(gained, account, found), account, found)
    verdict = verdict_of(account, found, causes)
    own = next((cause for cause in causes if cause.cause == verdict), None)
    disease = own.disease if own else _disease(verdict, found)
    if verdict == "memory_bound" and disease is None:
        # Moving the data takes this time: no part of the pipeline can gain.
        causes = [replace(cause, predicted_gain_pct=None) for cause in causes]
    causes = _with_slow_path(causes, verdict, account, found)
    by_cause = {PARTS[part].cause or part: gain for part, gain in gained.items()}
    by_cause["slow_path"] = slow_path_gain(account, found)
    if wasted := overfetch(found, account):
        by_cause["copy_cost"] = wasted.gain
    gaps = [lack.text for lack in lacking.of_account(launch, account)]
    named = {cause.cause: by_cause[cause.cause] for cause in causes if cause.predicted_gain_pct is not None}
    return Diagnosis(verdict, disease, causes, [*_warnings(found), *gaps], named)


def gains(launch: Launch, account: BubbleAccount) -> dict[str, Gain]:
    """What removing each part of the account that can be removed gives, by its share. Waits for
    data: what the best depth gives, where that is identified and depth is their cure, but no more
    than their share can."""
    found, idle = evidence(launch), 100.0 - account.busy_pct
    parts = {part: pct for part, pct in account.bubbles.items() if PARTS[part].fix and pct >= NEGLIGIBLE_PCT}
    gained = {part: gain_of(pct, idle) for part, pct in parts.items()}
    waits = parts.get("data_wait", 0.0) >= WAITS_PCT and _depth_cures(found)
    if waits and (deeper := depth_gain(launch)) is not None:
        gained["data_wait"] = deeper.at_most(gained["data_wait"].high)
    return gained


def depth_gain(launch: Launch) -> Gain | None:
    """The gain of the best depth beyond the present one, in percent of kernel time, 0 if none is
    better.

    None where the present depth or the effect of another is not identified, or no deeper ring fits.
    """
    now = pipeline_of(launch)
    if isinstance(now, Unidentified):
        return None
    deeper = (predict(now, depth) for depth in range(now.stages + 1, DEEPEST + 1))
    best = max(filter(None, deeper), key=lambda prediction: prediction.tensor_elapsed_pct, default=None)
    if best is None:
        return None
    expected, low, high = (
        max(0.0, 100.0 * (1.0 - now.busy_pct / share)) for share in (best.tensor_elapsed_pct, best.low, best.high)
    )
    return Gain(expected, low, high)


@dataclass(frozen=True)
class Overfetch:
    """``pct``: percent of kernel time in which the busiest server works for nobody. ``gain``: what
    coalesced accesses give back, in percent of kernel time."""

    pct: float
    gain: Gain


def overfetch(found: Evidence, account: BubbleAccount) -> Overfetch | None:
    """The loss to sectors that nobody asked for; None where it does not bound the kernel, or where
    TMA copies, whose bytes nothing counts by access, are among its loads.

    Expected is that the kernel fills its next server as far as it fills the present one.
    """
    busy, kept = account.parts["unit_busy"], needed(found)
    needless = 1.0 - kept.get(account.unit, 1.0)
    if found.bulk or busy < FULL_PCT or needless < 1.0 - 1.0 / OVERFETCH:
        return None
    left = max(pct * kept.get(unit, 1.0) for unit, pct in found.shares.items())
    expected = 100.0 * (1.0 - left / busy)
    return Overfetch(busy * needless, Gain(expected, KEPT * expected, 100.0 - left)) if left < NEXT_PCT else None


def needed(found: Evidence) -> dict[str, float]:
    """Share of a server's present work that coalesced accesses leave (0 to 1), by its name; 1 where
    the report does not tell."""
    return {
        "dram": found.dram_needed if found.dram_needed < 1.0 else 1.0,
        "l2": 1.0 / max(1.0, found.fetched if found.fetched > 0 else found.sectors),
        "lsu": 1.0 / max(1.0, found.fetched, found.sectors),
    }


def _depth_cures(found: Evidence) -> bool:
    """Whether waits for data call for more stages, rather than another way to copy, or fewer
    bytes."""
    disease = disease_of("data_wait", found)
    return found.dram_pct < MEMORY_ROOF_PCT and (disease is None or disease.of_depth)


def _ranked(gained: dict[str, Gain], account: BubbleAccount, found: Evidence) -> list[Cause]:
    """The causes by gain; first one with a known disease, if its gain is nearly as large."""
    ranked = sorted(gained, key=lambda part: -gained[part].expected)
    causes = [_cause(part, account.parts[part], account, found, gained[part].expected) for part in ranked]
    first = next((cause for cause in causes if cause.disease), None)
    most = max((gain.expected for gain in gained.values()), default=0.0)
    if first and (first.predicted_gain_pct or 0.0) >= KNOWN_FIRST * most:
        causes = [first, *(cause for cause in causes if cause is not first)]
    # If something else bounds the kernel, it is not shown that depth would help.
    return [*causes[:1], *(_unless_shallow(cause, found) for cause in causes[1:])]


def _unless_shallow(cause: Cause, found: Evidence) -> Cause:
    if cause.disease != "shallow_pipeline":
        return cause
    return replace(cause, disease=None, fix=_fix(cause.cause, None, found))


def _with_slow_path(causes: list[Cause], verdict: str, account: BubbleAccount, found: Evidence) -> list[Cause]:
    """The causes with the slow path among them, by its gain; first only where it is the verdict."""
    pct = slow_pct(account, found) if found.slow_path else 0.0
    if pct < NEGLIGIBLE_PCT:
        return causes
    gain = slow_path_gain(account, found).expected if verdict != "memory_bound" else None
    slow = Cause("slow_path", None, pct, _where("unit", pct, account, found.source), fix_of("slow_path"), gain)
    if verdict == "slow_path":
        return [slow, *causes]
    return [*causes[:1], *sorted([slow, *causes[1:]], key=lambda cause: -(cause.predicted_gain_pct or 0.0))]


def _with_overfetch(causes: list[Cause], account: BubbleAccount, found: Evidence) -> list[Cause]:
    """The causes with uncoalesced accesses first, in place of other costs of copying, where they
    bound the kernel."""
    wasted = overfetch(found, account)
    if wasted is None:
        return causes
    weights = None if account.weights is None else account.weights[["data_wait", "copy_cost"]].sum(axis=1)
    where = [] if weights is None else hottest(found.source, weights.to_numpy(dtype=float), wasted.pct)
    fix = fix_of("copy_cost", "uncoalesced")
    first = Cause("copy_cost", "uncoalesced", wasted.pct, where, fix, wasted.gain.expected)
    return [first, *(cause for cause in causes if cause.cause != first.cause)]


def slow_pct(account: BubbleAccount, found: Evidence) -> float:
    """Percent of kernel time that MMAs of the fast path of this chip would save."""
    return account.parts["tensor_busy"] * (found.chip.slow_mma_share if found.chip else 0.0)


def slow_path_gain(account: BubbleAccount, found: Evidence) -> Gain:
    """Gain of the fast MMA path: busy time that it does without, and what goes along."""
    pct = slow_pct(account, found)
    return gain_of(pct, 100.0 - account.busy_pct + pct)


def _warnings(found: Evidence) -> list[str]:
    if found.chip is None or not found.slow_path:
        return []
    slow, fast = (found.chip.mma_flop_per_clock_sm[name] for name in ("mma.sync", "wgmma"))
    return [
        f"slow MMA path: mma.sync/WMMA reaches {slow:g} of wgmma's {fast:g} FLOP per cycle and SM "
        f"(fp16), so a pipe that is 100 % busy reaches {100.0 * slow / fast:.1f} % of the peak"
    ]


def verdict_of(account: BubbleAccount, found: Evidence, causes: list[Cause]) -> str:
    """The word for a launch with these causes, ranked."""
    busy = account.busy_pct
    largest = max((cause.pct for cause in causes), default=0.0)
    if found.duration_ns < TINY_NS:
        return "tiny_launch"
    if overfetch(found, account):
        return "copy_cost"
    if found.dram_pct >= MEMORY_ROOF_PCT or (account.unit in MEMORY and busy >= FULL_PCT):
        return "memory_bound"
    if account.unit != "tensor" and found.core_products:
        return "no_tensor_work"
    slow = slow_pct(account, found) if found.slow_path else 0.0
    if slow > 0 and (busy >= SATURATED_PCT or slow >= SLOW_PATH_FIRST * largest):
        return "slow_path"
    if busy >= SATURATED_PCT:
        return "none"
    if not causes or account.parts.get("idle", 0.0) > largest:
        return "unknown"  # most idle time is not split
    return causes[0].cause


def _cause(part: str, pct: float, account: BubbleAccount, found: Evidence, gain: float) -> Cause:
    name, disease = PARTS[part].cause or part, _disease(PARTS[part].cause or part, found)
    if disease == "shallow_pipeline" and gain < NEGLIGIBLE_PCT:
        disease = None  # depth does nothing
    return Cause(name, disease, pct, _where(part, pct, account, found.source), _fix(name, disease, found), gain)


def _disease(cause: str, found: Evidence) -> str | None:
    return disease.name if (disease := disease_of(cause, found)) else None


def _fix(cause: str, disease: str | None, found: Evidence) -> str:
    """The fix, without what the kernel already does: fragments that come by ldmatrix, banks without
    conflicts."""
    if cause == "smem_wait" and disease is None and "mma" in found.roles:
        wider = "" if any(opcode.startswith("LDSM") for opcode in found.opcodes) else ", or wider loads (ldmatrix)"
        return fix_of(cause) + wider
    return fix_of(cause, disease, tiled=found.tiled)


def _where(part: str, pct: float, account: BubbleAccount, source: pd.DataFrame) -> list[Place]:
    """The source lines with most samples of this part; by instruction where the report has no line
    information."""
    if account.weights is None or part not in account.weights:
        return []
    return hottest(source, np.asarray(account.weights[part], dtype=float), pct)


def hottest(source: pd.DataFrame, weights: np.ndarray, pct: float) -> list[Place]:
    """The ``PLACES`` places with most of ``weights`` (one number per row of ``source``), largest
    first; the shares of all places sum to ``pct``. Each place has the ``sass`` of its heaviest
    instruction."""
    total = weights.sum()
    if not total > 0:
        return []
    line_of = _lines(source)
    sums = np.bincount(line_of, weights)
    heaviest = np.zeros(len(sums), dtype=int)
    ascending = np.argsort(weights, kind="stable")
    heaviest[line_of[ascending]] = ascending  # of several rows of a place, the last one written stays
    top = [number for number in np.argsort(-sums, kind="stable")[:PLACES] if sums[number] > 0]
    rows = ((source.iloc[heaviest[number]], float(sums[number] / total)) for number in top)
    return [Place(row["file"] or None, int(row["line"]) or None, row["sass"], pct * share) for row, share in rows]


def _lines(source: pd.DataFrame) -> np.ndarray:
    """A number for each row: the same for all instructions of one line; another for each where
    there are no lines."""
    if not (source["line"] > 0).any():
        return np.arange(len(source))
    files, _ = pd.factorize(source["file"])
    keys = files * (int(source["line"].max()) + 1) + source["line"].to_numpy()
    return np.asarray(pd.factorize(keys)[0])
