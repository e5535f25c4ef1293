"""Changes of one launch, predicted from its report.

Each rule looks at one thing that can be altered, and says what altering it gains: the best depth by
simulation (``analysis/model``), a larger tile by the bytes that it saves, more warps where
registers spill, and what removes a whole part of the account (``removals.py``: conflicts of banks,
uncoalesced accesses) by that part. No gain exceeds what is left until DRAM or L2 is full. The
rules, with their constants, were chosen on the learning side of the changes that
``benchmarks/changes`` measured (docs/changes.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.evidence import Evidence, evidence
from ncubble.analysis.account.parts import OUTCOMES, STEADY
from ncubble.analysis.changes.change import BYTES, LEAST_PCT, NONE, PREDICTED, TRITON, UNKNOWN, Change, Gain, gain_of
from ncubble.analysis.changes.offered import Offered, offered_by
from ncubble.analysis.diagnosis.removals import OVERFETCH, SPILLS_PCT, UNTRIED_PCT, VECTOR_B, removals_of
from ncubble.analysis.diagnosis.tiles import MOST_REGISTERS, Tile, exponentials, narrow, tile_of
from ncubble.analysis.diagnosis.verdict import IN_ACCOUNT, MERGE
from ncubble.analysis.diagnosis.waste import waste_of
from ncubble.analysis.model.pipeline import Pipeline, Unidentified, pipeline_of
from ncubble.analysis.model.predict import predict
from ncubble.analysis.report.report import Launch
from ncubble.sass.opcodes import width_bytes
from ncubble.sass.slices import chained, loaded_at_once

DEEPEST, DEEPEST_TRITON = 8, 6
NEAR_PCT = 1.0
"""Of depths whose gain is within this of the best one's, the shallowest is named."""
FIRST_RING = 3
"""Stages for a loop that has no ring yet: one tile is used, two are on their way."""
ROOF = {"dram": 92.0, "l2": 70.0}
"""Busy percent that DRAM and L2 reach (``pipeline.REACHED``)."""
ROW_B = 128
"""Bytes of k that a swizzled row of shared memory has."""
MANY_SPILLS_PCT = 8.0
"""Percent of executed instructions of local memory from which on registers spill in the loop."""
FEW_GAIN, MANY_GAIN, PER_SPILL, MOST_GAIN = 20.0, 45.0, 0.65, 90.0
"""Gain in percent of time where few spill, and where many do: with what is added for each percent
of spilled instructions, and at most."""
WAVES, MISSED, GROUP = 1.8, 0.12, 8
"""An order of CTAs matters from so many waves on, where DRAM is read for so much of what reaches
SMs; the height of the groups of tiles that is worth a try."""
CROWDED = 4
"""CTAs of an SM from which on no gain of depths is predicted."""
FEW_WARPS, MOST_WARPS = 4, 16
LEFT_PCT, NARROW_PCT, NARROW = 12.0, 65.0, 0.7
"""What DRAM must have left for vectors and rows to matter, in percent; its busy percent below which
loads of less than half a vector hold a kernel up; the share of what is left that wider loads
gain."""
ASYNC_B = 4
"""Bytes that a thread copies with cp.async at once, at least."""
AGAIN, ROW_WARPS = 1.25, 8
"""Bytes that reach SMs for each from DRAM, from which on rows are read again; warps of a row."""
EXCHANGES = ("SHFL", "STS", "LDS", "BAR")
BUSY_PCT, EXCHANGED, EXCHANGING = 60.0, 0.15, 0.8
"""Busy percent of the LSU, and share of instructions, from which on exchanges between warps hold a
kernel up; the share of the LSU's time that they take."""
HALF_FULL, MORE_CTAS = 0.55, 0.5
"""Waves, or CTAs for each SM, of a grid that fills half of the GPU or less; the share of waits that
twice as many CTAs hide."""
SHORT_CTA, FILLED = 200.0, 0.6
"""Cycles between the CTAs that an SM starts, and share of the warps that it can hold, below which
starting them takes the time: 80 to 147 in 17 launches of public reports, all elementwise kernels
and no others."""
MOST_PARTS, LEAST_STEPS, REDUCED_NS = 4, 4, 6_500.0
"""CTAs among which k is divided, at most; steps that each keeps, at least; what adding up the sums
of one takes, in CUTLASS's stream-K on an H100."""
WORKING_PCT = 12.0
"""Busy percent of tensor cores below which another instruction of theirs gains nothing."""
TINY_NS = 5_000.0
"""Launches shorter than this are mostly launch latency (an empty kernel takes 2 to 3 µs)."""
LAUNCHING_PCT = 50.0
"""Percent of kernel time in which no SM has a CTA, from which on a launch is mostly latency."""
LONG_NS = 100_000.0
"""A single warp that runs so long has work to share out; one that prints a line takes 35 µs."""
SATURATED_PCT = 90.0
LESS_LSU = (
    "reduce requests to L1 and shared memory, whose unit is full: keep reused values in registers, exchange them by "
    "shuffles, read 16 bytes per thread at once"
)
ANOTHER_KERNEL = 1.5
"""Factor by which the gain of another MMA path must exceed what can be had without."""
ISSUING_PCT = 35.0
"""Waits for issue slots from which on depths and tiles do not tell what a product gains."""
NEARLY_PCT = 75.0
"""Busy percent of a unit from which on what is left of it is not worth a search."""
OPEN_PCT = 15.0
"""A part of so much is not as good as it gets, though nothing says what its change gains."""
VAGUE = ("registers", "epilogue")
"""What usually helps waits of arithmetic and stores; no counter says that it helps here."""
MOSTLY_UNSPLIT_PCT = 50.0
"""Idle time that nothing splits, from which on a smaller part is not what to look at first."""
FULL_PCT = 80.0
MOVED = {"copy_cost": 1.0, "data_wait": 0.7, "sync_wait": 0.5, "smem_wait": 0.5}
"""Shares of parts that bytes per product explain."""
CONVERTED = 0.4
"""Share of the part ``issue`` of a kernel that converts operands, which twice the rows halve."""
PER_STEP, PER_NARROW_STEP, NARROW_TILE = 0.5, 0.3, 64
"""Share of what an iteration costs beside products that half as many of them save; of a tile with
so few rows or columns, which waits for operands rather than at each step."""
DEPTH, SHARED, TILE, ROWS = 0.9, 0.5, 1.6, 1.2
"""Factors that make predictions right on average: of depths, of depths where many CTAs share an SM,
of tiles, and of warps of rows."""
TO_WGMMA, FEWER_WARPS = 40.0, 30.0
"""Gain of a tile that wgmma can work on, and of half the warps for 32 rows of attention, in
percent: medians of those that were measured."""
INTERVALS, MARGIN_PCT = {"stages": (0.1, 1.3), "warps": (0.45, 1.4), "tile": (0.2, 1.5), "ctas": (0.4, 1.6)}, 4.0
"""Bounds of 80 % of measured gains, relative to the predicted one, and what is added on either
side."""


@dataclass(frozen=True)
class Subject:
    """What the rules look at. ``triton``: written in Triton, which builds its loop. ``registers``
    of a thread. ``parameters``: names of the parameters of a catalog kernel or your own.
    ``offered``: what a launch of a Triton kernel may choose, where the report has its source."""

    found: Evidence
    account: BubbleAccount
    now: Pipeline | None
    tile: Tile | None
    triton: bool
    registers: float
    parameters: frozenset[str] = frozenset()
    offered: Offered | None = None

    def offers(self, kind: str) -> bool:
        """Whether nothing is known against a change of a kind: that a Triton kernel has no constant
        for it, or no loop."""
        if self.offered is None or kind not in TRITON or kind == "warps":
            return True
        return self.offered.loops if kind == "stages" else kind in self.offered.names

    def name_of(self, kind: str) -> str:
        """What a kind is called in this kernel; empty where it has no name of its own."""
        if not self.triton:
            return kind if kind in self.parameters else ""
        return (self.offered.names.get(kind) if self.offered else None) or TRITON.get(kind, "")

    def pct(self, part: str) -> float:
        """Percent of kernel time of a part."""
        return self.account.parts.get(part, 0.0)

    def gain(self, pct: float) -> float:
        """What the removal of so many percent gains."""
        return gain_of(pct, 100.0 - self.account.busy_pct).expected

    def has_registers(self, times: float) -> bool:
        """Whether a thread that does so many times as much still has registers for it."""
        return times * self.registers <= MOST_REGISTERS

    @property
    def spills(self) -> bool:
        """Whether so many registers spill that it costs time."""
        return self.found.spilled_pct >= SPILLS_PCT

    @property
    def spill_gain(self) -> float:
        """What it gains that they stay."""
        spilled = self.found.spilled_pct
        return min(MOST_GAIN, MANY_GAIN + PER_SPILL * spilled) if spilled >= MANY_SPILLS_PCT else FEW_GAIN

    @property
    def without_wgmma(self) -> bool:
        """Whether tensor cores that have wgmma run mma.sync, and enough of it to matter. Of TF32
        they do so at any tile, where an operand's rows are not rows of k."""
        tf32 = any("TF32" in opcode for opcode in self.found.opcodes)
        wgmma = self.found.slow_path and self.found.chip is not None and self.found.chip.fast_mma == "wgmma"
        return wgmma and not self.found.bulk and not tf32 and self.account.busy_pct >= WORKING_PCT

    @property
    def converts(self) -> bool:
        """Whether operands are converted between load and product, which goes through registers at
        any depth."""
        return self.found.conversions >= self.found.products > 0

    @property
    def unaligned(self) -> bool:
        """Whether loads are of fewer bytes than an asynchronous copy has, so that Triton makes no
        ring of them at any depth."""
        loads = _executed(self.found, "load_global")
        return bool(loads) and max(map(width_bytes, loads)) < ASYNC_B

    @property
    def crowded(self) -> bool:
        """Whether so many CTAs share an SM that they hide each other's waits, which a change then
        moves in ways that nothing here predicts."""
        return self.now is not None and self.now.ctas >= CROWDED

    def promises(self, change: Change) -> bool:
        """Whether a change of unknown gain acts on so much that it is named before ``none``: not
        what arithmetic or stores wait for, without products."""
        vague = not self.tiled and change.kind in VAGUE
        return (
            (not self.triton or change.kind in ("ctas", "vectors")) and not vague and self.acts_on(change) >= OPEN_PCT
        )

    def acts_on(self, change: Change) -> float:
        """Percent of kernel time of the parts that a change acts on."""
        return math.fsum(self.pct(part) for part in IN_ACCOUNT.get(change.part or "", (change.part or "",)))

    def most(self, change: Change) -> float:
        """Percent of time until DRAM is full, or L2 where products get more stages."""
        apart = change.kind == "copies" and change.part == "unit_busy"
        if self.spills or apart:  # what is full may be full of spilled registers, or is of sectors nobody asked for
            return 100.0
        bounding = ["dram", *(["l2"] if self.tiled and change.kind == "stages" else [])]
        full = [self.found.shares.get(name, 0.0) / ROOF[name] for name in bounding]
        return 100.0 * (1.0 - min(1.0, max((share for share in full if share > 0), default=0.0)))

    @property
    def tiled(self) -> bool:
        """Whether tensor cores work."""
        return "mma" in self.found.roles

    @property
    def at_limit(self) -> bool:
        """Whether *none* may be said where no change is known: of products, whose depths and tiles
        are predicted, unless they mostly wait for issue slots; else where a unit is full."""
        return self.pct("issue") < ISSUING_PCT if self.tiled else self.account.busy_pct >= NEARLY_PCT


def is_triton(launch: Launch, found: Evidence) -> bool:
    """Whether a kernel was written in Triton: its lines are of Python, and its name is not mangled,
    as those of Numba are."""
    python = len(found.source) > 0 and found.source["file"].astype(str).str.endswith(".py").any()
    return bool(python) and launch.identity.demangled.isidentifier()


def changes_of(launch: Launch, account: BubbleAccount | None) -> list[Change]:
    """Changes in the order of their gain, unknown gains behind; empty without an account."""
    if account is None:
        return []
    found, pipeline = evidence(launch), pipeline_of(launch)
    now = None if isinstance(pipeline, Unidentified) else pipeline
    registers = launch.value("launch__registers_per_thread")
    triton = is_triton(launch, found)
    tile = tile_of(found, now, registers, roles=not triton) if now else None
    parameters = frozenset(launch.declared.get("parameters") or ())
    offered = offered_by(launch) if triton else None
    subject = Subject(found, account, now, tile, triton, registers, parameters, offered)
    made = [change for rule in RULES for change in rule(subject) if subject.offers(change.kind)]
    made += _removed(subject, {change.kind for change in made})
    made = [_limited(change, subject) for change in made]
    first = [change for change in made if change.known and not change.blocked and (change.gain_pct or 0.0) >= LEAST_PCT]
    rest = [change for change in made if not change.known and not change.blocked]
    blocked = [change for change in made if change.blocked and (change.gain_pct or 0.0) >= LEAST_PCT]
    first.sort(key=lambda change: -_within(change))
    if first and first[0].kind == "path":
        larger = [one for one in rest if subject.promises(one) and subject.pct(one.part or "") > _within(first[0])]
        first, rest = [*larger, *first], [one for one in rest if one not in larger]
    if (unsplit := subject.pct("idle")) >= UNTRIED_PCT:  # nothing shows that these act on any of it
        rest = [change for change in rest if change.part not in STEADY and subject.acts_on(change) >= unsplit]
        first = [] if unsplit >= MOSTLY_UNSPLIT_PCT else first
    if not first:
        if not subject.at_limit:  # what no counter shows is not named, and *none* would end the search
            rest = [change for change in rest if change.kind == "path" or subject.promises(change)]
        ordered = found.dram_pct >= FULL_PCT and any(change.kind == "cta_order" for change in rest)
        rest.sort(key=lambda change: ordered and change.kind != "cta_order")
        other = ordered or any(change.kind == "path" for change in rest)
        first = [] if other else _nothing(subject, bool(rest), bool(blocked))
        if any(change.kind == NONE for change in first) and any(map(subject.promises, rest)):
            first, rest = [], sorted(rest, key=lambda one: (not subject.promises(one), -subject.acts_on(one)))
    if found.grid * found.block <= 1.0:
        kind = "ctas" if found.duration_ns >= LONG_NS else NONE
        first = [Change(kind=kind, text="launch more threads, or leave this to the CPU: a single warp runs")]
        rest = [change for change in rest if change.kind != "ctas"]
    wasted = waste_of(found, account, launch.identity.demangled, subject.triton)
    if wasted:
        first = [change for change in first if change.kind not in (NONE, BYTES)]
    told = [*wasted, *first, *rest, *blocked]
    brief = found.duration_ns < TINY_NS or found.launching_pct >= LAUNCHING_PCT
    if brief and not any(change.kind == "build" for change in told):
        told.insert(0, Change(kind=NONE, text=MERGE))
    return [_worded(change, subject) for change in _once(told)]


def _within(change: Change) -> float:
    """The gain by which changes are ordered. Products on another path make it another kernel: what
    can be cured within this one comes first, unless it gains much less."""
    return (change.gain_pct or 0.0) / (ANOTHER_KERNEL if change.kind == "path" else 1.0)


def _once(changes: Iterable[Change]) -> list[Change]:
    """The first of each kind and value."""
    kept: dict[tuple[str, object], Change] = {}
    for change in changes:
        kept.setdefault((change.kind, change.after), change)
    return list(kept.values())


def _limited(change: Change, subject: Subject) -> Change:
    if change.gain_pct is None:
        return change
    if subject.crowded and change.kind == "stages" and not (subject.now and subject.now.plain):
        return replace(change, gain_pct=None, low=None, high=None, basis=UNKNOWN)
    gain = Gain(change.gain_pct, change.low or 0.0, change.high or change.gain_pct).at_most(subject.most(change))
    return replace(change, gain_pct=gain.expected, low=gain.low, high=gain.high)


def _predicted(
    kind: str, before: int | str | None, after: int | str | None, part: str, gain: float, **more: str
) -> Change:
    low, high = INTERVALS["tile" if kind.startswith("tile") else kind]
    return Change(
        kind=kind, before=before, after=after, part=part, gain_pct=gain, low=low * gain - MARGIN_PCT,
        high=min(95.0, high * gain + MARGIN_PCT), basis=PREDICTED, **more,
    )  # fmt: skip


def _stages(subject: Subject) -> Iterator[Change]:
    """The depth of the pipeline."""
    now, found = subject.now, subject.found
    if found.dram_pct >= FULL_PCT or subject.spills:  # more stages take registers, too
        return
    if now is None:
        if found.copies or found.bulk:
            before = found.stages
            yield Change(kind="stages", before=before, after=before + 1 if before else None, part="data_wait")
        return
    waits = subject.gain(subject.pct("data_wait"))
    if now.plain:
        narrow_ = min(map(width_bytes, _executed(found, "load_global")), default=0) < VECTOR_B
        if subject.triton and now.stages == 1 and not subject.unaligned and not (subject.converts and narrow_):
            share = SHARED if subject.crowded or subject.converts else DEPTH
            yield _predicted("stages", 1, FIRST_RING, "data_wait", share * waits)
        return
    deepest = DEEPEST_TRITON if subject.triton else DEEPEST
    deeper = {depth: predict(now, depth) for depth in range(now.stages + 1, deepest + 1)}
    gains = {depth: 100.0 * (1.0 - known.cycles / now.elapsed) for depth, known in deeper.items() if known}
    if now.stages == 1 and gains:
        yield _predicted("stages", 1, FIRST_RING, "data_wait", DEPTH * waits)
    elif gains and (best := max(gains.values())) >= LEAST_PCT:
        depth = min(depth for depth, gain in gains.items() if gain >= best - NEAR_PCT)
        yield _predicted("stages", now.stages, depth, "data_wait", DEPTH * min(gains[depth], waits))


def _warps(subject: Subject) -> Iterator[Change]:
    """The number of warps of a CTA: more where registers spill, fewer where warpgroups share rows
    of a tile; of kernels without products, see ``_streaming``."""
    found = subject.found
    if not subject.triton or not found.block > 0:
        return
    warps = int(found.block)
    if (
        subject.spills
        and found.tiled
        and (warps < FEW_WARPS or (warps == FEW_WARPS and subject.found.spilled_pct >= MANY_SPILLS_PCT))
    ):
        yield _predicted("warps", warps, max(FEW_WARPS, 2 * warps), "issue", subject.spill_gain)
    elif warps > FEW_WARPS and subject.without_wgmma and exponentials(found) and subject.has_registers(2):
        yield _predicted("warps", warps, warps // 2, "smem_wait", FEWER_WARPS)
    elif warps > FEW_WARPS and subject.now and subject.tile is None and narrow(found) and subject.has_registers(2):
        yield _predicted("warps", warps, warps // 2, "issue", TO_WGMMA)
    elif not subject.tiled:
        yield from _streaming(subject, warps)


def _streaming(subject: Subject, warps: int) -> Iterator[Change]:
    """The number of warps of a kernel without products. More, where rows that a CTA reads again
    come from L2, as too many CTAs share L1. Fewer, where threads load less than a vector at once,
    and what warps exchange fills the LSU, or DRAM is not full."""
    found, unit, left = subject.found, subject.account.unit, ROOF["dram"] - subject.found.dram_pct
    again = found.quantity("fill_bytes") / found.dram_read_B if found.dram_read_B > 0 else 0.0
    widths = [width_bytes(opcode) for opcode in _executed(found, "load_global")] or [0]
    exchanges = found.executions(*EXCHANGES) >= EXCHANGED * found.executions() > 0
    exchanging = unit == "lsu" and subject.account.busy_pct >= BUSY_PCT and exchanges
    reduces = found.executions("SHFL") > 0  # over rows, which are then read again
    if exchanging and warps > 1 and 0 < min(widths) <= VECTOR_B // 4 and subject.has_registers(4):
        yield _predicted("warps", warps, max(1, warps // 4), "unit_busy", EXCHANGING * subject.account.busy_pct)
    elif unit == "dram" and again >= AGAIN and left >= LEFT_PCT and warps < MOST_WARPS and reduces:
        yield _predicted("warps", warps, max(ROW_WARPS, 2 * warps), "data_wait", ROWS * left)
    elif unit == "dram" and left >= LEFT_PCT and _narrow(found, max(widths)) and warps > 1:
        fewer = max(1, warps * max(*widths, VECTOR_B // 4) // VECTOR_B)
        yield _predicted("warps", warps, fewer, "data_wait", NARROW * left)


def _vectors(subject: Subject) -> Iterator[Change]:
    """More bytes in flight for a kernel that streams and waits for what it loads, though DRAM has
    more to give: wider loads where threads ask for less than a vector at once, else more."""
    found, left = subject.found, ROOF["dram"] - subject.found.dram_pct
    part, waits = next(iter(subject.account.bubbles.items()), ("", 0.0))
    if subject.tiled or not left >= LEFT_PCT or part != "data_wait" or waits < OPEN_PCT:
        return
    rows = _busiest(found, "load_global")
    asked = loaded_at_once(found.code.sass, {row: width_bytes(found.opcodes[row]) for row in rows})
    if not asked > 0 or not min(found.sectors, found.fetched) < OVERFETCH:
        return
    if 2 * len(chained(found.code.sass, rows, found.code.loop)) >= len(rows):  # the next address is in what is loaded
        return
    more = (
        "several values before the first is used (which stores between them forbid, unless pointers are __restrict__)"
    )
    if subject.triton:
        text = "load more for each warp at once: a larger block, several rows of it, or fewer warps"
    elif asked < VECTOR_B:
        text = f"load {VECTOR_B} bytes per thread at once (float4), or {more}"
    else:
        text = f"load {more}"
    yield Change(kind="vectors", part="data_wait", text=f"{text}: a thread asks for {asked} bytes and waits")


def _narrow(found: Evidence, width: int) -> bool:
    """Whether loads of ``width`` bytes of a thread hold up a kernel that stores, rather than adds
    to memory."""
    stores = width > 0 and any(opcode.startswith("ST") for opcode in _executed(found, "store_global"))
    return stores and (width == VECTOR_B // 2 or (width < VECTOR_B and found.dram_pct < NARROW_PCT))


def _executed(found: Evidence, kind: str) -> list[str]:
    """Opcodes of a role, of those that were executed most often."""
    return [found.opcodes[row] for row in _busiest(found, kind)]


def _busiest(found: Evidence, kind: str) -> list[int]:
    """Rows of the code with a role that were executed most often."""
    made = np.where(np.array(found.roles) == kind, found.executed, 0.0)
    return np.flatnonzero(made == made.max()).tolist() if made.any() else []


def _tiles(subject: Subject) -> Iterator[Change]:
    """Tiles that wgmma can work on, whose results fit the registers, and that move fewer bytes for
    a product."""
    found, tile = subject.found, subject.tile
    if (not subject.triton and tile is None) or not found.tiled or not found.block > 0:
        return
    warps = int(found.block)
    if subject.spills:
        if subject.triton and (warps > FEW_WARPS or (warps == FEW_WARPS and found.spilled_pct < MANY_SPILLS_PCT)):
            yield _predicted("tile_m", None, "half", "issue", subject.spill_gain)
        return
    if not subject.tiled:
        return
    if subject.without_wgmma and not (warps > FEW_WARPS and exponentials(found)) and subject.has_registers(1.5):
        if warps >= FEW_WARPS:
            yield _predicted("tile_m", None, "twice", "slow_path", TO_WGMMA)
        else:  # a warpgroup is lacking, or rows are, and the report does not say which
            yield Change(kind="tile_m", after="twice", part="slow_path")
    if tile is None or (subject.now and subject.now.plain and subject.unaligned):
        return
    moved = sum(share * subject.pct(part) for part, share in MOVED.items())
    grown: list[Change] = []
    sides = (("tile_n", tile.n), ("tile_m", tile.m))
    for kind, size in sides[1:] if tile.converted else sides:  # conversions are of weights: rows use them again
        larger = tile.doubled("tile_n" if tile.converted and tile.turned and tile.n < tile.m else kind)
        if max(larger.m, larger.n) > 256:
            continue
        gain = TILE * subject.gain(moved * (1.0 - larger.bytes_per_flop / tile.bytes_per_flop))
        if tile.converted and kind == "tile_m":
            gain += subject.gain(CONVERTED * subject.pct("issue"))
        before, after = (None, "twice") if tile.converted or tile.turned else (size, 2 * size)
        grown.append(_predicted(kind, before, after, "copy_cost", gain, blocked=larger.blocked(tile, found)))
    free = [change for change in grown if not change.blocked] or grown
    yield from sorted(free, key=lambda change: -(change.gain_pct or 0.0))[:1]
    if tile.row_B < ROW_B and not tile.converted:
        larger = tile.doubled("tile_k")
        cost = sum(subject.pct(part) for part in ("copy_cost", "sync_wait", "issue", "data_wait"))
        size = round(tile.k)
        share = PER_NARROW_STEP if min(tile.m, tile.n) <= NARROW_TILE else PER_STEP
        yield _predicted("tile_k", size, 2 * size, "sync_wait", share * cost, blocked=larger.blocked(tile, found))


def _order(subject: Subject) -> Iterator[Change]:
    """The order of CTAs, where those that run at once read more from DRAM than L2 could hold for
    them."""
    found = subject.found
    missed = found.dram_read_B / fill if (fill := found.quantity("fill_bytes")) > 0 else 0.0
    if subject.tiled and found.waves >= WAVES and missed >= MISSED:
        yield Change(kind="cta_order", after=GROUP, part="data_wait")


def _ctas(subject: Subject) -> Iterator[Change]:
    """The number of CTAs: of a grid that a launch chooses, where twice as many run at once; smaller
    tiles, where there are fewer CTAs than half of the SMs."""
    found = subject.found
    if subject.spills:
        return
    if not subject.triton:
        yield from _divided(subject)
        yield from _untiled_ctas(subject)
    elif subject.offered is None:
        return
    elif "ctas" in subject.offered.names and found.waves <= HALF_FULL:
        waits = sum(subject.pct(part) for part in ("data_wait", "issue", "sync_wait", "smem_wait", "copy_cost"))
        yield _predicted("ctas", None, "twice", "data_wait", MORE_CTAS * waits)
    elif found.grid <= HALF_FULL * found.sms:
        yield _predicted("tile_m", None, "half", "no_cta", subject.pct("tail") + subject.pct("no_cta"))


def _untiled_ctas(subject: Subject) -> Iterator[Change]:
    """Of kernels without products: a grid too small to hide its waits, or of CTAs that end before
    their SM is full."""
    found, part = subject.found, next(iter(subject.account.bubbles), "")
    every, small = found.cycles * found.sms / found.grid, found.grid >= found.sms and found.waves <= HALF_FULL
    if small and part == "data_wait":
        text = f"launch more CTAs, or more warps of each: the grid is {100.0 * found.waves:.0f} % of what SMs hold"
    elif not small and every < SHORT_CTA and found.active_warps < FILLED * found.load.resident * found.block:
        text = (
            f"let a thread do more (a loop over the grid): an SM starts a CTA every {every:.0f} cycles, and is not full"
        )
    else:
        return
    if not found.tiled and subject.account.busy_pct < FULL_PCT:
        yield Change(kind="ctas", part=part, text=text)


def _divided(subject: Subject) -> Iterator[Change]:
    """Products whose CTAs leave most SMs idle, divided along k among more of them."""
    found, now = subject.found, subject.now
    idle = (subject.pct("tail") + subject.pct("no_cta")) / 100.0
    if subject.tile is None or now is None or not 0.0 < idle < 1.0:
        return
    parts = min(MOST_PARTS, 2 ** round(math.log2(1.0 / (1.0 - idle))))
    if parts < 2 or now.iterations < LEAST_STEPS * parts:
        return
    added = parts * REDUCED_NS / found.duration_ns
    gain = 100.0 * (1.0 - 1.0 / parts - added)
    text = f"divide k among {parts} CTAs (split K, or stream-K), which add up their sums"
    yield replace(_predicted("ctas", None, parts, "tail", gain), text=text)


def _path(subject: Subject) -> Iterator[Change]:
    """Products that tensor cores could make."""
    if subject.found.core_products and subject.account.unit != "tensor" and subject.found.multiplies:
        yield Change(kind="path", part="no_tensor_work", text=OUTCOMES["no_tensor_work"].fix)


RULES = (_stages, _warps, _tiles, _ctas, _order, _path, _vectors)


def _removed(subject: Subject, there: set[str]) -> Iterator[Change]:
    """What removes a whole part, where the language offers it, and no rule has said more."""
    for change in removals_of(subject.found, subject.account):
        if change.kind in there or (subject.triton and change.kind not in TRITON):
            continue
        there = there | {change.kind}
        yield Change(kind=change.kind, part=change.part, text=change.text) if subject.triton else change


def _nothing(subject: Subject, untried: bool, blocked: bool) -> list[Change]:
    """What to say where no change is known to gain, some are untried, or only what does not fit
    would; empty where that is unknown."""
    found, busy = subject.found, subject.account.busy_pct
    if found.dram_pct >= FULL_PCT or (subject.account.unit == "dram" and busy >= FULL_PCT):
        return [Change(kind=BYTES, text="move fewer bytes (fusion, reuse, smaller types): DRAM is full")]
    if subject.pct("idle") >= UNTRIED_PCT or not (subject.at_limit or blocked):
        return []  # what idle time is, or what shortens it, is not in the report
    if not subject.tiled and subject.account.unit in ("lsu", "l1tex") and busy >= SATURATED_PCT:
        # Without these nothing tells needed requests from conflicts and scattered accesses.
        told = bool(found.executed.any()) or not math.isnan(found.bank_conflict_share)
        return [Change(kind=NONE, text=LESS_LSU)] if told else []
    rest = "; what is left below was not predicted: try it" if untried else ""
    return [Change(kind=NONE, text=f"nothing is known to gain {LEAST_PCT:g} %{rest}")]


def _worded(change: Change, subject: Subject) -> Change:
    """With its sentence."""
    if change.text:
        return change
    what, tile = subject.name_of(change.kind), subject.tile
    if tile and not what and not subject.triton and change.kind in ("tile_m", "tile_n", "tile_k"):
        return replace(change, text=_of_tile(change, tile))
    name = what or {"stages": "stages", "warps": "warps"}.get(change.kind, change.kind.replace("_", " "))
    if change.after is None:
        return replace(change, text=f"try another {name}")
    before = "" if change.before is None else f" instead of {change.before}"
    if change.after in ("twice", "half"):
        return replace(change, text=f"{'double' if change.after == 'twice' else 'halve'} {name}")
    sentence = f"{name}={change.after}" if what else f"{change.after} {name}"
    if not change.known and change.before is None:  # the report does not say what it is now
        return replace(change, text=f"try {sentence}, unless it is that already")
    return replace(change, text=f"{'use' if change.known else 'try'} {sentence}{before}")


def _of_tile(change: Change, tile: Tile) -> str:
    """The sentence of a larger tile of a kernel that has no name for its sides."""
    if change.after == "twice":  # and which side is m, nobody knows
        short, long = sorted((tile.m, tile.n))
        return f"use a tile of {2 * short} by {long} results instead of {short} by {long}"
    larger = tile.doubled(change.kind)
    was, now = (f"{one.m} x {one.n} x {round(one.k)}" for one in (tile, larger))
    return f"use a tile of {now} (m, n, k) instead of {was}"
