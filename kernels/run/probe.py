"""One trace of a kernel of the catalog: built with the probe and without, timed in turns, recorded,
and verified."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.build import HEADERS, PROBED, includes, source_files
from ncubble.kernels.run.bench import microseconds, queue_launches
from ncubble.kernels.run.device import Gpu, Kernel, call_driver
from ncubble.kernels.run.launch import facts, prepare
from ncubble.kernels.run.session import KernelRequest
from ncubble.kernels.run.verify import Verification, draw_inputs, fresh_seed, verify
from ncubble.kernels.spec.case import Case, make_case

HEADER = HEADERS / "bubble_probe.cuh"
SYMBOL = "bubble_probe_config"
MAGIC = b"bubbles2"
MOST_SMS = 512
WARP_B, MARK_B = 64, 8
_CONFIG = struct.Struct(f"<QQQII?7x{MOST_SMS // 64}Q")
_MOST_B = 1 << 30
"""Maximum device memory: slots beyond it are omitted, and their warps are counted."""
_TABLE = re.compile(r"^\s*#\s*define BUBBLE_((?:OWN_)?(?:TAGS|ROLES))\(X\)((?:.*\\\n)*.*)", re.MULTILINE)


def table(which: str, sources: Sequence[Path] = ()) -> tuple[str, ...]:
    """The names of ``TAGS`` or ``ROLES``: the header's, then the own ones that ``sources`` define.

    A name's place is its number; 0 is nobody's.
    """
    names = [""]
    for kind, path in ((which, HEADER), *((f"OWN_{which}", path) for path in sources)):
        for defined, body in _TABLE.findall(path.read_text(encoding="utf-8", errors="replace")):
            names += re.findall(r"\bX\((\w+)\)", body) if defined == kind else []
    return tuple(names)


def carries_probe(case: Case) -> bool:
    """Whether the source of ``case`` includes the probe."""
    return includes(case, HEADER)


def require_probe(case: Case) -> None:
    """Raises UsageError where ``case`` has no probe that could be switched on."""
    if not carries_probe(case):
        from ncubble.kernels.catalog.registry import SPECS

        message = f"{case.spec.name} has no probe: its source does not include {HEADER.name}"
        others = ", ".join(spec.name for spec in SPECS if carries_probe(make_case(spec)))
        raise UsageError(message, f"include it (docs/trace.md), or trace one of {others}")


def total_warps(case: Case, sms: int) -> int:
    """Warps of one run of ``case`` on a device of ``sms`` SMs."""
    return math.prod(case.grid_on(sms)) * -(-math.prod(case.block) // 32) * case.launches


class ProbeRecorder:
    """The buffers of a probed kernel on a GPU. ``slots`` warps of ``marks`` marks each, the last of
    which stands for what did not fit. ``sources`` are the kernel's, for its own tags and roles.

    Where every SM is recorded in one launch, and ``slots`` were asked for all its warps, a warp's
    slot is its number in the grid (``numbered``): taking turns at a counter costs every CTA a round
    trip to L2. Elsewhere they take turns.
    """

    def __init__(
        self, gpu: Gpu, kernel: Kernel, slots: int, marks: int, sources: Sequence[Path] = (), launches: int = 1
    ) -> None:
        if not 2 <= marks <= 1 << 20:
            raise UsageError(f"--events {marks - 1} is out of range", f"use 1 to {(1 << 20) - 1}")
        most = max(1, _MOST_B // (MARK_B * marks))
        self.gpu, self.marks, self.sources = gpu, marks, sources
        self.slots, self.numbered = max(1, min(slots, most)), False
        self._room = slots <= most and launches == 1
        self._symbol, size = gpu.symbol(kernel, SYMBOL)
        if size != _CONFIG.size:
            raise MeasurementError(f"{SYMBOL} has {size} bytes, not {_CONFIG.size}", "build the kernel again")
        self._sizes = (self.slots * marks * MARK_B, self.slots * WARP_B, 4)
        warps, started = (gpu.allocate(size) for size in self._sizes[1:])
        self._pointers = self._marks_pointer(), warps, started

    def _marks_pointer(self) -> int:
        """Memory for the marks within 4 GB from a multiple of 4 GB, as the header demands: of two
        buffers of up to 1 GB one lies so."""
        for _ in range(2):
            pointer = self.gpu.allocate(self._sizes[0])
            if pointer >> 32 == pointer + self._sizes[0] - 1 >> 32:
                return pointer
        raise MeasurementError("no memory for the probe within the header's limits", "record fewer events: --events")

    def aim(self, sms: range, numbered: bool = True) -> None:
        """Records warps that start on these SMs from now on, ``numbered`` where that is possible;
        waits for the stream first."""
        self.numbered = numbered and self._room and len(sms) >= self.gpu.facts.sm_count
        words = [0] * (MOST_SMS // 64)
        for sm in sms:
            words[sm // 64] |= 1 << sm % 64
        self.gpu.sync()
        config = _CONFIG.pack(*self._pointers, self.slots, self.marks, self.numbered, *words)
        self.gpu.upload(self._symbol, np.frombuffer(config, dtype=np.uint8))

    def rewind(self) -> None:
        """Gives back all slots, in stream order."""
        self.gpu.fill(self._pointers[2], 0, 4)

    def clear(self) -> None:
        """Forgets all that was recorded, in stream order."""
        for pointer, size in zip(self._pointers, self._sizes, strict=True):
            self.gpu.fill(pointer, 0, size)

    def started(self) -> int:
        """Warps that asked for a slot since ``rewind``; waits for the stream."""
        count = np.zeros(1, dtype=np.uint32)
        self.gpu.download(self._pointers[2], count)
        return int(count[0])

    def apart(self) -> bool:
        """Whether every warp that was recorded since ``clear`` has a slot to itself; waits for the
        stream.

        Not so where a warp makes two probes and slots are numbered: the later one then writes over
        the earlier.
        """
        if not self.numbered:
            return True
        return int(_written(self._warps(self.slots)).sum()) == self.started()

    def _warps(self, count: int) -> NDArray[np.uint8]:
        """What the first ``count`` slots hold of their warps."""
        warps = np.zeros((count, WARP_B), dtype=np.uint8)
        if count:
            self.gpu.download(self._pointers[1], warps)
        return warps

    def release(self) -> None:
        """Frees the buffers, after all work on the stream: the probe must be aimed by another
        recorder from then on."""
        self.gpu.sync()
        self.gpu.free(*self._pointers)

    def dump(self) -> bytes:
        """What was recorded since ``clear``, in the format of the header's own host part."""
        started = self.started()
        used = self.slots if self.numbered else min(started, self.slots)
        warps, marks = self._warps(used), np.zeros((used, self.marks * MARK_B), dtype=np.uint8)
        if used:
            self.gpu.download(self._pointers[0], marks)
        if self.numbered:
            written = _written(warps)
            warps, marks = warps[written], marks[written]
        header = {
            "slots": self.slots,
            "marks": self.marks,
            "started": started,
            "warps": len(warps),
            "sms": self.gpu.facts.sm_count,
            "tags": table("TAGS", self.sources),
            "roles": table("ROLES", self.sources),
            "device": self.gpu.facts.name,
        }
        text = json.dumps(header).encode()
        return b"%s%08d%s" % (MAGIC, len(text), text) + warps.tobytes() + marks.tobytes()


def _written(warps: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which slots a warp has introduced itself to: its first field, ``begin_ns``, is not 0."""
    return np.asarray(warps[:, :8].any(axis=1))


@dataclass(frozen=True)
class Cost:
    """Median times in µs of a launch: without the probe, with it while no SM is recorded, and while
    every SM is.

    The ratios are medians over rounds, ``_low`` and ``_high`` their range; ``chosen_pct`` is that
    with the ``sms`` SMs recorded that the trace records. ``kept_pct``: warps that found a slot.
    """

    off_us: float
    idle_us: float
    on_us: float
    idle_pct: float
    chosen_pct: float
    sms: int
    on_pct: float
    on_low_pct: float
    on_high_pct: float
    rounds: int
    kept_pct: float


def measure_cost(
    gpu: Gpu, off: Callable[[], None], on: Callable[[], None], recorder: ProbeRecorder, sms: int = 1, rounds: int = 10
) -> Cost:
    """What the probe costs: four builds or states of a kernel in turns, each launch behind a clear
    of L2."""
    states = ((off, 0), (on, 0), (on, sms), (on, MOST_SMS))
    sides: list[list[float]] = [[] for _ in states]
    size = 4 * gpu.facts.l2_bytes
    scratch = gpu.allocate(size)

    def before() -> None:
        gpu.fill(scratch, 0, size)
        recorder.rewind()

    for turn in range(rounds + 1):
        for side, (run, recorded) in enumerate(states):
            recorder.aim(range(recorded))
            for _ in range(4):
                before()
            spans = queue_launches(gpu, run, before, 10)
            gpu.sync()
            if turn:  # the first round warms up
                sides[side].append(float(np.median(microseconds(spans))))
    offs, idles, chosen, ons = (np.array(side) for side in sides)
    slower = {name: 100.0 * (side / offs - 1.0) for name, side in (("idle", idles), ("chosen", chosen), ("on", ons))}
    return Cost(
        off_us=float(np.median(offs)),
        idle_us=float(np.median(idles)),
        on_us=float(np.median(ons)),
        idle_pct=float(np.median(slower["idle"])),
        chosen_pct=float(np.median(slower["chosen"])),
        sms=sms,
        on_pct=float(np.median(slower["on"])),
        on_low_pct=float(slower["on"].min()),
        on_high_pct=float(slower["on"].max()),
        rounds=rounds,
        kept_pct=100.0 if recorder.numbered else 100.0 * min(1.0, recorder.slots / max(recorder.started(), 1)),
    )


@dataclass(frozen=True)
class TraceOptions:
    """What is recorded: warps that start on the first ``sms`` SMs, ``marks`` marks each. ``cost``:
    measure it."""

    sms: int = 1
    marks: int = 2048
    cost: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.sms <= MOST_SMS:
            raise UsageError(f"--sms {self.sms} is out of range", f"use 1 to {MOST_SMS}")


@dataclass(frozen=True)
class Traced:
    """What came of a trace. ``dump`` as ``ProbeRecorder.dump``; ``registers`` with the probe."""

    case: Case
    seed: int
    facts: dict[str, Any]
    registers: int
    spill_B: int | None  # noqa: N815 - as in the facts
    dump: bytes
    cost: Cost | None
    verification: Verification | None

    def to_json(self) -> dict[str, Any]:
        """All but the dump, JSON-ready."""
        checked = self.verification
        return {
            **self.facts,
            "seed": self.seed,
            "probe": {"registers": self.registers, "spill_B": self.spill_B},
            "cost": asdict(self.cost) if self.cost else None,
            "verification": checked.to_json() if checked else None,
        }


def trace(request: KernelRequest, options: TraceOptions, open_gpu: Callable[[], Gpu] = Gpu.open) -> Traced:
    """Runs the kernel of ``request`` with the probe on: built with and without, timed in turns,
    recorded, and verified. Raises UsageError and MeasurementError as ``execute`` does."""
    case = request.case()
    require_probe(case)
    with closing(open_gpu()) as gpu:
        return _trace(request, options, case, gpu)


def _trace(request: KernelRequest, options: TraceOptions, case: Case, gpu: Gpu) -> Traced:
    seed = request.seed if request.seed is not None else fresh_seed()
    plain = prepare(case, gpu)
    case = plain.case  # with the defaults of this GPU
    probed = prepare(case, gpu, PROBED, plain.pointers)  # over the same arrays, but for programs on the host
    inputs = draw_inputs(case, seed)
    plain.upload(inputs)
    if probed.program is not None:  # it has arrays of its own, and is warmed up, as its pool grows at first
        probed.upload(inputs)
        probed.run()
    warps, sources = total_warps(case, gpu.facts.sm_count), source_files(case.spec.path)
    recorder = ProbeRecorder(gpu, probed.kernel, warps, options.marks + 1, sources, case.launches)
    cost = measure_cost(gpu, plain.run, probed.run, recorder, options.sms) if options.cost else None
    for numbered in (True, False):  # once more, in turns, if warps wrote several probes
        probed.poison()
        recorder.clear()
        recorder.aim(range(options.sms), numbered)
        gpu.sync()
        call_driver("cuProfilerStart")  # the run is the only thing that `ncubble streams` counts
        probed.run()
        clocks = gpu.clocks()
        gpu.sync()
        call_driver("cuProfilerStop")
        if recorder.apart():
            break
        warps = recorder.started()
        recorder.release()
        recorder = ProbeRecorder(gpu, probed.kernel, warps, options.marks + 1, sources, case.launches)
    checked = None
    if case.unverified is None:
        outputs, overrun = probed.outputs()
        checked = verify(case, inputs, outputs, seed, overrun)
    registers, spilled = probed.build.registers, probed.build.spill_B
    return Traced(case, seed, facts(plain, clocks), registers, spilled, recorder.dump(), cost, checked)
