"""The code of one launch with its warp samples: columns of the Source page, samples by class of
instruction, and the hottest lines.

Pure: frames of one launch in, plain data out. Rows are instructions, numbered as in the launch's
source frame. A sample's instruction is the one that the warp could not issue: what holds it up
mostly stands before it. The wait for ``cp.async`` shows as ``long_scoreboard`` at whatever follows
DEPBAR. So, by class, samples of a reason that names a wait count at the nearest instruction before
that such a wait is for, within the look-back of the account; all others where they were taken.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ncubble.analysis.account.account import MIN_SAMPLES, BubbleAccount
from ncubble.analysis.account.code import LOOKBACK
from ncubble.analysis.account.parts import STEADY, part_color, part_label
from ncubble.analysis.report.frames import stall_columns
from ncubble.sass.opcodes import role

MOST_ROWS = 400_000
"""Maximum instructions that are sent: browsers cannot scroll longer lists."""
MOST_TEXT = 4_000_000
"""Maximum characters sent of a source file."""
MOST_TEXTS = 16_000_000
"""Maximum characters of all source files together."""
HEAT = "#c2475c"
"""The colour of heat that does not belong to a part of the account."""

CLASSES: dict[str, tuple[str, str]] = {
    "mma": ("MMA", "matrix products"),
    "mma_wait": ("wait for MMA", "waits for asynchronous matrix products, and their fences"),
    "copy": ("async copy", "asynchronous copies from global to shared memory: LDGSTS, TMA, bulk"),
    "copy_wait": ("wait for copy", "waits for such copies: DEPBAR, mbarriers"),
    "load_global": ("global load", "loads from global memory into registers"),
    "store_shared": ("shared store", "stores to shared memory"),
    "load_shared": ("shared load", "loads from shared memory, LDSM included"),
    "tensor_memory": ("tensor memory", "loads from and stores to tensor memory"),
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
_MEMORY = ("copy", "load_global", "store_shared", "load_shared", "tensor_memory", "store_global", "local")
AWAITED: dict[str, tuple[str, ...]] = {
    "long_scoreboard": ("copy_wait", "load_global", "local", "copy"),
    "short_scoreboard": ("load_shared", "tensor_memory", "copy_wait", "convert", "store_shared"),
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
NO_LINES = "Source lines: not collected, because the kernel was built without line information (Numba: lineinfo=True)."
_APART = {"unit": "at the busy unit", "aside": "delaying nothing"}
_PLAIN = re.compile(r"[a-z0-9_]{1,64}")


def view(source: pd.DataFrame, files: Mapping[str, str], account: BubbleAccount | None = None) -> dict[str, Any]:
    """Everything that the page needs of one launch.

    ``source`` is the launch's source frame, ``files`` texts by name, ``account`` its
    ``BubbleAccount`` or None. Members by row: ``pc``, ``sass``, ``file`` (number in ``files``, -1:
    none), ``line`` (0: none), ``executed`` (null: not collected), ``kind`` (number in ``kinds``),
    ``stall`` (number in ``causes``, -1: none). Others: ``samples`` in all; ``causes``
    (``CauseColumn``) with ``group`` (``all``, ``stall``, ``part``) and ``unit`` (percent of
    ``samples``, or of kernel ``time``); ``kinds``; ``files``; ``notes``.
    """
    shown = source.iloc[:MOST_ROWS]
    names, listed = _files(shown, files)
    samples, rows = _counts(source["samples"]), len(shown)
    total, causes, column = float(samples.sum()), list[CauseColumn](), dict[str, int]()
    if total > 0:  # all samples, then stall reasons, then parts of the account; within these the largest first
        stalls = _stalls(source, total, rows)
        first = _cause("samples", "all samples", "all", samples, 100.0 / total, rows)
        causes = [first, *stalls.values(), *_parts(account, total, rows)]
        column = {reason: number for number, reason in enumerate(stalls, 1)}
    kinds, kind_of = _kinds(shown)
    return {
        "pc": _whole(shown["pc"]),
        "sass": shown["sass"].to_numpy(dtype=object).tolist(),
        "file": names,
        "line": _whole(shown["line"]),
        "executed": _executed(shown),
        "kind": kind_of,
        "stall": _main_stall(shown, column),
        "samples": total,
        "kinds": [{"id": kind, "label": CLASSES.get(kind, ("other", ""))[0]} for kind in kinds],
        "causes": [vars(cause) for cause in causes],
        "files": listed,
        "notes": notes(source, listed, account),
    }


def notes(
    source: pd.DataFrame, files: Sequence[Mapping[str, Any]], account: BubbleAccount | None
) -> list[dict[str, str]]:
    """What this launch's code lacks: ``about`` (``code``, ``samples``, ``lines``, ``parts``,
    ``rows``), ``text`` and ``command``."""
    if source.empty:
        text = "Not collected: this report has no instructions of this launch. Profile with"
        return [{"about": "code", "text": text, "command": "--set source"}]
    lines: list[dict[str, str]] = []

    def add(about: str, text: str, command: str = "") -> None:
        lines.append({"about": about, "text": text, "command": command})

    total = float(_counts(source["samples"]).sum())
    if not total > 0:
        add("samples", "Warp samples: not collected, so lines show no heat. Profile with", "--set source")
    elif account is None or account.weights is None:
        few = f"{total:.0f} warp samples; a split needs {MIN_SAMPLES}." if total < MIN_SAMPLES else ""
        add("parts", f"The samples are not assigned to parts of the account. {few}".strip())
    if not files:
        add("lines", f"{NO_LINES} Compile for nvcc with", "-lineinfo")
    if len(source) > MOST_ROWS:
        add("rows", f"The first {MOST_ROWS:,} of {len(source):,} instructions are shown.")
    return lines


def _counts(column: pd.Series) -> np.ndarray:
    """Numbers of samples: finite and not negative, whatever a report says."""
    values = np.nan_to_num(column.to_numpy(dtype=float), nan=0.0, posinf=0.0, neginf=0.0)
    return np.asarray(np.clip(values, 0.0, 2.0**53))


def _whole(column: pd.Series) -> list[int]:
    whole: list[int] = _counts(column).astype(np.int64).tolist()
    return whole


def _executed(source: pd.DataFrame) -> list[float | None] | None:
    """Warp instructions by row, None where not collected; None instead of the list where no row has
    any."""
    values = source["executed"].to_numpy(dtype=float)
    if not np.isfinite(values).any():
        return None
    return [value if math.isfinite(value) else None for value in values.tolist()]


def _kinds(source: pd.DataFrame) -> tuple[list[str], list[int]]:
    """The classes of instructions that there are, and the number of each row's."""
    codes, opcodes = pd.factorize(source["opcode"])
    roles = [role(str(opcode)) for opcode in opcodes]
    kinds = [kind for kind in (*CLASSES, "other") if kind in roles]
    numbers: list[int] = np.array([kinds.index(name) for name in roles], dtype=int)[codes].tolist()
    return kinds, numbers


@dataclass(frozen=True)
class CauseColumn:
    """``counts`` of the rows that have any, at ``steps`` from row to row (the first from row 0);
    times ``scale`` they are percent of ``unit``. ``sum`` is that of all rows, in percent."""

    id: str
    label: str
    group: str
    unit: str
    color: str
    steps: list[int]
    counts: list[float]
    scale: float
    sum: float


def _cause(
    name: str,
    label: str,
    group: str,
    counts: np.ndarray,
    scale: float,
    rows: int,
    unit: str = "samples",
    color: str = HEAT,
) -> CauseColumn:
    where = np.flatnonzero(counts[:rows] > 0)
    shown = np.round(counts[where], 2)
    whole = shown.astype(np.int64)
    steps = np.diff(where, prepend=0).tolist()
    numbers = whole.tolist() if (whole == shown).all() else shown.tolist()
    return CauseColumn(name, label, group, unit, color, steps, numbers, scale, float(counts.sum() * scale))


def _stalls(source: pd.DataFrame, total: float, rows: int) -> dict[str, CauseColumn]:
    """By the column of ``source``, largest first."""
    taken = {"samples", *_APART, *STEADY}
    causes = {}
    for number, reason in enumerate(stall_columns(source)):
        counts = _counts(source[reason])
        usable = bool(_PLAIN.fullmatch(reason)) and reason not in taken
        name, label = reason if usable else f"stall.{number}", reason.replace("_", " ")
        if counts.any():
            causes[reason] = _cause(name, label, "stall", counts, 100.0 / total, rows)
    return dict(sorted(causes.items(), key=lambda item: -item[1].sum))


def _parts(account: BubbleAccount | None, total: float, rows: int) -> list[CauseColumn]:
    """Steady parts in percent of kernel time, as in the account; what takes no share of it in
    percent of samples."""
    if account is None or account.weights is None:
        return []
    weights = account.weights
    scale = _time_per_sample(account.parts, weights.sum())
    causes = []
    for part in weights.columns:
        weight = _counts(weights[part])
        if not weight.any():
            continue
        apart = part in _APART
        label, color = (_APART[part], HEAT) if apart else (part_label(part), part_color(part))
        unit, factor = ("samples", 100.0 / total) if apart else ("time", scale)
        causes.append(_cause(part, label, "part", weight, factor, rows, unit, color))
    return sorted(causes, key=lambda cause: (cause.unit != "time", -cause.sum))


def _time_per_sample(parts: Mapping[str, float], weights: pd.Series) -> float:
    """Percent of kernel time that one weighed sample stands for: the same for all steady parts.
    ``issue`` also holds samples that no instruction does, and is asked last."""
    known = [part for part in STEADY if float(weights.get(part, 0.0)) > 0]
    ranked = sorted(known, key=lambda part: (part == "issue", -float(weights[part])))
    return float(parts.get(ranked[0], 0.0)) / float(weights[ranked[0]]) if ranked else 0.0


def _main_stall(source: pd.DataFrame, causes: Mapping[str, int]) -> list[int]:
    """The cause of most samples of each row, ``selected`` only where there is no other; -1 where
    there are none."""
    if not causes or source.empty:
        return [-1] * len(source)
    columns = sorted(causes, key=lambda column: column == "selected")
    counts = np.column_stack([_counts(source[column]) for column in columns])
    if columns[-1] == "selected":
        counts[:, -1] *= counts[:, :-1].max(axis=1, initial=0.0) == 0
    numbers = np.array([causes[column] for column in columns])
    chosen: list[int] = np.where(counts.max(axis=1) > 0, numbers[counts.argmax(axis=1)], -1).tolist()
    return chosen


def _files(source: pd.DataFrame, texts: Mapping[str, str]) -> tuple[list[int], list[dict[str, Any]]]:
    """The number of each row's file, and the files that the launch's instructions name, most
    samples first: ``name``, ``text`` (null where there is none) and ``state`` (``text``,
    ``missing``, ``large``)."""
    codes, names = pd.factorize(source["file"])
    codes = np.where((source["line"].to_numpy(dtype=float) > 0) & (np.asarray(names == "")[codes] == 0), codes, -1)
    samples = np.bincount(codes + 1, _counts(source["samples"]), len(names) + 1)[1:]
    used = [code for code in range(len(names)) if (codes == code).any()]
    ranked = sorted(used, key=lambda code: (-samples[code], str(names[code])))
    room, listed = MOST_TEXTS, []
    for code in ranked:
        text = texts.get(names[code])
        fits = text is not None and len(text) <= min(MOST_TEXT, room)
        room -= len(text) if text is not None and fits else 0
        state = "missing" if text is None else "text" if fits else "large"
        listed.append({"name": str(names[code]), "text": text if fits else None, "state": state})
    numbers = np.full(len(names) + 1, -1)
    numbers[ranked] = range(len(ranked))
    file: list[int] = numbers[codes].tolist()  # code -1 takes the last one, which is -1
    return file, listed


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


def hot_lines(source: pd.DataFrame, limit: int) -> tuple[list[dict[str, Any]], list[str]]:
    """At most ``limit`` lines of a launch's source frame, most samples first, and what is missing.

    A row has ``file`` and ``line`` (where the code names lines), ``sass`` (its hottest
    instruction), ``samples_pct`` of the launch, and ``stall``: the reason of most of its samples
    but ``selected``.
    """
    total = float(source["samples"].sum()) if not source.empty else 0.0
    if not total > 0:
        return [], ["warp samples were not collected: profile with --set source"]
    sampled = source[source["samples"] > 0]
    lines = bool((sampled["line"] > 0).any())
    groups = sampled.groupby(["file", "line"] if lines else "pc", sort=False)
    found = [_row(group, total) for _, group in groups]
    found.sort(key=lambda row: row["samples_pct"], reverse=True)
    return found[:limit], [] if lines else ["the code names no source lines: compile with -lineinfo"]


def _row(group: pd.DataFrame, total: float) -> dict[str, Any]:
    hottest = group.iloc[int(group["samples"].to_numpy().argmax())].to_dict()
    stalls = {name: float(group[name].sum()) for name in stall_columns(group) if name != "selected"}
    main = max(stalls, key=lambda name: stalls[name], default="")
    place = {"file": hottest["file"], "line": int(hottest["line"])} if hottest["line"] else {}
    return {
        **place,
        "sass": hottest["sass"].split(";")[0].strip(),
        "samples_pct": round(100.0 * float(group["samples"].sum()) / total, 1),
        "stall": main if stalls.get(main) else None,
    }
