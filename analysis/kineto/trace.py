"""A Kineto trace (PyTorch's profiler) as a recording of streams, so that one account of the program
is made of either.

Kernels, copies and sets of the GPU, calls of CUDA, and ranges (``record_function``, the steps of
the profiler) become its rows, and events that streams wait for, where the profiler was asked for
them (``enable_cuda_sync_events``). A trace does not tell which streams block each other.
"""

from __future__ import annotations

import gzip
import json
import re
import shlex
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
import pandas as pd

from ncubble.analysis.kineto.matching import OUTCOMES, Matcher
from ncubble.analysis.program.account import ProgramAccount, program_accounts
from ncubble.analysis.program.kernels import ProgramKernel
from ncubble.analysis.program.record import (
    ProgramRecord,
    ProgramResult,
    doubts,
    profiled_launches,
    with_nothing_matched,
)
from ncubble.analysis.program.selection import COVERED_PCT
from ncubble.analysis.program.span import SpanChoice
from ncubble.analysis.report.launch_key import base_name
from ncubble.analysis.streams.recording import (
    COLUMNS,
    DOWN,
    NUMBERS,
    ON_DEVICE,
    PAGEABLE,
    PEER,
    PINNED,
    RANGE,
    STREAM_WAIT,
    UP,
    Recording,
)
from ncubble.errors import ReportError, UsageError
from ncubble.profiling.recorders.raw import block_word, grid_words
from ncubble.text.values import number

MEMBER = "ncubble"
"""Name of the member that ``writing`` adds, in the arguments of kernels and in the trace."""
LARGEST_B = 8 << 30
"""Maximum size of an unpacked trace, which is held in memory."""
LOOSE_B = 256 << 20
"""Maximum size of a trace that is not strictly JSON: its values take many times as much memory."""
REMEDY = "export it again: the file is truncated, or from another program"
STEPS = "ProfilerStep#"
MOST_ROWS = 20_000_000
MOST_LAUNCHES = 200
"""Launches that a proposed command profiles: ncu takes up to a second for each."""
_KINDS = {
    "kernel": "kernel",
    "gpu_memcpy": "copy",
    "gpu_memset": "set",
    "cuda_runtime": "runtime",
    "cuda_driver": "driver",
    "user_annotation": RANGE,
    "cuda_sync": "sync",
}
_STREAM_WAITS = "Stream Wait Event"
_COPY = re.compile(r"Memcpy (\w)to(\w) \((\w+) -> (\w+)\)")
_WAYS = {"HD": UP, "DH": DOWN, "DD": ON_DEVICE, "PP": PEER}
_MEMORY = {"Pageable": PAGEABLE, "Pinned": PINNED, "Device": 3}
_DEFAULT_STREAM = 7
"""CUPTI's number of a context's legacy default stream."""
_LATEST_US = 9e15
_LARGEST = 1 << 53
_EVENTS = "traceEvents"
_NO_JSON = (msgspec.MsgspecError, ValueError, RecursionError)
Raw = msgspec.Raw
"""The text of a value: a part of the text that it was read from, not a copy."""
OBJECT, ARRAY = msgspec.json.Decoder(dict[str, Raw]), msgspec.json.Decoder(list[Raw])
_DEVICES = msgspec.json.Decoder(list[dict[str, Any]])
_TRACE = msgspec.json.Decoder(dict[str, Raw] | list[Raw])


_RECORD = "record with `ncubble program -- CMD`, or write a Kineto trace (torch.profiler)"
_FOREIGN = (
    (b"SQLite format 3\0", (), "a database, as Nsight Systems exports it, and no Kineto trace", _RECORD),
    ((), (".nsys-rep", ".qdrep"), "a report of Nsight Systems, and no Kineto trace", _RECORD),
    (b"NVR\0", ".ncu-repz", "a report of Nsight Compute", "show it with `ncubble report`, or name it with --report"),
)
"""How files of other tools begin, how their names end, what they are, and what to do."""
_OTHER_JSON = {
    "nodes": "an execution trace of PyTorch (ExecutionTraceObserver), without times of a GPU",
    "rocprofiler-sdk-tool": "a trace of AMD's rocprofv3",
}
"""Members by which JSON of other tools is known."""
_AMD = re.compile("AMD|Radeon|Instinct")
_CALL_PATH = {"frame", "metrics", "children"}
"""Members of the root of a profile of Proton."""


class TraceText(NamedTuple):
    """A trace as it was written: its ``text``, its ``members`` by name (none of a bare list of
    events), and its ``events``."""

    text: bytes
    members: dict[str, Raw]
    events: list[Raw]


def read_text(path: Path) -> TraceText:
    """The text of a trace, unpacked where it is packed by gzip. Raises ReportError for what is no
    trace, UsageError for one that accounts were written into."""
    try:
        with path.open("rb") as file:
            head = file.read(16)
        for begins, ends, what, remedy in _FOREIGN:
            if head.startswith(begins) or path.name.endswith(ends):
                raise ReportError(f"{path}: it is {what}", remedy)
        packed = head.startswith(b"\x1f\x8b")
        with gzip.open(path) if packed else path.open("rb") as file:
            text = file.read(LARGEST_B + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ReportError(f"{path}: cannot be read ({error})", REMEDY) from error
    if len(text) > LARGEST_B:
        raise ReportError(f"{path}: it is longer than {LARGEST_B >> 30} GB", "export fewer steps")
    try:
        text, whole = _decoded(text)
        if isinstance(whole, list):
            return TraceText(text, {}, whole)
        if MEMBER in whole:
            raise with_accounts(path)
        if _EVENTS not in whole:
            what = next((what for member, what in _OTHER_JSON.items() if member in whole), f"JSON without {_EVENTS}")
            raise ReportError(f"{path}: no Kineto trace: it is {what}", _RECORD)
        return TraceText(text, whole, ARRAY.decode(whole[_EVENTS]))
    except _NO_JSON as error:
        raise ReportError(f"{path}: invalid JSON: {error}", REMEDY) from error


def _decoded(text: bytes) -> tuple[bytes, dict[str, Raw] | list[Raw]]:
    """The parts of a text, and the text itself: written anew where it holds what JSON does not
    allow, but Python reads (control characters, NaN, half of a surrogate pair)."""
    try:
        return text, _TRACE.decode(text)
    except _NO_JSON:
        if len(text) > LOOSE_B:
            raise
        read = json.loads(text, strict=False, parse_constant=lambda name: None)
        text = json.dumps(read, ensure_ascii=False).encode("utf-8", "replace")
        return text, _TRACE.decode(text)


class TraceEvent(msgspec.Struct, gc=False):
    """A complete event of a trace, with a name; times in µs. Nothing else of a trace is one. Where
    its record was not ended, its length is negative."""

    ph: Literal["X"]
    name: str
    ts: Annotated[float, msgspec.Meta(gt=-_LATEST_US, lt=_LATEST_US)]
    dur: Annotated[float, msgspec.Meta(gt=-_LATEST_US, lt=_LATEST_US)]
    cat: str = ""
    pid: int | float | str | None = None
    tid: Any = None
    args: Any = None

    @property
    def arguments(self) -> dict[str, Any]:
        """What it tells besides."""
        return self.args if isinstance(self.args, dict) else {}


_EVENT = msgspec.json.Decoder(TraceEvent)


def event_of(text: Raw | bytes) -> TraceEvent | None:
    """The event that a text is; None for anything else."""
    try:
        return _EVENT.decode(text)
    except _NO_JSON:
        return None


class TracedKernel(NamedTuple):
    """A kernel of a trace: what it is, and the number of its GPU (-1: not told). Its length is that
    of the event: traces may count µs from 1970, of which a double tells quarters apart."""

    kernel: ProgramKernel
    device: int
    event: TraceEvent

    @property
    def ns(self) -> int:
        """Its length."""
        return round(1e3 * self.event.dur)


def traced_kernel(event: TraceEvent | None) -> TracedKernel | None:
    """The kernel that an event of a trace is; None for any other event."""
    if event is None or event.cat.lower() != "kernel" or event.pid is None or event.dur < 0:
        return None
    args = event.arguments
    grid, block = (_size(args.get(name)) for name in ("grid", "block"))
    shape = (",".join(map(str, grid)), ",".join(map(str, block))) if grid and block else ("", "")
    known = (_count(args.get("shared memory")), _count(args.get("registers per thread")))
    return TracedKernel(_kernel(event.name, *shape, *known), _count(args.get("device", event.pid), -1), event)


@lru_cache(maxsize=4096)
def _kernel(name: str, grid: str, block: str, shared: int, registers: int) -> ProgramKernel:
    name = name.removeprefix("void ")
    return ProgramKernel(name, name, grid, block, shared if grid else 0, registers)


def _count(value: Any, otherwise: int = 0) -> int:
    known = number(value)
    return int(known) if known is not None and 0 <= known < _LARGEST and known == int(known) else otherwise


def _size(value: Any) -> tuple[int, ...]:
    """The three whole numbers of a list; empty for anything else."""
    sizes = tuple(_count(one) for one in value) if isinstance(value, list) and len(value) == 3 else ()
    return sizes if all(0 < size < 1 << 31 for size in sizes) else ()


def with_accounts(path: Path) -> UsageError:
    """The error for a trace that accounts were written into."""
    return UsageError(f"{path}: already holds accounts", "use the original trace")


def read_trace(path: Path) -> Recording:
    """A trace as rows of a recording, ranks that were merged into it as processes;
    ``facts["devices"]`` are the names of the GPUs by number, ``facts["amd"]`` that of one by AMD.
    Raises ReportError for what is no trace of kernels."""
    trace = read_text(path)
    rows: list[tuple[Any, ...]] = []
    ranks, callers, backwards = dict[str, int](), set[str](), 0
    for text in trace.events:
        if (event := event_of(text)) is None or event.cat.lower() not in _KINDS:
            continue
        if event.dur < 0:
            backwards += 1
            continue
        # Tools that merge ranks put a name before each pid: "[TP01] 4711".
        rank, _, caller = str(event.pid).rpartition("] ")
        rows += _rows(event, ranks.setdefault(rank, len(ranks) + 1))
        callers |= {caller} if event.cat.lower() == "cuda_runtime" and not rank else set()
        if len(rows) > MOST_ROWS:
            raise ReportError(f"{path}: more than {MOST_ROWS:,} kernels and calls", "export fewer steps")
    devices = _device_names(trace.members.get("deviceProperties", Raw(b"[]")))
    if not any(row[0] == "kernel" for row in rows):
        raise _without_kernels(path, trace)
    hip = any(row[0] == "runtime" and row[1].startswith("hip") for row in rows)
    amd = next(filter(_AMD.search, devices.values()), "a GPU of AMD" if hip else "")
    merged = f"{len(callers)} processes call CUDA: ranks were merged, and those of one GPU number count as one GPU"
    lost = f"events of a negative duration, which are left out: {backwards:,}"
    notes = tuple(note for note, holds in ((merged, len(callers) > 1), (lost, backwards)) if holds)
    frame = pd.DataFrame(rows, columns=[*COLUMNS]).astype(dict.fromkeys(NUMBERS, "int64"))
    timed = frame["kind"] != "event"
    frame.loc[timed, ["start_ns", "end_ns"]] -= frame.loc[timed, "start_ns"].min()
    contexts = frame.loc[(frame["kind"] == "kernel") & (frame["stream"] == _DEFAULT_STREAM), ["process", "context"]]
    defaults = contexts.drop_duplicates().assign(kind="context", name="", flags=_DEFAULT_STREAM)
    both = pd.concat([defaults, frame]).fillna(0).astype(dict.fromkeys(NUMBERS, "int64"))
    ordered = both[[*COLUMNS]].sort_values(["start_ns", "end_ns"], kind="stable", ignore_index=True)
    return Recording(ordered, notes, {"devices": devices, "amd": amd})


def _without_kernels(path: Path, trace: TraceText) -> ReportError:
    """What a file without kernels is, if it can be told."""
    with suppress(*_NO_JSON):
        if trace.events and not trace.members and OBJECT.decode(trace.events[0]).keys() >= _CALL_PATH:
            return ReportError(f"{path}: it is a profile of Triton's Proton: times by call path, no timeline", _RECORD)
    events = [event for event in map(event_of, trace.events) if event]
    kinds = {event.cat.lower() for event in events}
    if any(isinstance(event.pid, str) and " CTA" in event.pid for event in events):
        return ReportError(f"{path}: it is a trace of warps by Triton's Proton, and has no kernels", _RECORD)
    if any(kind.startswith("mtia") for kind in kinds):
        return ReportError(f"{path}: it was recorded on MTIA, and has no kernels of CUDA", "record it on an NVIDIA GPU")
    if "cuda_profiler_range" in kinds:
        what = "it was recorded by CUPTI's range profiler, which counts, and keeps no kernels"
        return ReportError(f"{path}: {what}", "record it without experimental_config=…(profiler_metrics=…)")
    return ReportError(f"{path}: no kernels in it", "record with ProfilerActivity.CUDA, in a program that uses it")


def _rows(event: TraceEvent, process: int) -> Iterator[tuple[Any, ...]]:
    """An event of one of ``_KINDS`` as rows (``COLUMNS``)."""
    kind, args, name = _KINDS[event.cat.lower()], event.arguments, event.name
    flags = source = target = extra = 0
    size = _count(args.get("bytes"))
    if kind == "kernel":
        if (traced := traced_kernel(event)) is None:
            return
        kernel = traced.kernel
        name, size, extra = kernel.name, kernel.shared_B, kernel.registers
        if kernel.grid:
            flags = block_word(*map(int, kernel.block.split(",")))
            source, target = grid_words(*map(int, kernel.grid.split(",")))
    elif kind == "copy" and (told := _COPY.match(name)):
        flags = _WAYS.get(told[1] + told[2], 0)
        source, target = (_MEMORY.get(memory, 0) for memory in told.group(3, 4))
        extra = _count(args.get("fromDevice")) << 32 | _count(args.get("toDevice"))
    start, length = (round(1e3 * time) for time in (event.ts, event.dur))
    if kind == "sync":
        recorded, on = _count(args.get("wait_on_cuda_event_record_corr_id")), _count(args.get("wait_on_stream"), -1)
        if name != _STREAM_WAITS or not recorded or on < 0:
            return
        flags, source, extra = STREAM_WAIT, _count(args.get("wait_on_cuda_event_id")), recorded
        context = _count(args.get("context"))
        yield ("event", "", process, 0, context, on, 0, 0, 0, recorded, 0, 0, source, 0, 0, 0, recorded)
    device = max(_count(args.get("device", event.pid)), 0) if kind in ("kernel", "copy", "set") else 0
    place = (device, _count(args.get("context")), _count(args.get("stream")))
    thread = _count(event.tid) if kind in ("runtime", "driver", RANGE) else 0
    told_of = (size, _count(args.get("correlation")), thread, flags, source, target)
    yield (kind, name, process, *place, start, start + length, *told_of, 0, _count(args.get("graph id")), extra)


def _device_names(properties: Raw) -> dict[int, str]:
    """The GPUs' names by their numbers, of a trace's member ``deviceProperties``."""
    try:
        known = [(_count(one.get("id"), -1), one.get("name")) for one in _DEVICES.decode(properties)]
    except _NO_JSON:
        return {}
    return {number: str(name) for number, name in known if number >= 0 and name}


def open_trace(
    path: Path, choice: SpanChoice | None = None, reports: Sequence[Path] = ()
) -> tuple[ProgramResult, Matcher]:
    """The accounts of a trace, and what finds the launches of ``reports`` that its kernels are.

    Without a ``choice`` the steps of the profiler count, where it has some. Raises as
    ``read_trace`` and ``program_accounts`` do; ReportError where no report can be read.
    """
    profiled, unread = profiled_launches(reports)
    if reports and not profiled:
        why = unread[0] if unread else f"{reports[0]}: no report found"
        raise ReportError(why, "name runs that `ncubble profile` wrote, or .ncu-rep files")
    recording = read_trace(path)
    if choice is None:
        stepped = recording.rows.loc[recording.rows["kind"] == RANGE, "name"].str.startswith(STEPS).any()
        choice = SpanChoice(f"{STEPS}*") if stepped else SpanChoice()
    matcher = Matcher(profiled, recording.facts["devices"])
    accounts = program_accounts(recording, choice, matcher.find)
    if amd := recording.facts["amd"]:
        following = [f"recorded on {amd}: its time is accounted for, but ncu profiles no kernel of it"]
    else:
        following = [*_unmatched(accounts, bool(reports)), *_next(accounts, recording, path)]
    notes = (*recording.notes, *unread, *doubts(accounts), *following)
    shown = ProgramResult(path, ProgramRecord(choice), accounts, notes, recording, matcher.find)
    return with_nothing_matched(shown, len(profiled)) if reports and not shown.matched else shown, matcher


def _unmatched(accounts: Sequence[ProgramAccount], asked: bool) -> Iterator[str]:
    """Why kernels have no account, by outcome, and what differs of the first ones."""
    kernels = [(account, kernel) for account in accounts for kernel in account.kernels if not kernel.verdict]
    for outcome, meaning in OUTCOMES.items() if asked else ():
        own = [(account, kernel) for account, kernel in kernels if kernel.match.outcome == outcome]
        if own:
            launches, ns = (sum(getattr(kernel, name) for _, kernel in own) for name in ("launches", "ns"))
            share = 100.0 * ns / sum(kernel.ns for account in accounts for kernel in account.kernels)
            yield f"{outcome}: {meaning} ({launches:,} launches, {share:.1f} % of the time of kernels)"
            yield from [f"{account.title(one.kernel)}: {one.match.note}" for account, one in own if one.match.note][:3]


def _next(accounts: Sequence[ProgramAccount], recording: Recording, path: Path) -> Iterator[str]:
    """What to profile next, as a command, where that is worth a run: the functions with most time
    of which one repetition of the span launches no more than ``MOST_LAUNCHES`` together."""
    repeats = min(one.span.steady.repeats if one.span.steady else len(one.span.windows) for one in accounts)
    told = [
        (one.kernel.function, one.kernel.communicates, one.ns, one.ns * bool(one.lacking), one.launches / repeats)
        for account in accounts
        for one in account.kernels
    ]
    table = pd.DataFrame(told, columns=["name", "waits", "ns", "lacking", "launches"])
    table = table.groupby(["name", "waits"], as_index=False).sum().sort_values("lacking", ascending=False)
    share = 100.0 * table["lacking"] / table["ns"].sum()
    waiting, others = table["waits"] & (share > 0), ~table["waits"] & (share > 0)
    few = others & (table["launches"] <= MOST_LAUNCHES)
    few &= (table["launches"] * few).cumsum() <= MOST_LAUNCHES
    chosen = few if few.any() else others & (share == share[others].max())
    chosen &= (share * chosen).cumsum() - share < share.sum() + COVERED_PCT - 100.0
    if not chosen.any():
        return
    # Whole names: a part ("Kernel" of CUTLASS) is in other names, too.
    names = f"^({'|'.join(map(re.escape, table['name'][chosen]))})$"
    first = min(account.span.windows[0][0] for account in accounts)
    before = recording.rows.loc[recording.rows["start_ns"] < first, "name"]
    skip = before.isin([name for name in before.unique() if base_name(name) in set(table["name"][chosen])]).sum()
    count = min(int(np.ceil(table["launches"][chosen]).sum()), MOST_LAUNCHES)
    command = f"ncubble profile --kernel {shlex.quote(names)}{f' --skip {skip}' if skip else ''} --count {count}"
    yield (
        f"profile next: {command} --out RUN -- CMD, then ncubble program {shlex.quote(str(path))} --report RUN: "
        f"{share[chosen].sum():.1f} % of the time of kernels"
    )
    if waiting.any():
        what = f"{', '.join(table['name'][waiting])}, {share[waiting].sum():.1f} % of the time of kernels"
        yield f"left out, since they wait for other GPUs: {what}"
