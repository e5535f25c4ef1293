"""The account of one launch read off a report, with the lines that hold each part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath

import numpy as np
import pandas as pd

from ncubble.analysis.account.account import BubbleAccount, account, steady_weights
from ncubble.analysis.account.parts import STEADY
from ncubble.analysis.account.stalls import main_loop
from ncubble.analysis.account.units import cta_share
from ncubble.analysis.diagnosis.results import CONTRADICTIONS
from ncubble.analysis.gate.accounts.account import LONGEST, CodePlace, LaunchAccount, mean_places, opcode
from ncubble.analysis.report.launch import Launch
from ncubble.sass.bystanders import homes
from ncubble.sass.opcodes import is_wgmma, role

_FINEST_PCT = 0.02
"""Cutoff for each launch: a tenth of the cutoff for the mean over repeats, so that means stay
unbiased."""


def account_of(launch: Launch) -> LaunchAccount | None:
    """The account of one launch with its places; None where the report allows none, or its values
    contradict each other. Where only the code contradicts itself, parts stand without places."""
    try:
        computed = account(launch)
    except CONTRADICTIONS:
        return None
    if computed is None:
        return None
    parts = {part: float(pct) for part, pct in computed.parts.items()}
    known = LaunchAccount(parts, (), dict(computed.merged), computed.unit)
    try:
        rule = _overlap(computed, launch.source)
        return replace(known, places=tuple(_places(launch, computed)), overlap=rule)
    except CONTRADICTIONS:
        return known


def _overlap(computed: BubbleAccount, source: pd.DataFrame) -> str:
    """By which rule samples were weighed: that of phases takes some out, that of asynchronous MMAs
    may take none."""
    if computed.weights is None:
        return ""
    if any(is_wgmma(opcode) or opcode.startswith("UTC") for opcode in source["opcode"].unique()):
        return "asynchronous"
    counted, weighed = float(source["samples"].sum()), float(computed.weights.to_numpy().sum())
    return "phases" if weighed < 0.999 * counted else ""


def _places(launch: Launch, computed: BubbleAccount) -> list[CodePlace]:
    """All places of all steady parts, largest first; empty where no samples split them."""
    if computed.weights is None:
        return []
    source = launch.source
    share = cta_share(launch)
    sites = _Sites(source, {PurePath(name).name: text.splitlines() for name, text in launch.report.files.items()})
    spots = [
        place for part, pct in _held(computed, computed.weights, source, share) for place in sites.places(part, pct)
    ]
    return mean_places([spots])


def _held(
    computed: BubbleAccount, weights: pd.DataFrame, source: pd.DataFrame, share: float
) -> Iterator[tuple[str, np.ndarray]]:
    """For each part with samples the percent of elapsed cycles at each instruction. ``share`` of
    cycles is with a CTA.

    Dependent latency at the MMA belongs to ``issue`` and lies where the waits for it were sampled.
    Samples have no time: gaps between waves are laid on what CTAs do outside their main loop, which
    is what fills the gaps.
    """
    pct = {part: weights[part].to_numpy(dtype=float) for part in STEADY}
    busy = computed.parts["tensor_busy"] + computed.parts["unit_busy"]
    active = busy / max(share, 0.01) if share > 0 else busy
    unit = weights["unit"].to_numpy(dtype=float)
    whole = steady_weights(weights.sum(), active, float(source["samples"].sum()))["issue"]
    if (beyond := whole - pct["issue"].sum()) > 0 and unit.sum() > 0:
        pct["issue"] = pct["issue"] + unit * (beyond / unit.sum())
    pct["wave_gap"] = _outside(source, weights)
    for part, weight in pct.items():
        if (total := weight.sum()) > 0 and computed.parts.get(part, 0.0) > 0:
            yield part, computed.parts[part] * weight / total


def _outside(source: pd.DataFrame, weights: pd.DataFrame) -> np.ndarray:
    """Weight of each instruction that stands outside the main loop, 0 of the others."""
    opcodes = source["opcode"].tolist()
    home = np.asarray(homes(source["sass"].tolist(), opcodes), dtype=int)
    loop = main_loop([role(opcode) for opcode in opcodes], source["executed"].to_numpy(dtype=float), home.tolist())
    outside = (home < loop.start) | (home >= loop.stop)
    return np.asarray(np.where(outside, weights.drop(columns="aside").sum(axis=1), 0.0), dtype=float)


class _Sites:
    """Where each instruction of a launch belongs: its line, or itself where the report has no
    lines."""

    def __init__(self, source: pd.DataFrame, texts: dict[str, list[str]]) -> None:
        self.files = [PurePath(file).name for file in source["file"].fillna("")]
        self.lines = [int(line) for line in source["line"]]
        self.sass = source["sass"].tolist()
        self.texts = {name: [_shown(line) for line in lines] for name, lines in texts.items()}
        self.twice = {
            name: {line for line, times in Counter(text).items() if times > 1} for name, text in self.texts.items()
        }

    def places(self, part: str, pct: np.ndarray) -> list[CodePlace]:
        """The places that hold ``part``, from the percent of it at each instruction: at least
        ``_FINEST_PCT`` each."""
        rows_at: dict[tuple[str, int, str], list[int]] = {}
        for row in np.flatnonzero(pct > 0).tolist():
            rows_at.setdefault(self._site(row), []).append(row)
        spots = [self._place(part, rows, pct) for rows in rows_at.values()]
        return [place for place in spots if place.pct >= _FINEST_PCT]

    def _site(self, row: int) -> tuple[str, int, str]:
        """Equal for instructions of one line; without lines, for those of one opcode."""
        if self.files[row] and self.lines[row] > 0:
            return self.files[row], self.lines[row], ""
        return "", 0, opcode(self.sass[row])

    def _place(self, part: str, rows: list[int], pct_of_row: np.ndarray) -> CodePlace:
        heaviest = max(rows, key=lambda row: pct_of_row[row])
        file, line, _ = self._site(heaviest)
        text, below = self._text(file, line)
        pct = float(pct_of_row[rows].sum())
        return CodePlace(part, file, line or None, text or _shown(self.sass[heaviest]), pct, not text, below)

    def _text(self, file: str, line: int) -> tuple[str, str]:
        """A source line and, where it stands there more than once, the one above that is not empty;
        else empty."""
        source = self.texts.get(file, [])
        text = source[line - 1] if 0 < line <= len(source) else ""
        if text not in self.twice.get(file, ()):
            return text, ""
        return text, next((above for above in reversed(source[: line - 1]) if above), "")


def _shown(text: str) -> str:
    """One line without control characters: a report may hold anything."""
    return "".join(char for char in " ".join(text.split()) if char.isprintable())[:LONGEST]
