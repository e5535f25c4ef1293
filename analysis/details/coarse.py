"""The coarser account of a recording without counters: of warps (``ncubble trace``), or of streams.

Members are named as those of a launch's verdict. They come from another source, never from
counters, and stand apart from launches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.diagnosis.words import SATURATED_PCT
from ncubble.analysis.streams import recording as streams
from ncubble.analysis.streams.account import accounts
from ncubble.analysis.streams.gaps import by_cause
from ncubble.analysis.streams.work import CAUSES
from ncubble.analysis.traces.account import CANNOT_TELL, HOLDS, WORK, trace_account
from ncubble.analysis.traces.lanes import FILE, folders_with, lane_kind, percent, read_warps
from ncubble.errors import NcubbleError, ReportError
from ncubble.profiling.runs import MANIFEST, read_manifest
from ncubble.text.values import string

PROBE, STREAMS = "probe trace", "streams recording"
KERNELS = "kernels"
"""The share of a program's span in which some SM works."""
WORK_PARTS = (WORK, KERNELS)
"""Parts that are work; an account has one of them."""
LEAST_CAUSE_PCT = 1.0
STREAMS_CANNOT_TELL = (
    "anything inside a kernel (profile it, trace its warps, or ablate it)",
    "how many SMs a kernel occupies",
)


@dataclass(frozen=True)
class CoarseCause:
    """A part without work, its share in percent, and what helps."""

    cause: str
    pct: float
    fix: str


@dataclass(frozen=True, kw_only=True)
class CoarseVerdict:
    """What a recording tells. ``account``: percent of the recorded time by part; ``at_least`` and
    ``at_most`` bound it, where other readings exist; ``merged``: finer parts that one holds.
    ``cannot_tell``: what only counters do."""

    source: str
    report: str
    label: str
    kernel: str = ""
    device: str | None
    duration_ns: float
    account: Mapping[str, float]
    at_least: Mapping[str, float] | None = None
    at_most: Mapping[str, float] | None = None
    merged: Mapping[str, tuple[str, ...]]
    causes: tuple[CoarseCause, ...]
    cannot_tell: tuple[str, ...]
    recorded: str
    notes: tuple[str, ...] = ()

    @property
    def cause(self) -> str:
        """The largest part without work; ``none`` where all are small, or work takes nearly all."""
        return self.causes[0].cause if self.causes and self.work_pct < SATURATED_PCT else "none"

    @property
    def work_pct(self) -> float:
        """Percent of the recorded time with work."""
        return sum(self.account.get(part, 0.0) for part in WORK_PARTS)

    def to_json(self) -> dict[str, Any]:
        """One element of ``traces`` in the JSON of ``ncubble report``."""
        return {**asdict(self), "cause": self.cause}


def coarse_verdicts(paths: Iterable[Path]) -> Iterator[CoarseVerdict | tuple[Path, NcubbleError]]:
    """What every recording at or below ``paths`` tells, or why it tells nothing."""
    for folder in folders_with(FILE, (path for path in paths if path.is_dir())):
        try:
            yield from _of_streams(folder) if lane_kind(folder) == "streams" else _of_warps(folder)
        except NcubbleError as error:
            yield folder, error


def _of_warps(folder: Path) -> Iterator[CoarseVerdict]:
    """Raises ReportError where no warp computes, or the recording is damaged."""
    lanes = read_warps(folder)
    known = trace_account(lanes.rows)
    if known is None:
        remedy = "mark computing code with that tag (docs/trace.md): waits count as idle time only relative to it"
        raise ReportError(f"{folder}: no warp has a `compute` region", remedy)
    kernel = _member(lanes.facts, "kernel")
    settings = _member(kernel, "parameters")
    name = str(kernel.get("name") or "")
    cut = "it is a section of the trace: ramp and tail of the launch may be cut off"
    yield CoarseVerdict(
        source=PROBE,
        report=str(folder),
        label=" ".join([name, *(f"{key}={value}" for key, value in settings.items())]) if name else folder.name,
        kernel=name,
        device=string(_member(lanes.facts, "device").get("name")) or None,
        duration_ns=known.duration_ns,
        account=known.parts,
        at_least=known.at_least,
        at_most=known.at_most,
        merged={WORK: HOLDS},
        causes=_causes(known.bubbles, {part: PARTS[part].fix for part in known.bubbles}),
        cannot_tell=CANNOT_TELL,
        recorded=f"{known.sms} SM{'s' * (known.sms > 1)} in {known.launches} launch{'es' * (known.launches > 1)}",
        notes=(*known.notes, *([cut] if lanes.facts.get("cut_ns") else [])),
    )


def _of_streams(folder: Path) -> Iterator[CoarseVerdict]:
    """One for each device that worked. Raises ReportError for a recording that is damaged, or in
    which none worked."""
    recording = streams.read(folder)
    worked = accounts(recording)
    if not worked:
        raise ReportError(f"{folder}: no GPU activity was recorded", "see docs/streams.md, Limits")
    try:
        device = string(read_manifest(folder / MANIFEST).device.get("name"))
    except ReportError:
        device = ""
    for account in worked:
        gaps = {cause: percent(ns, account.span_ns) for cause, ns in by_cause(account.gaps).items()}
        yield CoarseVerdict(
            source=STREAMS,
            report=str(folder),
            label=f"{folder.name} {account.name}".strip(),
            device=device or None,
            duration_ns=account.span_ns,
            account={KERNELS: 100.0 - percent(account.idle_ns, account.span_ns), **gaps},
            merged={},
            causes=_causes(gaps, {cause: CAUSES[cause].remedy for cause in gaps}),
            cannot_tell=STREAMS_CANNOT_TELL,
            recorded=f"{account.kernels:,} kernels, {account.copies:,} copies",
            notes=recording.notes,
        )


def _causes(shares: Mapping[str, float], fixes: Mapping[str, str]) -> tuple[CoarseCause, ...]:
    """The parts that count, largest first, as ``shares`` has them."""
    return tuple(CoarseCause(part, pct, fixes[part]) for part, pct in shares.items() if pct >= LEAST_CAUSE_PCT)


def _member(facts: Mapping[str, Any], name: str) -> dict[str, Any]:
    member = facts.get(name)
    return member if isinstance(member, dict) else {}
