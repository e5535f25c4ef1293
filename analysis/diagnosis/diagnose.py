"""Diagnoses a launch: ranked causes with evidence and fix. The share of a cause is its part of the
account. The gain of removing it is estimated from that (``model.gain``), and validated against
measured fixes by ``make validate``. It is None, not identified, if nothing in the
pipeline bounds the launch, and for idle time that the report cannot split.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from ncubble.analysis.account import lacking
from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.account.units import MEMORY
from ncubble.analysis.diagnosis.diseases import disease_of, fix_of
from ncubble.analysis.diagnosis.facts import LaunchFacts, launch_facts
from ncubble.analysis.diagnosis.overfetch import FULL_PCT, overfetch
from ncubble.analysis.diagnosis.verdict import Cause, Place
from ncubble.analysis.model.gain import Gain, depth_gain, gain_of
from ncubble.analysis.report.report import Launch
from ncubble.chips import Chip

SATURATED_PCT = 90.0
MEMORY_ROOF_PCT = 80.0
"""DRAM throughput above which a matrix kernel counts as memory-bound: a plain copy reaches 86 to 90
% on an H200."""
TINY_NS = 5_000.0
"""Launches shorter than this are mostly launch latency (an empty kernel takes 2 to 3 µs)."""
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


@dataclass(frozen=True)
class Diagnosis:
    """The verdict: one word, refined by a disease if known, the ranked causes, and warnings."""

    cause: str
    disease: str | None
    causes: list[Cause]
    warnings: list[str] = field(default_factory=list)


def diagnose(launch: Launch, account: BubbleAccount | None) -> Diagnosis:
    """Ranked causes of one launch. Without an account the verdict is ``unknown`` and lists the
    missing data."""
    if account is None:
        return Diagnosis("unknown", None, [], [lacking.no_account(launch).text])
    facts = launch_facts(launch)
    causes = _with_overfetch(_ranked(launch, account, facts), account, facts)
    verdict = _verdict(account, facts, causes)
    own = next((cause for cause in causes if cause.cause == verdict), None)
    disease = own.disease if own else _disease(verdict, facts)
    if verdict == "memory_bound" and disease is None:
        # Moving the data takes this time: no part of the pipeline can gain.
        causes = [replace(cause, predicted_gain_pct=None) for cause in causes]
    gaps = [lack.text for lack in lacking.of_account(launch, account)]
    named = _with_slow_path(causes, verdict, account, facts)
    return Diagnosis(verdict, disease, named, [*_warnings(facts), *gaps])


def gains(launch: Launch, account: BubbleAccount, facts: LaunchFacts | None = None) -> dict[str, Gain]:
    """What removing each part of the account that can be removed gives, by its share. Waits for
    data: what the best depth gives, where that is identified and depth is their cure, but no more
    than their share can."""
    facts, idle = facts or launch_facts(launch), idle_pct(account)
    parts = {part: pct for part, pct in account.bubbles.items() if PARTS[part].fix and pct >= NEGLIGIBLE_PCT}
    gained = {part: gain_of(pct, idle) for part, pct in parts.items()}
    waits = parts.get("data_wait", 0.0) >= WAITS_PCT and _depth_cures(facts)
    if waits and (deeper := depth_gain(launch)) is not None:
        gained["data_wait"] = deeper.at_most(gained["data_wait"].high)
    return gained


def _depth_cures(facts: LaunchFacts) -> bool:
    """Whether waits for data call for more stages, rather than another way to copy, or fewer
    bytes."""
    disease = disease_of("data_wait", facts)
    return facts.dram_pct < MEMORY_ROOF_PCT and (disease is None or disease.of_depth)


def _ranked(launch: Launch, account: BubbleAccount, facts: LaunchFacts) -> list[Cause]:
    """The causes by gain; first one with a known disease, if its gain is nearly as large."""
    gained = gains(launch, account, facts)
    ranked = sorted(gained, key=lambda part: -gained[part].expected)
    causes = [_cause(part, account.parts[part], account, facts, gained[part].expected) for part in ranked]
    first = next((cause for cause in causes if cause.disease), None)
    most = max((gain.expected for gain in gained.values()), default=0.0)
    if first and (first.predicted_gain_pct or 0.0) >= KNOWN_FIRST * most:
        causes = [first, *(cause for cause in causes if cause is not first)]
    # If something else bounds the kernel, it is not shown that depth would help.
    return [*causes[:1], *(_unless_shallow(cause, facts) for cause in causes[1:])]


def _unless_shallow(cause: Cause, facts: LaunchFacts) -> Cause:
    if cause.disease != "shallow_pipeline":
        return cause
    return replace(cause, disease=None, fix=_fix(cause.cause, None, facts))


def idle_pct(account: BubbleAccount) -> float:
    """Idle time in percent of kernel time."""
    return 100.0 - account.parts["tensor_busy"] - account.parts["unit_busy"]


def _with_slow_path(causes: list[Cause], verdict: str, account: BubbleAccount, facts: LaunchFacts) -> list[Cause]:
    """The causes with the slow path among them, by its gain; first only where it is the verdict."""
    pct = account.parts["tensor_busy"] * facts.slow_mma_share
    if not facts.slow_path or pct < NEGLIGIBLE_PCT:
        return causes
    gain = slow_path_gain(account, facts.chip).expected if verdict != "memory_bound" else None
    slow = Cause("slow_path", None, pct, _where("unit", pct, account, facts.source), fix_of("slow_path"), gain)
    if verdict == "slow_path":
        return [slow, *causes]
    return [*causes[:1], *sorted([slow, *causes[1:]], key=lambda cause: -(cause.predicted_gain_pct or 0.0))]


def _with_overfetch(causes: list[Cause], account: BubbleAccount, facts: LaunchFacts) -> list[Cause]:
    """The causes with uncoalesced accesses first, in place of other costs of copying, where they
    bound the kernel."""
    wasted = overfetch(account, facts)
    if wasted is None:
        return causes
    weights = None if account.weights is None else account.weights[["data_wait", "copy_cost"]].sum(axis=1)
    where = [] if weights is None else hottest(facts.source, weights.to_numpy(dtype=float), wasted.pct)
    fix = fix_of("copy_cost", "uncoalesced")
    first = Cause("copy_cost", "uncoalesced", wasted.pct, where, fix, wasted.gain.expected)
    return [first, *(cause for cause in causes if cause.cause != first.cause)]


def slow_path_gain(account: BubbleAccount, chip: Chip | None) -> Gain:
    """Gain of the fast MMA path of ``chip``: busy time that it does without, and what goes
    along."""
    pct = account.parts["tensor_busy"] * (chip.slow_mma_share if chip else 0.0)
    return gain_of(pct, idle_pct(account) + pct)


def _warnings(facts: LaunchFacts) -> list[str]:
    if facts.chip is None or not facts.slow_path:
        return []
    slow, fast = (facts.chip.mma_flop_per_clock_sm[name] for name in ("mma.sync", "wgmma"))
    return [
        f"slow MMA path: mma.sync/WMMA reaches {slow:g} of wgmma's {fast:g} FLOP per cycle and SM "
        f"(fp16), so a pipe that is 100 % busy reaches {100.0 * slow / fast:.1f} % of the peak"
    ]


def _verdict(account: BubbleAccount, facts: LaunchFacts, causes: list[Cause]) -> str:
    busy = account.parts["tensor_busy"] + account.parts["unit_busy"]
    largest = max((cause.pct for cause in causes), default=0.0)
    if facts.duration_ns < TINY_NS:
        return "tiny_launch"
    if overfetch(account, facts):
        return "copy_cost"
    if facts.dram_pct >= MEMORY_ROOF_PCT or (account.unit in MEMORY and busy >= FULL_PCT):
        return "memory_bound"
    if account.unit != "tensor" and facts.core_products:
        return "no_tensor_work"
    slow_pct = account.parts["tensor_busy"] * facts.slow_mma_share if facts.slow_path else 0.0
    if slow_pct > 0 and (busy >= SATURATED_PCT or slow_pct >= SLOW_PATH_FIRST * largest):
        return "slow_path"
    if busy >= SATURATED_PCT:
        return "none"
    if not causes or account.parts.get("idle", 0.0) > largest:
        return "unknown"  # most idle time is not split
    return causes[0].cause


def _cause(part: str, pct: float, account: BubbleAccount, facts: LaunchFacts, gain: float) -> Cause:
    name, disease = PARTS[part].cause or part, _disease(PARTS[part].cause or part, facts)
    if disease == "shallow_pipeline" and gain < NEGLIGIBLE_PCT:
        disease = None  # depth does nothing
    return Cause(name, disease, pct, _where(part, pct, account, facts.source), _fix(name, disease, facts), gain)


def _disease(cause: str, facts: LaunchFacts) -> str | None:
    return disease.name if (disease := disease_of(cause, facts)) else None


def _fix(cause: str, disease: str | None, facts: LaunchFacts) -> str:
    """The fix, without what the kernel already does: fragments that come by ldmatrix, banks without
    conflicts."""
    if cause == "smem_wait" and disease is None and "mma" in facts.roles:
        wider = "" if any(opcode.startswith("LDSM") for opcode in facts.opcodes) else ", or wider loads (ldmatrix)"
        return fix_of(cause) + wider
    return fix_of(cause, disease, tiled=facts.tiled)


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
