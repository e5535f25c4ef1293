"""What a recording says about each device: how busy its engines were, what overlapped, and why its
SMs were idle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from ncubble.analysis.streams.causes import CAUSES
from ncubble.analysis.streams.engines import D2H, H2D, P2P, SMS, devices, lanes_of, short_name, work_of
from ncubble.analysis.streams.gaps import IdleGap, by_cause, counts, gaps_of
from ncubble.analysis.streams.queue import Queue
from ncubble.analysis.streams.records import Recording, within_profiled
from ncubble.analysis.streams.waits import on_own_streams
from ncubble.analysis.traces.concurrency import Concurrency, concurrency, percent

SCHEMA = 1


@dataclass(frozen=True)
class DeviceAccount:
    """One device of one process. Times in ns; ``gaps`` in order of time; ``zero``: the first work
    of any device."""

    process: int
    device: int
    name: str
    kernels: int
    copies: int
    bytes_up: int
    bytes_down: int
    bytes_peer: int
    lanes: pd.DataFrame
    concurrency: Concurrency
    gaps: list[IdleGap]
    zero: int = 0

    @property
    def span_ns(self) -> float:
        """From the first work to the end of the last."""
        return self.concurrency.span_ns

    @property
    def idle_ns(self) -> int:
        """Time of the span in which no SM worked; the causes sum to it."""
        return sum(gap.ns for gap in self.gaps)

    @property
    def prefix(self) -> str:
        """What its lanes begin with."""
        return f"{self.name} " if self.name else ""

    @property
    def engine_names(self) -> dict[str, str]:
        """The engine of each group of its lanes that worked."""
        return {group: group.removeprefix(self.prefix) for group in self.concurrency.busy_ns}


def accounts(recording: Recording, whole: bool = False) -> list[DeviceAccount]:
    """One account per process and device that did anything, in order.

    Only what a program does between ``cudaProfilerStart`` and ``cudaProfilerStop`` counts, if it
    calls them; ``whole`` takes everything.
    """
    rows = recording.rows if whole else within_profiled(recording.rows)
    work = on_own_streams(work_of(rows), rows)
    all_devices = devices(work)
    queues = {
        process: Queue(work[work["process"] == process].reset_index(drop=True), rows[rows["process"] == process])
        for process in dict.fromkeys(process for process, _ in all_devices)
    }
    return [_account(work, queues[process], process, device, all_devices) for process, device in all_devices]


def _account(
    work: pd.DataFrame, queue: Queue, process: int, device: int, all_devices: list[tuple[int, int]]
) -> DeviceAccount:
    own = work[(work["process"] == process) & (work["device"] == device)].reset_index(drop=True)
    several = len({owner for owner, _ in all_devices}) > 1
    name = (f"process {process} GPU {device}" if several else f"GPU {device}") if len(all_devices) > 1 else ""
    lanes = lanes_of(own, f"{name} " if name else "")
    copies = own[own["kind"] == "copy"]
    return DeviceAccount(
        process=process,
        device=device,
        name=name,
        kernels=int((own["kind"] == "kernel").sum()),
        copies=len(copies),
        bytes_up=int(copies.loc[copies["engine"] == H2D, "bytes"].sum()),
        bytes_down=int(copies.loc[copies["engine"] == D2H, "bytes"].sum()),
        bytes_peer=int(copies.loc[copies["engine"] == P2P, "bytes"].sum()),
        lanes=lanes,
        concurrency=concurrency(lanes),
        gaps=gaps_of(queue, device),
        zero=int(work["start_ns"].min()),
    )


def drawn_lanes(account: DeviceAccount) -> pd.DataFrame:
    """The lanes with one more, in the group of the SMs: their gaps."""
    return pd.concat([account.lanes, idle_lane(account)], ignore_index=True) if account.gaps else account.lanes


def idle_lane(account: DeviceAccount) -> pd.DataFrame:
    """The gaps in which no SM worked as a lane: waits that name the cause."""
    return pd.DataFrame(
        {
            "lane": "no SM works",
            "group": f"{account.prefix}{SMS}",
            "start_ns": [float(gap.start) for gap in account.gaps],
            "end_ns": [float(gap.end) for gap in account.gaps],
            "tag": [f"wait: {CAUSES[gap.cause].title}" for gap in account.gaps],
        }
    )


def as_json(account: DeviceAccount, longest: int = 10) -> dict[str, Any]:
    """The account as JSON: percents of the span, times in us; ``longest`` gaps."""
    span, idle, engines = account.span_ns, account.idle_ns, account.engine_names
    number = counts(account.gaps)
    return {
        "process": account.process,
        "device": account.device,
        "span_us": span / 1e3,
        "kernels": account.kernels,
        "copies": account.copies,
        "bytes_up": account.bytes_up,
        "bytes_down": account.bytes_down,
        "bytes_peer": account.bytes_peer,
        "engines": [
            {"engine": engines[group], "busy_us": ns / 1e3, "busy_pct": percent(ns, span)}
            for group, ns in account.concurrency.busy_ns.items()
        ],
        "all_idle_us": account.concurrency.idle_ns / 1e3,
        "overlap": [
            {
                "engines": [engines[group] for group in overlap.what],
                "us": overlap.ns / 1e3,
                "pct_of_span": overlap.pct_of_span,
                "pct_of_least": overlap.pct_of_least,
            }
            for overlap in account.concurrency.overlaps
        ],
        "sm_idle_us": idle / 1e3,
        "sm_idle_pct": percent(idle, span),
        "causes": [
            {
                "cause": name,
                "us": ns / 1e3,
                "pct_of_span": percent(ns, span),
                "pct_of_idle": percent(ns, idle),
                "gaps": number.get(name, 0),
                "remedy": CAUSES[name].remedy,
            }
            for name, ns in by_cause(account.gaps).items()
        ],
        "gaps": len(account.gaps),
        "longest": [gap_json(gap, account.zero) for gap in longest_gaps(account.gaps, longest)],
    }


def gap_json(gap: IdleGap, zero: int = 0) -> dict[str, Any]:
    """A gap as JSON, times in us since ``zero`` (ns), which is where the timeline begins."""
    return {
        "start_us": (gap.start - zero) / 1e3,
        "us": gap.ns / 1e3,
        "cause": gap.cause,
        "evidence": gap.evidence,
        "next": short_name(gap.next) if gap.next else "",
        "parts_us": {name: ns / 1e3 for name, ns in gap.parts.items()},
    }


def longest_gaps(gaps: list[IdleGap], most: int) -> list[IdleGap]:
    """The longest gaps, longest first."""
    return sorted(gaps, key=lambda gap: (-gap.ns, gap.start))[:most]
