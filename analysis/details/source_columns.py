"""What the Source page shows, as columns of plain data: instructions, samples by cause, source
files, what is lacking.

Pure: frames of one launch in, a dict for JSON out. Rows are instructions, numbered as in the
launch's source frame.
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

KINDS: dict[str, str] = {
    "mma": "MMA",
    "mma_wait": "wait for MMAs",
    "copy": "async copy",
    "copy_wait": "wait for copies",
    "load_global": "global load",
    "store_shared": "shared store",
    "load_shared": "shared load",
    "store_global": "global store",
    "local": "local memory (spills)",
    "barrier": "barrier",
    "other": "other",
}
"""Classes of instructions (``opcodes.role``), in words."""
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
        "kinds": [{"id": kind, "label": KINDS[kind]} for kind in kinds],
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
    kinds = [kind for kind in KINDS if kind in roles]
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
