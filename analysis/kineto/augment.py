"""A Kineto trace with the accounts of profiled launches: arguments of its kernels, and counters
over time. Everything else in the file stays as it was written."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ncubble import __version__
from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.kineto.counters import UNKNOWN, over_time, shares
from ncubble.analysis.kineto.kernels import KernelSlice, TracedLaunch, device_names, kernel_slice
from ncubble.analysis.kineto.matching import AccountedLaunch, LaunchMatch, Matcher
from ncubble.analysis.program.json_text import REMEDY, JsonCopy, reading, with_member, writing
from ncubble.errors import ReportError, UsageError
from ncubble.store import draft_of

SCHEMA = 1
MEMBER = "ncubble"
"""Name of the added member, in the arguments of kernels and in the trace."""
COUNTER = "ncubble %"
EVENTS, DEVICES = "traceEvents", "deviceProperties"


@dataclass
class TracedKernels:
    """Slices that share what they are matched by and what they are matched with: how the name is
    written, how many there are, and their time in the trace."""

    launch: TracedLaunch
    written: str
    match: LaunchMatch
    words: str
    count: int = 0
    time_us: float = 0.0


@dataclass
class Augmented:
    """What was done: kernels in order of their first slice."""

    kernels: dict[tuple[TracedLaunch, int], TracedKernels] = field(default_factory=dict)
    devices: dict[int, str] = field(default_factory=dict)

    @property
    def time_us(self) -> float:
        """Time of all kernels."""
        return sum(kernels.time_us for kernels in self.kernels.values())

    @property
    def matched(self) -> int:
        """Slices with a launch."""
        return sum(kernels.count for kernels in self.kernels.values() if kernels.match.profiled)

    def by_time(self) -> list[TracedKernels]:
        """Those with most time first."""
        return sorted(self.kernels.values(), key=lambda kernels: -kernels.time_us)

    def outcomes(self) -> dict[str, tuple[int, float]]:
        """Slices and their time in µs by outcome."""
        found: dict[str, tuple[int, float]] = {}
        for kernels in self.kernels.values():
            count, time = found.get(kernels.match.outcome, (0, 0.0))
            found[kernels.match.outcome] = count + kernels.count, time + kernels.time_us
        return found


Words = Callable[[AccountedLaunch], dict[str, Any]]
"""Members of a launch that are written into the arguments of its kernels."""


def augment(trace: Path, out: Path, matcher: Matcher, words: Words) -> Augmented:
    """Write ``trace`` with accounts to ``out``, whole or not at all; packed where that ends in
    ``.gz``.

    Raises ReportError for a trace that is none or has no kernels, UsageError for one that was
    augmented before, OSError where a file cannot be opened or written.
    """
    with reading(trace) as source, draft_of(out, shared=True) as draft, writing(draft, out.suffix == ".gz") as sink:
        done = _Augmenting(JsonCopy(source, sink.write, str(trace)), sink, matcher, words).run()
        if not done.kernels:
            raise ReportError(
                f"{trace}: no kernels in it", "record with ProfilerActivity.CUDA, in a program that uses the GPU"
            )
    return done


class _Augmenting:
    """One trace on its way from file to file."""

    def __init__(self, text: JsonCopy, sink: TextIO, matcher: Matcher, words: Words) -> None:
        self._text, self._sink, self._matcher, self._words = text, sink, matcher, words
        self._done = Augmented()
        self._slices: dict[Any, _Slices] = {}
        self._accounts: list[AccountedLaunch | None] = [None]
        self._places: dict[int, int] = {}

    def run(self) -> Augmented:
        """Copies the trace; the text after it must be blank."""
        if self._text.peek() == "[":
            self._events()
        elif self._text.peek() == "{":
            self._whole()
        else:
            self._text.take("{")
        if self._text.peek():
            raise ReportError(f"{self._text.origin}: unexpected text after the trace", REMEDY)
        return self._done

    def _whole(self) -> None:
        found = False
        for name in self._text.members():
            if name == MEMBER:
                raise UsageError(f"{self._text.origin}: already augmented", "augment the original trace")
            if name == EVENTS:
                if found:  # viewers read only one of them, and differ in which
                    raise ReportError(f"{self._text.origin}: has {EVENTS} twice", REMEDY)
                found = True
                self._events()
                continue
            value, text = self._text.value()
            self._sink.write(text)
            if name == DEVICES:
                self._done.devices = device_names(value)
        if not found:
            raise ReportError(f"{self._text.origin}: has no {EVENTS}", REMEDY)
        made = {"schema": SCHEMA, "version": __version__, "kernels": self._done.outcomes()}
        self._sink.write(f", {json.dumps(MEMBER)}: {json.dumps(made)}")
        self._text.take("}")

    def _events(self) -> None:
        some = False
        for _ in self._text.elements():
            some = True
            event, text = self._text.value()
            kernel = kernel_slice(event, self._done.devices)
            self._sink.write(self._with_account(kernel, event, text) if kernel else text)
        for counter in self._counters():
            self._sink.write((",\n" if some else "\n") + json.dumps(counter))
            some = True
        self._text.take("]")

    def _with_account(self, kernel: KernelSlice, event: dict[str, Any], text: str) -> str:
        """The text of a kernel with what is known of it."""
        if isinstance(event.get("args"), dict) and MEMBER in event["args"]:
            raise UsageError(f"{self._text.origin}: already augmented", "augment the original trace")
        match = self._matcher.find(kernel.launch, kernel.time_us)
        key = kernel.launch, id(match)
        kernels = self._done.kernels.get(key)
        if kernels is None:
            words = json.dumps(self._arguments(match))
            kernels = self._done.kernels[key] = TracedKernels(kernel.launch, kernel.written, match, words)
        kernels.count += 1
        kernels.time_us += kernel.time_us
        self._slices.setdefault(kernel.process, _Slices()).add(kernel, self._place(match.profiled))
        return with_member(text, "args", MEMBER, kernels.words)

    def _arguments(self, match: LaunchMatch) -> dict[str, Any]:
        outcome = {"match": match.outcome}
        if match.profiled is None:
            return {**outcome, "account": "none", **({"why": match.note} if match.note else {})}
        more = {"repeats": match.repeats if match.repeats > 1 else None, "differs": match.note or None}
        return {**outcome, **self._words(match.profiled), **{key: value for key, value in more.items() if value}}

    def _place(self, profiled: AccountedLaunch | None) -> int:
        """The row of a launch's account; 0 where there is none."""
        if profiled is None:
            return 0
        if id(profiled) not in self._places:
            self._places[id(profiled)] = len(self._accounts)
            self._accounts.append(profiled)
        return self._places[id(profiled)]

    def _counters(self) -> Iterator[dict[str, Any]]:
        """Events that draw the accounts over time, for each process that ran kernels."""
        parts, table = shares([one.verdict.account if one else None for one in self._accounts])
        labels = [PARTS[part].label if part in PARTS else UNKNOWN for part in parts]
        for process, slices in self._slices.items():
            for time, row in zip(*over_time(*slices.arrays(), table), strict=True):
                values = dict(zip(labels, np.round(row, 1).tolist(), strict=True))
                yield {"ph": "C", "name": COUNTER, "pid": process, "tid": 0, "ts": float(time), "args": values}


class _Slices:
    """Times and accounts of the kernels of one process."""

    def __init__(self) -> None:
        self._starts, self._ends, self._accounts = array("d"), array("d"), array("q")

    def add(self, kernel: KernelSlice, account: int) -> None:
        self._starts.append(kernel.start_us)
        self._ends.append(kernel.start_us + kernel.time_us)
        self._accounts.append(account)

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.array(self._starts), np.array(self._ends), np.array(self._accounts)
