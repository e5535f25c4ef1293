"""A Kineto trace with the accounts of profiled launches: arguments of its kernels, and counters
over time. Everything else in the file stays as it was written."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ncubble import __version__
from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.diagnosis.brief import brief
from ncubble.analysis.diagnosis.results import CONTRADICTIONS
from ncubble.analysis.kineto.matching import Matcher
from ncubble.analysis.kineto.trace import (
    MEMBER,
    OBJECT,
    REMEDY,
    Raw,
    TracedKernel,
    event_of,
    read_text,
    traced_kernel,
    with_accounts,
)
from ncubble.analysis.program.account import LaunchMatch, ProfiledLaunch
from ncubble.analysis.traces.drawing import running
from ncubble.errors import MeasurementError, ReportError
from ncubble.store import draft_of

SCHEMA = 1
COUNTER = "ncubble %"
UNKNOWN = "no account"
"""Counter name for kernels that are not matched, or whose report has no account."""
DASHBOARD = "http://127.0.0.1:8050"
"""Where ``ncubble dashboard`` serves the pages that kernels link to."""
_STEP_PCT = 0.05
"""Smaller changes of a counter are not written."""
_OF_VERDICT = {"launch": "launch", "cause": "verdict", "how": "how"}
_OF_CHANGE = {"change": "do", "gain_pct": "gain_pct", "gain_from_to": "gain_from_to"}

Edit = tuple[int, int, str]
"""Start and end of the bytes of a text that others replace; equal where they are only added."""


def write_accounts(trace: Path, out: Path, matcher: Matcher) -> None:
    """Write ``trace`` with accounts to ``out``, whole or not at all; packed where that ends in
    ``.gz``. Raises ReportError for a trace that is none, UsageError for one that was written
    before, MeasurementError where ``out`` cannot be written."""
    read = read_text(trace)
    try:
        edits = list(_edits(trace, *read, matcher))
    except UnicodeDecodeError as error:  # of the name of a member
        raise ReportError(f"{trace}: invalid JSON: {error}", REMEDY) from error
    try:
        with (
            draft_of(out, shared=True) as draft,
            gzip.open(draft, "wb", 4) if out.suffix == ".gz" else draft.open("wb") as sink,
        ):
            text, kept = memoryview(read.text), 0
            for start, end, added in edits:
                sink.write(text[kept:start])
                sink.write(added.encode())
                kept = end
            sink.write(text[kept:])
    except OSError as error:
        where = error.filename or out
        raise MeasurementError(f"{where}: {error.strerror or error}", "free space there, or choose --out") from error


def _edits(
    trace: Path, text: bytes, members: dict[str, Raw], events: Sequence[Raw], matcher: Matcher
) -> Iterator[Edit]:
    """What is added to a trace, in order: arguments of kernels, counters behind the last event, and
    what the trace is at its end."""
    first = _address(text)
    words: dict[int, str] = {}
    kernels: dict[Any, list[tuple[TracedKernel, LaunchMatch]]] = defaultdict(list)
    for event in events:
        if kernel := traced_kernel(event_of(event)):
            if MEMBER in kernel.event.arguments:
                raise with_accounts(trace)
            match = matcher.find(kernel.kernel, kernel.device, kernel.ns)
            kernels[kernel.event.pid].append((kernel, match))
            if id(match) not in words:
                words[id(match)] = f"{json.dumps(MEMBER)}: {json.dumps(_arguments(match))}"
            yield _in_arguments(event, first, words[id(match)])
    if kernels:
        end = _address(events[-1]) + len(events[-1]) - first
        yield end, end, "".join(f",\n{json.dumps(counter)}" for counter in _counters(kernels))
    if members:
        end = text.rindex(b"}")
        yield end, end, f", {json.dumps(MEMBER)}: {json.dumps({'schema': SCHEMA, 'version': __version__})}"


def _address(text: bytes | Raw) -> int:
    """Where a text lies in memory: a value lies within the text that it was read from."""
    return int(np.frombuffer(text, np.uint8).__array_interface__["data"][0])


def _in_arguments(event: Raw, first: int, added: str) -> Edit:
    """The edit that adds a member to the arguments of an event."""
    members = OBJECT.decode(event)
    place = members.get("args", event)
    end = _address(place) + len(place) - first
    if place is event:
        return end - 1, end - 1, f', "args": {{{added}}}'
    if not bytes(place).startswith(b"{"):
        return end - len(place), end, f"{{{added}}}"
    return end - 1, end - 1, f", {added}" if OBJECT.decode(place) else added


def _arguments(match: LaunchMatch) -> dict[str, Any]:
    outcome = {"match": match.outcome}
    if match.profiled is None:
        return {**outcome, "account": "none", **({"why": match.note} if match.note else {})}
    more = {"repeats": match.repeats if match.repeats > 1 else None, "differs": match.note or None}
    return {**outcome, **account_words(match.profiled), **{key: value for key, value in more.items() if value}}


def account_words(profiled: ProfiledLaunch) -> dict[str, Any]:
    """The account of a launch in few members, percent of its elapsed cycles: cause, share of each
    part, tensor busy, first change with its gain, where, address, and its page in the dashboard."""
    verdict, launch = profiled.verdict, profiled.launch
    try:
        answer = brief(launch, verdict, profiled.ablation) if launch else {}
    except CONTRADICTIONS:  # impossible values: the verdict is still known
        answer = {"launch": verdict.address, "verdict": verdict.cause, "account_pct": verdict.account or {}}
    first: dict[str, Any] = next(iter(answer.get("changes", [])), {})
    tensor = verdict.tensor_elapsed_pct
    return {
        **{name: answer[key] for name, key in _OF_VERDICT.items() if key in answer},
        **{name: first[key] for name, key in _OF_CHANGE.items() if key in first},
        **({"where": answer["where"][0]} if answer.get("where") else {}),
        **({"tensor_busy_pct": round(tensor, 1)} if tensor is not None else {}),
        "account_pct": answer.get("account_pct", {}),
        **({"profiled_us": answer["time_us"]} if "time_us" in answer else {}),
        **({"doubts": answer["doubts"]} if "doubts" in answer else {}),
        **({"page": f"{DASHBOARD}/kernel/{launch.report.key}/{launch.number}"} if launch else {}),
    }


def _counters(by_process: Mapping[Any, Sequence[tuple[TracedKernel, LaunchMatch]]]) -> Iterator[dict[str, Any]]:
    """Events that draw the accounts over time, for each process that ran kernels: the mean of those
    of the kernels that run. They sum to 100, or to 0 where nothing runs."""
    accounts = {id(match): _account(match) for own in by_process.values() for _, match in own}
    occurring = {part for account in accounts.values() for part, pct in account.items() if pct > 0}
    parts = [part for part in (*PARTS, UNKNOWN) if part in occurring]
    labels = [PARTS[part].label if part in PARTS else UNKNOWN for part in parts]
    for process, own in by_process.items():
        start = np.array([kernel.event.ts for kernel, _ in own])
        end = start + np.array([kernel.event.dur for kernel, _ in own])
        table = {key: np.array([account.get(part, 0.0) for part in parts]) for key, account in accounts.items()}
        times, total = running(start, end, np.array([table[id(match)] for _, match in own]))
        _, count = running(start, end)
        rows = np.round(total / np.maximum(count, 1.0)[:, None], 1) + 0.0  # no negative zeros
        changed = np.append(True, (np.abs(np.diff(rows, axis=0)) >= _STEP_PCT).any(axis=1))[: len(rows)]
        for time, row in zip(times[changed].tolist(), rows[changed].tolist(), strict=True):
            values = dict(zip(labels, row, strict=True))
            yield {"ph": "C", "name": COUNTER, "pid": process, "tid": 0, "ts": time, "args": values}


def _account(match: LaunchMatch) -> Mapping[str, float]:
    return (match.profiled.verdict.account if match.profiled else None) or {UNKNOWN: 100.0}
