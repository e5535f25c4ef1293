"""The tile of a CTA, read off the products and copies of its loop, and what a larger one takes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

import numpy as np

from ncubble.analysis.account.evidence import Evidence
from ncubble.analysis.model.pipeline import Pipeline
from ncubble.sass.opcodes import is_wgmma

WARPGROUP, ROWS = 4, 64
"""Warps of a warpgroup, and the rows of its wgmma."""
K_BYTES = 32
"""Bytes of k in one product, of any type."""
REGISTERS = 65_536
"""Of an SM; compute capability 7.0 to 12.0."""
MOST_REGISTERS = 255
"""Of a thread."""
MOST_ACCUMULATORS = 128
"""Registers of a thread for results, beside which operands and addresses still fit."""
FITS, FITS_CONVERTED = 0.1, 0.3
"""Largest deviation (natural logarithm) of the tile's bytes from those that copies bring; more
where operands are converted, as scales are copied, too."""
FEW_COLUMNS = 32
"""A wgmma of fewer reads its rows of A in as many cycles as it multiplies."""
LEAST_WORK = 0.25
"""Share of all multiplications from which on a product counts, unlike one of low rank beside it."""
IN_LOOP = 0.5
"""Executions of an instruction of the loop, at least, relative to its wgmma."""
_WGMMA = re.compile(r"[A-Z]GMMA\.(\d+)x(\d+)x(\d+)")


@dataclass(frozen=True)
class Tile:
    """``m`` by ``n`` results of a CTA from ``k`` products each in one iteration. ``row_B``: bytes
    of a row of k. ``registers`` of a thread and ``shared_B`` of a CTA of ``warps`` warps, of which
    ``math_warps`` multiply: where others copy for them, they have more registers than at launch.
    ``converted``: operands are converted between load and product. ``turned``: rows and columns may
    be the other way round."""

    m: int
    n: int
    k: float
    row_B: float  # noqa: N815
    warps: int
    math_warps: int
    registers: int
    shared_B: float  # noqa: N815
    converted: bool = False
    turned: bool = False

    @property
    def accumulators(self) -> int:
        """Registers of a thread that hold results."""
        return self.m * self.n // (32 * self.math_warps)

    @property
    def bytes_per_flop(self) -> float:
        """Copied bytes for each product, up to a constant."""
        return 1.0 / self.m + 1.0 / self.n

    def doubled(self, kind: str) -> Tile:
        """The tile with twice as many rows (``tile_m``), columns or products."""
        m, n, k = (2 if kind == name else 1 for name in ("tile_m", "tile_n", "tile_k"))
        larger = (self.m * m + self.n * n) / (self.m + self.n) * k
        added = self.accumulators if k == 1 and self.math_warps == self.warps else 0
        return replace(
            self, m=m * self.m, n=n * self.n, k=k * self.k, row_B=k * self.row_B,
            registers=self.registers + added, shared_B=self.shared_B * larger,
        )  # fmt: skip

    def ctas(self, found: Evidence) -> int:
        """CTAs that fit on an SM."""
        limits = [REGISTERS // (min(MOST_REGISTERS, self.registers) * 32 * self.warps)]
        if self.shared_B > 0 and found.sm_shared_B > 0:
            reserved = found.reserved_B if found.reserved_B >= 0 else 0.0
            limits.append(int(found.sm_shared_B // (self.shared_B + reserved)))
        return max(
            0, min([*limits, *(int(limit) for name, limit in found.limits.items() if name == "warps" and limit >= 1)])
        )

    def blocked(self, now: Tile, found: Evidence) -> str:
        """What makes this tile, made of ``now``, impossible or slow; empty where nothing does."""
        if self.accumulators > MOST_ACCUMULATORS or (self.registers > MOST_REGISTERS > now.registers):
            return "registers: the larger tile would spill"
        if self.shared_B > found.cta_shared_B:
            return "shared memory: the larger tile does not fit"
        ctas = self.ctas(found)
        if ctas < min(2, now.ctas(found)):
            return "occupancy: only one CTA would be left on an SM"
        persistent = found.sms > 0 and found.grid % found.sms == 0
        if not persistent and self.m * self.n > now.m * now.n and found.grid / 2 < found.sms:
            return "the grid: fewer CTAs than SMs would be left"
        return ""


def products_of(found: Evidence) -> dict[tuple[int, int], float]:
    """Executed wgmma by columns and depth."""
    shapes: dict[tuple[int, int], float] = {}
    for opcode, executed in zip(found.opcodes, found.executed, strict=True):
        if executed > 0 and (match := _WGMMA.match(opcode)):
            shape = int(match[2]), int(match[3])
            shapes[shape] = shapes.get(shape, 0.0) + float(executed)
    return shapes


def narrow(found: Evidence) -> bool:
    """Whether wgmma of a loop of several products have so few columns that reading their 64 rows
    from shared memory takes as long as the products: warpgroups share what one could do."""
    columns = [(columns, count) for (columns, _), count in products_of(found).items()]
    few = sum(count for several, count in columns if several <= FEW_COLUMNS)
    return bool(columns) and max(columns)[0] <= 2 * FEW_COLUMNS and few >= sum(count for _, count in columns) / 2


def exponentials(found: Evidence) -> bool:
    """Whether the loop of products has exponentials, as attention: those of an epilogue run less
    often."""
    products = [(role, executed) for role, executed in zip(found.roles, found.executed, strict=True) if role == "mma"]
    loop = max((executed for _, executed in products), default=0.0)
    return loop > 0 and any(
        opcode.startswith("MUFU.EX2") and executed >= IN_LOOP * loop
        for opcode, executed in zip(found.opcodes, found.executed, strict=True)
    )


def tile_of(found: Evidence, now: Pipeline, registers: float, roles: bool) -> Tile | None:
    """The tile of a loop of ``wgmma`` that makes one product; None where code and copies do not say
    so. ``roles``: whether some warps may only copy; else all multiply."""
    shapes = products_of(found)
    whole = sum(n * k * count for (n, k), count in shapes.items())
    shapes = {(n, k): count for (n, k), count in shapes.items() if n * k * count > LEAST_WORK * whole}
    if len(shapes) != 1 or not registers > 0 or not found.block > 0 or exponentials(found):
        return None  # several products, as in attention: no tile of one
    ((columns, depth),) = shapes
    iterations = now.grid * found.sms * now.iterations
    products = shapes[columns, depth] / WARPGROUP * ROWS * columns * depth / iterations
    issued = max(executed for opcode, executed in zip(found.opcodes, found.executed, strict=True) if is_wgmma(opcode))
    groups = max(1, round(issued / iterations / WARPGROUP)) if roles else found.block / WARPGROUP
    math_warps = int(min(found.block, WARPGROUP * groups))
    element = K_BYTES / depth
    converted = found.conversions >= found.products
    widths = ((0.5, 1.0), (1.0, 0.5), (0.25, 1.0), (1.0, 0.25)) if converted else ((1.0, 1.0),)
    fitting: list[tuple[tuple[float, int, float], int, int]] = []
    for times in (1, 2, 4):
        for rows in (64, 128, 256):
            n = columns * times
            k = products / rows / n
            if not 8 <= k <= 512 or rows * n < ROWS * columns * math_warps / WARPGROUP:  # each warpgroup has work
                continue
            off = min(abs(math.log((rows * a + n * b) * k * element / now.tile_B)) for a, b in widths)
            fitting.append(((float(np.round(off, 1)), times, abs(math.log(rows / n))), rows, n))
    best = min(fitting, default=None)
    if best is None or best[0][0] > (FITS_CONVERTED if converted else FITS):
        return None
    _, m, n = best
    k = products / m / n
    turned = any((rows, columns) == (n, m) != (m, n) and key[0] == best[0][0] for key, rows, columns in fitting)
    return Tile(m, n, k, k * element, int(found.block), math_warps, int(registers), found.shared_B, converted, turned)
