"""Waste: work of a busy unit that should not be there, and builds that make every kernel slow.

A unit that moves spilled registers counts as busy like one that moves data, and *memory-bound* ends
the search. So before either is said, these rules ask what the traffic is. Each needs evidence from
counters or machine code, and tells a gain only where these give it: what is left of the busiest
unit without the waste, or until the next unit is full. Sectors of loads that nobody asked for have
their rule in ``removals.py`` (``overfetch``).

Thresholds come from the public reports named beside them; what each rule must name, and must not,
is planted in ``benchmarks/validation/planted`` (docs/validation/waste.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.evidence import SECTOR_B, WARP, Evidence
from ncubble.analysis.changes.change import Change
from ncubble.analysis.diagnosis.removals import FULL_SERVER_PCT, NEXT_PCT, OVERFETCH, change_of, freed, overfetch
from ncubble.sass.opcodes import is_wgmma, width_bytes
from ncubble.sass.slices import rewritten
from ncubble.text.values import file_size, location

_SELF_MOVE = re.compile(r"(?:@!?U?P\d+ )?MOV (R\d+), \1\b")
DEBUG_MOVES = 0.05
"""Share of self-moves (``MOV R0, R0``) in code. nvcc's ``-G`` and ``-Xptxas -O0`` write 25 to 40 %
(sm_75 to sm_90), optimized code none."""
SERIALIZED = 0.9
"""Share of the neighbouring products of one accumulator with a wait between them. ptxas waits after
each where it serializes (C7510 to C7519); a k-step of 64 halves has four products for each wait."""
BEHIND_L1 = 0.5
"""Share of L2's sectors that are local memory: 91 % in a GEMM of 6.2 GB of it (``gemm_v9``), below
1 % where the same number of accesses hits L1 (``delayAndSum``)."""
MOVING_PCT = 30.0
"""Busy percent of a server from which on its waste takes time although none is full."""
AT_ONE_ADDRESS = (0.1, 4.0)
"""Atomics of threads for each cycle, where L2 adds to one address: one in 1 to 10 cycles (0.32 in
``dot_product``). Fewer bound nothing, and more cannot be at one address."""
ONE_SLICE, SLICE_PCT = 3.0, 15.0
"""Atomic unit of the busiest L2 slice against the mean (12 in ``dot_product``), and its busy
percent."""
QUIET_PCT = 50.0
"""No unit is as busy as that where atomics wait for each other."""
FENCED = 0.2
"""Share of samples at fences from which on they cost time: half in one of PyTorch Geometric."""
SHUFFLES = 3.0
"""Shuffles for each atomic, from which on lanes were added up before it: one lane makes it."""
FP64_PCT, FP64_INSTRUCTIONS = 25.0, 0.1
"""Busy percent of the FP64 pipe, or the share of double arithmetic with its conversions among
instructions, from which on they cost time (41 % in ``mix_give_take_3_kernel``)."""
BACK = 0.25
"""Conversions back to float for each one to double: a literal makes one for each, a sum that is
kept in double hardly any."""
CONFLICTS = 0.2
"""Share of the wavefronts of the data stage that are bank conflicts (35 % in ``gemm_v8``)."""
AGAIN = 8.0
"""Bytes that L1 looks up for loads, for each that comes from DRAM: 37 in an untiled GEMM. A stream
reads once, fragments of MMAs that are used once look up half-used sectors of two operands (4), a
stencil of five points reads five times."""
APART = 4.0
"""Bytes that L2 or DRAM moves for each that stores ask for, where no counter tells stores from the
rest: 8 where a member of structures of 32 bytes is written."""
OPERANDS, SHARED_OPERANDS = 0.5, 0.3
"""Loads for each multiply-add: of global memory two in an untiled product, an eighth in one of
16 x 16 tiles; of shared memory 1.2 where a thread has one result, 0.4 where it has a column of
eight."""
OVER_AGAIN = 0.6
"""Share of the stores that another one of the thread overwrites: more than of two to an address."""
FED_PCT = 50.0
"""Busy percent of the tensor pipe above which operands do not hold it up."""
MANY_BARRIERS, AT_BARRIERS = 0.04, 0.2
"""Shares of barriers among executed instructions, and of their stalls among samples: 5 to 13 %, and
24 to 33 %, where public programs reduce or scan by trees in memory. A tiled product has 2 % of
them."""
_DOUBLE, _ATOMIC = ("DADD", "DMUL", "DFMA"), ("RED.", "REDG", "ATOMG", "ATOM.")
_FUSED = ("FFMA", "HFMA2", "DFMA")
_MEMORY, _STORES = ("LD", "ST", "RED", "ATOM"), ("STG", "ST.")
IN_TRITON = ("atomics", "precision")
"""Kinds for Triton, too. Registers and shared memory are its compiler's: what spills there, or what
ptxas serializes because it would spill, is cured by warps and tiles (``predicted.py``)."""
Removed = dict[str, float]


@dataclass(frozen=True)
class Load:
    """A launch as the rules see it. ``signature``: of the kernel, demangled."""

    found: Evidence
    account: BubbleAccount
    signature: str

    def busy(self, *units: str) -> float:
        """Busy percent of the busiest of these units."""
        return max((self.found.shares.get(unit, 0.0) for unit in units or self.found.shares), default=0.0)

    def bound_by(self, *units: str) -> bool:
        """Whether one of these units is full, and no other one is fuller."""
        return self.busy(*units) >= max(FULL_SERVER_PCT, self.busy(), self.account.parts["tensor_busy"])

    def change(self, kind: str, text: str, removed: Removed | None = None, part: str = "") -> list[Change]:
        """A change that removes so much (0 to 1) of what units do, and what that gains."""
        part = part or ("unit_busy" if self.account.unit != "tensor" else "data_wait")
        kept = {unit: 1.0 - share for unit, share in (removed or {}).items()}
        gain = freed(self.found, self.account, kept) if kept and self.bound_by(*kept) else None
        return [change_of(kind, part, text, gain if gain and gain.expected > 0 else None)]


def waste_of(found: Evidence, account: BubbleAccount, signature: str, triton: bool) -> list[Change]:
    """Changes that remove waste: those of the build first, then the largest gain."""
    load = Load(found, account, signature)
    made = [change for rule in RULES for change in rule(load) if not triton or change.kind in IN_TRITON]
    return sorted(made, key=lambda change: (change.kind != "build", -(change.gain_pct or 0.0)))


def _debug_build(load: Load) -> list[Change]:
    code = [text for text in load.found.code.sass if text]
    moves = sum(bool(_SELF_MOVE.match(text)) for text in code)
    if not code or moves < DEBUG_MOVES * len(code):
        return []
    text = (
        f"build it optimized: {100.0 * moves / len(code):.0f} % of its instructions move a register to itself, as in a "
        "debug build (nvcc -G, -Xptxas -O0). What is said below is of that build"
    )
    return load.change("build", text, part="issue")


def _serialized(load: Load) -> list[Change]:
    found = load.found
    alone = pairs = 0
    last, waited = "", False
    for opcode, sass in zip(found.opcodes, found.code.sass, strict=True):
        if is_wgmma(opcode):
            into, first = [word.strip() for word in sass.rpartition(opcode)[2].split(",")[:2]]
            if not first.startswith("gdesc"):  # an operand in registers must not be overwritten: its writer waits
                last = ""
                continue
            pairs, alone = pairs + (into == last), alone + (into == last and waited)
            last, waited = into, False
        elif opcode.startswith("WARPGROUP.DEPBAR"):
            waited = True
        elif opcode.startswith(("BRA", "EXIT", "BAR", "SYNCS")):
            last = ""
    if pairs < 2 or alone < SERIALIZED * pairs:
        return []
    text = (
        "let wgmma run asynchronously: the code waits after every product of an accumulator, as ptxas makes it where "
        "it serializes (messages C7510 to C7519 of the build say why)"
    )
    return load.change("build", text, part="issue")


def _local_memory(load: Load) -> list[Change]:
    found = load.found
    moved, missed = _local_B(found)
    l2 = SECTOR_B * found.quantity("l2_sectors")
    behind = min(1.0, missed / l2) if l2 > 0 else 0.0
    touched = found.executions(*_MEMORY)
    front = found.executions("LDL", "STL") / touched if touched > 0 else 0.0
    tensor = load.account.unit == "tensor"  # there spills delay products (``removals.spills``) before they fill L2
    servers = behind >= BEHIND_L1 and load.busy("l2", "dram") >= (FULL_SERVER_PCT if tensor else MOVING_PCT)
    if not servers and (tensor or front < BEHIND_L1 or load.busy("lsu", "l1tex") < FULL_SERVER_PCT):
        return []
    traffic = f"{file_size(missed)} of the {file_size(l2)} that L2 serves" if servers else "most of what L1 serves"
    text = (
        f"keep local memory in registers: {traffic} are spilled registers and arrays ({file_size(moved)} in L1)"
        f"{_hottest(found, ('LDL', 'STL'))}; index arrays by constants in unrolled loops, smaller tiles per thread, a "
        "higher register cap"
    )
    return load.change("local_memory", text, {"dram": behind, "l2": behind, "lsu": front, "l1tex": front})


def _local_B(found: Evidence) -> tuple[float, float]:  # noqa: N802
    """Bytes of local memory that L1 looks up, and those that it passes on: by counter, else as
    executed, and what L2 serves beyond all global accesses."""
    names = ("local_load_sectors", "local_store_sectors", "local_load_misses", "local_store_misses")
    sectors = [found.quantity(name) for name in names]
    if not any(value != value for value in sectors):
        return SECTOR_B * (sectors[0] + sectors[1]), SECTOR_B * (sectors[2] + sectors[3])
    rows = zip(found.opcodes, found.roles, found.executed, strict=True)
    asked = [(role, WARP * width_bytes(opcode) * count) for opcode, role, count in rows]
    local = sum(size for role, size in asked if role == "local")
    others = sum(size for role, size in asked if role in ("load_global", "store_global", "copy"))
    beyond = SECTOR_B * found.quantity("l2_sectors") - others - np.nan_to_num(found.quantity("tma_bytes"))
    return local, float(np.clip(np.nan_to_num(beyond), 0.0, local))


def _stalled(found: Evidence, reason: str) -> float:
    """Share of the samples (0 to 1) with a stall reason."""
    samples = found.samples.groupby("reason")["samples"].sum()
    return float(samples.get(reason, 0.0)) / max(1.0, float(samples.sum()))


def _atomics(load: Load) -> list[Change]:
    found = load.found
    made = found.executions(*_ATOMIC)
    fences, warps = found.executions("MEMBAR"), found.grid * found.block
    if 0 < warps <= made <= fences and _stalled(found, "membar") >= FENCED and load.busy("dram") < NEXT_PCT:
        text = (
            f"where atomics only add, make them relaxed (sem='relaxed' in Triton; no __threadfence): {fences:,.0f} "
            f"fences stand beside {made:,.0f} atomics{_hottest(found, _ATOMIC)}"
        )
        return load.change("atomics", text)
    if not made > 0 or found.stores > made or made < found.grid * found.block or load.busy() >= QUIET_PCT:
        return []
    lanes = found.quantity("red_sectors") + np.nan_to_num(found.quantity("atomic_sectors"))
    if not lanes > 0:
        lanes = made * (1.0 if found.executions("SHFL") >= SHUFFLES * made else WARP)
    most, mean = found.quantity("atomic_most_pct"), found.quantity("atomic_mean_pct")
    low, high = AT_ONE_ADDRESS
    few = most >= max(SLICE_PCT, ONE_SLICE * mean) if most >= 0 else low <= lanes / found.cycles <= high
    if not few or lanes / found.cycles < low:
        return []
    text = (
        f"add up within a warp or CTA first: {lanes:,.0f} atomics of threads wait for each other at few addresses"
        f"{_hottest(found, _ATOMIC)}, while no unit is {QUIET_PCT:.0f} % busy"
    )
    waits = ("epilogue", "data_wait", "idle", "issue")
    return load.change("atomics", text, part=max(waits, key=lambda part: load.account.parts.get(part, 0.0)))


def _precision(load: Load) -> list[Change]:
    found = load.found
    double, total = found.executions(*_DOUBLE), found.executions()
    there, back = found.executions("F2F.F64.F32"), found.executions("F2F.F32.F64")
    text = "compute in float: double literals (1.0 for 1.0f) or functions (pow, sqrt) turn floats into doubles and back"
    if not total > 0:  # without counts of instructions, by what the kernel's arguments are
        named = load.account.unit == "fp64" and "float" in load.signature and "double" not in load.signature
        if not (named and load.busy("fp64") >= FP64_PCT):
            return []
        text = f"{text}, if it has no doubles in memory: none of its arguments is of that type"
        return load.change("precision", text)
    costs = load.busy("fp64") >= FP64_PCT or double + there + back >= FP64_INSTRUCTIONS * total
    full = load.account.unit == "fp64" and load.account.busy_pct >= FULL_SERVER_PCT  # by a sum on purpose, too
    if not costs or not double > 0 or not there > 0 or not (full or back >= BACK * there):
        return []
    text = f"{text} ({100.0 * (double + there + back) / total:.0f} % of the instructions)"
    return load.change("precision", f"{text}{_hottest(found, _DOUBLE)}", {"fp64": 1.0, "xu": 1.0})


def _bank_conflicts(load: Load) -> list[Change]:
    found, stage = load.found, ("lsu", "l1tex")
    pipe, conflicts = found.quantity("lsu_data_pipe_pct"), found.quantity("shared_excess")
    if not conflicts >= 0:
        conflicts = found.quantity("load_conflicts") + np.nan_to_num(found.quantity("store_conflicts"))
    wavefronts = pipe / 100.0 * found.cycles * found.sms
    full = load.bound_by(*stage) and 2.0 * pipe >= load.busy(*stage)
    if not full or not conflicts >= CONFLICTS * wavefronts:
        return []
    share = min(1.0, conflicts / wavefronts)
    text = (
        f"swizzle or pad the shared-memory tile: {conflicts:,.0f} of {wavefronts:,.0f} wavefronts of L1 and shared "
        f"memory are bank conflicts{_hottest(found, ('LDS', 'STS'))}"
    )
    part = "smem_wait" if load.account.unit == "tensor" else ""
    return load.change("shared_layout", text, dict.fromkeys(stage, share), part)


def _stores_apart(load: Load) -> list[Change]:
    found, servers = load.found, ("l2", "lsu", "l1tex")
    made = zip(found.opcodes, found.executed, strict=True)
    asked = sum(WARP * width_bytes(opcode) * count for opcode, count in made if opcode.startswith(_STORES))
    if not asked > 0 or found.executions(*_ATOMIC, "UTMASTG", "UBLKCP"):  # whose bytes no instruction tells
        return []
    sectors, l2, needed = found.quantity("store_sectors"), found.quantity("l2_sectors"), found.asked_B + asked
    least = OVERFETCH
    if not sectors >= 0:  # L2 counts sectors of loads up to twice, those of its other half
        sectors, least = l2 - 2.0 * found.quantity("load_sectors"), APART
    moved = SECTOR_B * sectors / asked
    most = load.busy("l2") >= max(MOVING_PCT, load.busy(), load.account.parts["tensor_busy"])
    if moved >= least and sectors >= BEHIND_L1 * l2 and (most or load.bound_by(*servers)):
        what = f"stores touch {moved:.1f} times the sectors that their bytes fill"
        removed = dict.fromkeys(servers, min(1.0, sectors / l2) * (1.0 - 1.0 / moved))
    elif load.bound_by("dram") and found.dram_B >= APART * needed and (not found.asked_B or found.sectors < OVERFETCH):
        what = (
            f"DRAM moves {file_size(found.dram_B)} for the {file_size(needed)} that loads and stores ask for, as it "
            "reads and writes whole sectors"
        )
        removed = {"dram": 1.0 - needed / found.dram_B}
    else:
        return []
    text = (
        "let neighbouring threads write neighbouring bytes, best 16 of each at once (of structures, an array of each "
        f"member): {what}{_hottest(found, _STORES)}"
    )
    return load.change("copies", text, removed)


def _loads_again(load: Load) -> list[Change]:
    found, account = load.found, load.account
    if overfetch(found, account):
        return []
    tile = "load a tile into shared memory or registers once, and use it for several products"
    tensor = account.unit == "tensor"
    if not len(found.source) or not found.executed.any():  # nothing but utilizations
        straight = tensor and found.shared_B == 0 and account.busy_pct < FED_PCT
        if not straight or load.busy("lsu", "l1tex") < FULL_SERVER_PCT:
            return []
        return load.change("reuse", f"{tile}: it has no shared memory, and L1 is full of operands", part="idle")
    looked = SECTOR_B * found.quantity("load_sectors")
    again = looked / found.dram_read_B if found.dram_read_B > 0 else 0.0
    loads, staged = found.executions("LDG", "LD."), found.executions("LDS", "LDSM", "LDGSTS", "UTMALDG", "UBLKCP")
    products = found.products if tensor else found.executions(*_FUSED)
    most = load.busy("lsu", "l1tex", "l2")
    slow = account.busy_pct < FED_PCT if tensor else most >= max(QUIET_PCT, load.busy())
    if not (slow and products > 0):
        return []
    shared = found.executions("LDS") / products
    if not tensor and shared >= SHARED_OPERANDS and load.bound_by("lsu", "l1tex") and found.multiplies:
        why = f"the LSU is full of {shared:.1f} loads of shared memory for each multiply-add{_hottest(found, ('LDS',))}"
        return load.change("reuse", f"give each thread more results, whose operands stay in registers: {why}")
    if staged >= loads or loads < OPERANDS * products or not again >= AGAIN:
        return []
    text = f"{tile}: L1 looks up {again:.0f} times the bytes that DRAM reads{_hottest(found, ('LDG', 'LD.'))}"
    return load.change("reuse", text)


def _sums_in_memory(load: Load) -> list[Change]:
    found = load.found
    stores = [row for row, opcode in enumerate(found.opcodes) if opcode.startswith(_STORES) and found.executed[row] > 0]
    again = rewritten(found.code.sass, stores, found.code.loop)
    waits = next(iter(load.account.bubbles), "") == "data_wait" and load.busy("dram") < NEXT_PCT
    if not waits or not again or found.executed[list(again)].sum() < OVER_AGAIN * found.stores:
        return []
    text = (
        "keep sums in a register, and store them once: a thread stores to the same address again and again, and no "
        f"load passes a store that might be to its address (__restrict__ says that it is not){_hottest(found, _STORES)}"
    )
    return load.change("reuse", text, part="data_wait")


def _barriers(load: Load) -> list[Change]:
    found, total = load.found, load.found.executions()
    made = found.executions("BAR")
    if found.tiled or not total > 0 or made < MANY_BARRIERS * total:
        return []
    waits = _stalled(found, "barrier")
    if waits < AT_BARRIERS:
        return []
    text = (
        "combine within a warp first, by shuffles or votes, and let a thread take several elements: a warp stops at a "
        f"barrier after {total / made:.0f} instructions, and {100.0 * waits:.0f} % of the samples wait there"
        f"{_hottest(found, ('BAR',))}"
    )
    return load.change("barriers", text, part="sync_wait")


RULES = (
    _debug_build,
    _serialized,
    _local_memory,
    _atomics,
    _precision,
    _bank_conflicts,
    _stores_apart,
    _loads_again,
    _sums_in_memory,
    _barriers,
)


def _hottest(found: Evidence, opcodes: tuple[str, ...]) -> str:
    """Where instructions with these mnemonics run most: ``, most at gemm.cu:67 (LDL R4, [R1])``."""
    rows: Iterator[int] = (row for row, opcode in enumerate(found.opcodes) if opcode.startswith(opcodes))
    row = max(rows, key=lambda row: found.executed[row], default=-1)
    if row < 0 or not found.executed[row] > 0:
        return ""
    known = found.source.iloc[row]
    place = location(known["file"] or None, int(known["line"]) or None)
    return f", most at {place} ({known['sass']})" if place else f", most at {known['sass']}"
