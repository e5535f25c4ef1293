"""From evidence and account of a launch to its verdict: what to change, and where its time goes in
the source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pandas as pd

from ncubble.analysis.account import lacking
from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.account import account as account_of
from ncubble.analysis.account.evidence import Evidence, evidence
from ncubble.analysis.account.parts import WORK
from ncubble.analysis.account.plausibility import doubts
from ncubble.analysis.account.units import tensor_share_of_active, tensor_utilization
from ncubble.analysis.diagnosis.predicted import changes_of
from ncubble.analysis.diagnosis.removals import overfetch
from ncubble.analysis.diagnosis.verdict import LaunchVerdict, Place
from ncubble.analysis.report.report import Launch
from ncubble.text.values import number

_UNMEASURED = (10, 12)
"""Major compute capabilities of which no GPU was at hand."""
NEGLIGIBLE_PCT = 1.0
"""Places of smaller parts are not named."""
PLACES = 3
LONGEST = 160
"""Characters of a line of the source that are quoted."""


def launch_verdict(launch: Launch) -> LaunchVerdict:
    """The verdict of one launch; values that the report does not hold are None."""
    counted = account_of(launch)
    row, found, doubted = launch.identity, evidence(launch), doubts(launch)
    lacks = lacking.of_account(launch, counted) if counted else [lacking.no_account(launch)]
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
        where=_quoted(where(counted, found), launch.report.files) if counted else {},
        changes=changes_of(launch, counted),
        warnings=[
            *doubted,
            *((*_unmeasured(found), *_slow_path(found)) if counted else ()),
            *_said_by_ptxas(launch),
            *(lack.text for lack in lacks),
        ],
    )


def _count(found: Evidence, quantity: str, opcode: str) -> float | None:
    """Executed asynchronous copies, in warp instructions: by counter, else summed over the code;
    None if neither is there."""
    if not math.isnan(value := found.quantity(quantity)):
        return value
    return None if found.source["executed"].isna().all() else found.executions(opcode)


def _unmeasured(found: Evidence) -> list[str]:
    if found.chip is None or found.chip.capability.major not in _UNMEASURED:
        return []
    return [
        f"the rules of this account were measured on H100 and H200; for compute capability {found.capability} they are "
        "only read off machine code and public reports"
    ]


def _slow_path(found: Evidence) -> list[str]:
    if found.chip is None or not found.slow_path:
        return []
    name = found.chip.fast_mma
    slow, fast = (found.chip.mma_flop_per_clock_sm[one] for one in ("mma.sync", name))
    most = f"{100.0 * slow / fast:.1f} % of {name}'s FLOP per cycle"
    return [f"slow MMA path: mma.sync/WMMA reaches at most {most}, however busy the pipe is"]


def _said_by_ptxas(launch: Launch) -> list[str]:
    """What ptxas said of wgmma when it built a kernel of the catalog, or your own."""
    said = launch.report.run.manifest.build.get("warnings") if launch.declared else None
    return [str(text) for text in said] if isinstance(said, list) else []


def where(account: BubbleAccount, found: Evidence) -> dict[str, list[Place]]:
    """The places with most samples of each part; of sectors that nobody asked for, those of all
    copies and waits for them."""
    if account.weights is None:
        return {}
    weights = {name: account.weights[name].to_numpy(dtype=float) for name in account.weights}
    shares = {part: (pct, weights.get("unit" if part in WORK else part)) for part, pct in account.parts.items()}
    if wasted := overfetch(found, account):
        shares["unit_busy"] = wasted.pct, weights["data_wait"] + weights["copy_cost"]
    known = {part: (pct, at) for part, (pct, at) in shares.items() if pct >= NEGLIGIBLE_PCT and at is not None}
    return {part: there for part, (pct, at) in known.items() if (there := hottest(found.source, at, pct))}


def _quoted(places: dict[str, list[Place]], files: Mapping[str, str]) -> dict[str, list[Place]]:
    """Places with the text of their lines."""

    def quoted(place: Place) -> Place:
        line = place.line or 0
        lines = _split(files.get(place.file or "", ""))[line - 1 : line] if line else []
        return replace(place, text=lines[0].strip()[:LONGEST]) if lines else place

    return {part: [quoted(place) for place in some] for part, some in places.items()}


@lru_cache(maxsize=64)
def _split(text: str) -> list[str]:
    return text.splitlines()


def hottest(source: pd.DataFrame, weights: np.ndarray, pct: float) -> list[Place]:
    """The ``PLACES`` places with most of ``weights`` (one number per row of ``source``), largest
    first; the shares of all places sum to ``pct``. Each place has the ``sass`` of its heaviest
    instruction."""
    total = weights.sum()
    if not total > 0:
        return []
    weights = _at_what_runs(source, weights)
    line_of = _lines(source)
    sums = np.bincount(line_of, weights)
    heaviest = np.zeros(len(sums), dtype=int)
    ascending = np.argsort(weights, kind="stable")
    heaviest[line_of[ascending]] = ascending  # of several rows of a place, the last one written stays
    top = [number for number in np.argsort(-sums, kind="stable")[:PLACES] if sums[number] > 0]
    places = (source[name].to_numpy()[heaviest[top]].tolist() for name in ("file", "line", "sass"))
    found = zip(*places, (sums[top] / total).tolist(), strict=True)
    return [Place(file or None, line or None, sass, pct * share) for file, line, sass, share in found]


def _at_what_runs(source: pd.DataFrame, weights: np.ndarray) -> np.ndarray:
    """The same weights, those of instructions that never ran at the last one before that did: a
    warp that waits to exit is sampled at what stands behind its EXIT."""
    ran = source["executed"].fillna(0.0).to_numpy(dtype=float) > 0
    if not ran.any():
        return weights
    before = np.maximum.accumulate(np.where(ran, np.arange(len(ran)), -1))
    return np.bincount(np.where(before < 0, np.arange(len(ran)), before), weights, minlength=len(ran))


def _lines(source: pd.DataFrame) -> np.ndarray:
    """A number for each row: the same for all instructions of one line; another for each where
    there are no lines."""
    if not (source["line"] > 0).any():
        return np.arange(len(source))
    files, _ = pd.factorize(source["file"])
    keys = files * (int(source["line"].max()) + 1) + source["line"].to_numpy()
    return np.asarray(pd.factorize(keys)[0])
