"""Warp samples by the class of the instruction that holds a warp up, with the stall reason inside.
Pure functions.

A sample's instruction is the one that the warp could not issue: what holds it up mostly stands
before it. The wait for ``cp.async`` shows as ``long_scoreboard`` at whatever follows DEPBAR. So
samples of a reason that names a wait count at the nearest instruction before that such a wait is
for, within the look-back of ``analysis.stalls``; all others where they were taken. The part of the
account that samples were given to is shown beside each class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ncubble.analysis.account.stalls import LOOKBACK
from ncubble.analysis.report.frames import stall_columns
from ncubble.sass.opcodes import role

CLASSES: dict[str, tuple[str, str]] = {
    "mma": ("MMA", "matrix products"),
    "mma_wait": ("wait for MMA", "waits for asynchronous matrix products, and their fences"),
    "copy": ("async copy", "asynchronous copies from global to shared memory: LDGSTS, TMA, bulk"),
    "copy_wait": ("wait for copy", "waits for such copies: DEPBAR, mbarriers"),
    "load_global": ("global load", "loads from global memory into registers"),
    "store_shared": ("shared store", "stores to shared memory"),
    "load_shared": ("shared load", "loads from shared memory, LDSM included"),
    "store_global": ("global store", "stores, reductions and atomics to global memory"),
    "local": ("spill", "local memory: spilled registers"),
    "barrier": ("barrier", "barriers and fences"),
    "branch": ("branch", "branches, calls, exits and convergence"),
    "float": ("float math", "floating-point arithmetic outside the tensor cores"),
    "convert": ("convert, special", "conversions and special functions"),
    "integer": ("address, integer", "integer arithmetic and logic, mostly addresses"),
    "move": ("move, other", "moves, constants, predicates and all others"),
}
"""Classes in display order: label and meaning. Those of ``opcodes.role``; its ``other`` is split by
mnemonic."""

_FAMILIES = {
    "branch": ("BRA", "BRX", "JMP", "CALL", "RET", "EXIT", "BSSY", "BSYNC", "BREAK", "BMOV", "KILL", "YIELD",
               "NANOSLEEP", "RPCMOV", "ELECT"),
    "convert": ("F2F", "F2I", "I2F", "I2I", "F2FP", "FRND", "I2IP", "I2FP", "F2IP", "MUFU"),
    "float": ("FADD", "FFMA", "FMUL", "FSET", "FMNMX", "FSEL", "FCHK", "FSWZADD", "HADD", "HFMA", "HMUL", "HSET",
              "HMNMX", "DADD", "DFMA", "DMUL", "DSET", "VHMNMX", "FHADD", "FHFMA", "UFADD", "UFFMA", "UFMUL"),
    "integer": ("IADD", "IMAD", "IMUL", "IABS", "IMNMX", "ISCADD", "ISETP", "IDP", "LEA", "LOP", "SHF", "SHL", "SHR",
                "BFE", "BFI", "BREV", "FLO", "POPC", "PRMT", "SGXT", "BMSK", "VIADD", "VIMNMX", "VABSDIFF", "XMAD",
                "UIADD", "UIMAD", "ULEA", "ULOP", "USHF", "UISETP", "UPRMT", "UBREV", "UFLO", "UPOPC", "USGXT", "UBMSK",
                "UVIADD", "UIMNMX", "UVIMNMX"),
}  # fmt: skip
_MEMORY = ("copy", "load_global", "store_shared", "load_shared", "store_global", "local")
AWAITED: dict[str, tuple[str, ...]] = {
    "long_scoreboard": ("copy_wait", "load_global", "local", "copy"),
    "short_scoreboard": ("load_shared", "copy_wait", "convert", "store_shared"),
    "barrier": ("barrier", "mma_wait"),
    "membar": ("barrier",),
    "gmma": ("mma_wait", "mma"),
    "warpgroup_arrive": ("mma_wait", "mma"),
    "lg_throttle": _MEMORY,
    "mio_throttle": (*_MEMORY, "mma", "convert", "barrier"),
    "drain": ("store_global",),
    "branch_resolving": ("branch",),
}
"""Classes that a stall reason waits for; the nearest such instruction at or before the sample
counts."""
MOST_REASONS = 7
"""Reasons with their own colour in the figure; the others share one."""


@dataclass(frozen=True)
class ClassRow:
    """One class: percent of all warp samples, by ``reasons`` (percent of all samples, largest
    first), and ``parts``: percent of kernel time that its samples brought to each part of the
    account, largest first."""

    name: str
    label: str
    share: float
    reasons: dict[str, float]
    parts: dict[str, float]


def class_of(opcode: str) -> str:
    """The class of an opcode such as ``LDGSTS.E.BYPASS.128``."""
    known = role(opcode)
    if known != "other":
        return known
    stem = opcode.partition(".")[0]
    return next((name for name, stems in _FAMILIES.items() if stem.startswith(stems)), "move")


def class_rows(
    source: pd.DataFrame, weights: pd.DataFrame | None = None, parts: Mapping[str, float] | None = None
) -> list[ClassRow]:
    """Classes that samples of one launch's ``source`` rows count at, largest first; empty without
    samples.

    ``weights`` are those of ``BubbleAccount`` (rows as in ``source``, one column per class of
    samples), ``parts`` its parts in percent: each part is shared out among instructions in
    proportion to its weights, and within an instruction in proportion to samples.
    """
    reasons = stall_columns(source)
    counts = source[reasons].to_numpy(dtype=float) if reasons else np.zeros((len(source), 0))
    total = float(np.nansum(counts))
    if not total > 0:
        return []
    classes = [class_of(opcode) for opcode in source["opcode"].tolist()]
    at = np.column_stack([_held_at(reason, classes) for reason in reasons])
    given = _given(weights, parts or {}, np.nan_to_num(counts))
    rows = []
    for index, (name, (label, _)) in enumerate(CLASSES.items()):
        mine = at == index
        share = 100.0 * np.nansum(np.where(mine, counts, 0.0), axis=0) / total
        if share.sum() > 0:
            inside = _ranked(dict(zip(reasons, share.tolist(), strict=True)))
            brought = _ranked({part: float(values[mine].sum()) for part, values in given.items()})
            rows.append(ClassRow(name, label, float(share.sum()), inside, brought))
    return sorted(rows, key=lambda row: -row.share)


_NUMBERS = {name: index for index, name in enumerate(CLASSES)}


def _held_at(reason: str, classes: list[str]) -> np.ndarray:
    """For each instruction, the number of the class that samples of ``reason`` there count at."""
    own = np.array([_NUMBERS[name] for name in classes])
    awaited = AWAITED.get(reason)
    if not awaited:
        return own
    places = np.arange(len(classes))
    nearest = np.maximum.accumulate(np.where([name in awaited for name in classes], places, -1))
    near = (nearest >= 0) & (places - nearest <= LOOKBACK)
    return np.where(near, own[np.maximum(nearest, 0)], own)


def _given(weights: pd.DataFrame | None, parts: Mapping[str, float], counts: np.ndarray) -> dict[str, np.ndarray]:
    """Percent of kernel time that samples brought to each part, by instruction and reason (as in
    ``counts``)."""
    if weights is None or len(weights) != len(counts):
        return {}
    samples = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, samples, out=np.zeros_like(counts), where=samples > 0)
    shared = {}
    for part, percent in parts.items():
        values = weights[part].to_numpy(dtype=float) if part in weights else np.zeros(len(counts))
        if percent > 0 and values.sum() > 0:
            shared[part] = percent * values[:, None] / values.sum() * shares
    return shared


def _ranked(shares: dict[str, float]) -> dict[str, float]:
    return dict(sorted(((name, value) for name, value in shares.items() if value > 0), key=lambda item: -item[1]))


def shown_reasons(rows: list[ClassRow]) -> list[str]:
    """The reasons that get a colour: those with the most samples over all classes, largest
    first."""
    totals: dict[str, float] = {}
    for row in rows:
        for reason, share in row.reasons.items():
            totals[reason] = totals.get(reason, 0.0) + share
    return list(_ranked(totals))[:MOST_REASONS]
