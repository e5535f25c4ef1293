"""The coarser account of a recording without counters: of warps (``ncubble trace``), or of streams.

Members are named as those of a launch's verdict. They come from another source, never from
counters, and stand apart from launches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.streams import records
from ncubble.analysis.streams.account import DeviceAccount, accounts
from ncubble.analysis.streams.causes import CAUSES
from ncubble.analysis.streams.gaps import by_cause
from ncubble.analysis.traces.account import CANNOT_TELL, HOLDS, WORK, trace_account
from ncubble.analysis.traces.concurrency import percent
from ncubble.analysis.traces.lanes import LaneRun, find_lanes, lane_kind
from ncubble.analysis.traces.run import read_trace_facts, read_warps
from ncubble.errors import NcubbleError, ReportError
from ncubble.profiling.runs import MANIFEST, read_manifest

PROBE, STREAMS = "probe trace", "streams recording"
KERNELS = "kernels"
"""The share of a program's span in which some SM works."""
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
    kernel: str
    device: str | None
    duration_ns: float
    account: Mapping[str, float]
    at_least: Mapping[str, float] | None
    at_most: Mapping[str, float] | None
    merged: Mapping[str, tuple[str, ...]]
    causes: tuple[CoarseCause, ...]
    cannot_tell: tuple[str, ...]
    recorded: str
    notes: tuple[str, ...] = field(default=())

    @property
    def cause(self) -> str:
        """The largest part without work; ``none`` where all are small."""
        return self.causes[0].cause if self.causes else "none"

    def to_json(self) -> dict[str, Any]:
        """One element of ``traces`` in the JSON of ``ncubble report``."""
        return {**asdict(self), "cause": self.cause}


def coarse_verdicts(paths: Iterable[Path]) -> Iterator[CoarseVerdict | tuple[Path, NcubbleError]]:
    """What every recording at or below ``paths`` tells, or why it tells nothing."""
    for run in find_lanes(path for path in paths if path.is_dir()):
        try:
            if lane_kind(run) == "streams":
                yield from _of_streams(run)
            else:
                yield _of_warps(run)
        except NcubbleError as error:
            yield run.path, error


def _of_warps(run: LaneRun) -> CoarseVerdict:
    """Raises ReportError where no warp computes, or the recording is damaged."""
    facts, known = read_trace_facts(run.path), trace_account(read_warps(run))
    if known is None:
        message = f"{run.path}: no warp has a `compute` region"
        raise ReportError(
            message, "mark computing code with that tag (docs/trace.md): waits count as idle time only relative to it"
        )
    kernel = _member(facts, "kernel")
    settings = _member(kernel, "parameters")
    name = str(kernel.get("name") or "")
    label = " ".join([name, *(f"{key}={value}" for key, value in settings.items())]) if name else run.path.name
    cut = ("it is a section of the trace: ramp and tail of the launch may be cut off",) if facts.get("cut_ns") else ()
    causes = (CoarseCause(part, pct, PARTS[part].fix) for part, pct in known.bubbles.items() if pct >= LEAST_CAUSE_PCT)
    launches = f"{known.launches} launches" if known.launches > 1 else "1 launch"
    return CoarseVerdict(
        source=PROBE,
        report=str(run.path),
        label=label,
        kernel=name,
        device=_device(_member(facts, "device")),
        duration_ns=known.duration_ns,
        account=known.parts,
        at_least=known.at_least,
        at_most=known.at_most,
        merged={WORK: HOLDS},
        causes=tuple(causes),
        cannot_tell=CANNOT_TELL,
        recorded=f"{known.sms} {'SMs' if known.sms > 1 else 'SM'} in {launches}",
        notes=(*known.notes, *cut),
    )


def _of_streams(run: LaneRun) -> Iterator[CoarseVerdict]:
    """One for each device that worked. Raises ReportError for a recording that is damaged, or in
    which none worked."""
    recording = records.read(run.path)
    device = _manifest_device(run.path)
    worked = accounts(recording)
    if not worked:
        raise ReportError(f"{run.path}: no GPU activity was recorded", "see docs/streams.md, Limits")
    for account in worked:
        yield _of_device(run, account, device, recording.notes)


def _of_device(run: LaneRun, account: DeviceAccount, device: str | None, notes: tuple[str, ...]) -> CoarseVerdict:
    gaps = {cause: percent(ns, account.span_ns) for cause, ns in by_cause(account.gaps).items()}
    shares = {KERNELS: 100.0 - percent(account.idle_ns, account.span_ns), **gaps}
    ranked = sorted(gaps.items(), key=lambda item: -item[1])
    return CoarseVerdict(
        source=STREAMS,
        report=str(run.path),
        label=f"{run.path.name} {account.name}".strip(),
        kernel="",
        device=device,
        duration_ns=account.span_ns,
        account=shares,
        at_least=None,
        at_most=None,
        merged={},
        causes=tuple(CoarseCause(name, pct, CAUSES[name].remedy) for name, pct in ranked if pct >= LEAST_CAUSE_PCT),
        cannot_tell=STREAMS_CANNOT_TELL,
        recorded=f"{account.kernels:,} kernels, {account.copies:,} copies",
        notes=notes,
    )


def _manifest_device(folder: Path) -> str | None:
    try:
        return _device(read_manifest(folder / MANIFEST).device)
    except ReportError:
        return None


def _device(facts: Mapping[str, Any]) -> str | None:
    name = facts.get("name")
    return name if isinstance(name, str) else None


def _member(facts: Mapping[str, Any], name: str) -> dict[str, Any]:
    member = facts.get(name)
    return member if isinstance(member, dict) else {}
