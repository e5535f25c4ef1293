"""Which tile of ``gemm_ws`` suits a shape and a number of SMs: the one whose predicted time is
shortest.

A kernel of one CTA per SM takes its tiles in rounds, and what the last round leaves idle is lost. A
tile of another size may leave less idle, or need a round less; but small tiles read more bytes per
product, and large ones wait longer for their stores. Over few rows the time is that of reading B:
there it counts how many SMs read, and that enough is on its way, but not much more.
``predicted_us`` weighs these. Its costs are fitted to timings of 48 drawn shapes on an H100 (132
SMs; ``benchmarks/kernels/tiles.py``), those of ragged rows to 35 others, and those of few rows to
up to 25 tiles of each of 87 (``docs/validation/model-tiles.json``). They are good for ranking tiles
of one shape, not as times: what a shape adds to all tiles alike (cold caches, lower clocks under
load) is left out.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from ncubble.chips import limits_of

LARGEST_SMEM = limits_of("9.0").cta_smem
DEPTH = 64  # k of a step: elements of a 128-byte row
ROW = 128  # bytes; a step takes one per row and per column of the tile
BARRIERS = 256  # bytes
SPARE = 1024  # bytes that build.case_for wants free: with less it would take a smaller tile
STORE_BUFFER = 16384  # bytes, for both consumers
FEWEST_STAGES, MOST_STAGES = 4, 14
ELEMENTS_A_CYCLE = 32  # of a tile, over a step: 2048 products a cycle and SM, 64 deep
LARGEST_PART = 192 * 128  # elements of C that a warpgroup can hold
FEW_ROWS = 256  # up to here tiles may be narrower, and their steps shared
GAIN = 0.03  # by which another tile must be faster than the kernel's own: with less, powers of two would change
SHARED_FROM = 2e11  # FLOP; from here on clusters of 2 save more than they cost, in cooperative tiles


def bytes_sent(rows: int, columns: int, split: int) -> int:
    """What a CTA of a split gets from the others: sums of its slice of a warpgroup's part of C, in
    units of 8 rows x 64 columns."""
    return -(-(rows // 8 * (columns // DEPTH)) // split) * 8 * DEPTH * 4 * (split - 1)


@dataclass(frozen=True)
class TileCosts:
    """What the time of a tile is made of.

    ``product``: ns per cycle that the tensor pipe needs, times ``in_turns`` where consumers take
    turns. ``rows``, ``columns``: ns per row and column of the tile that every SM loads for a step;
    ``shared``: a cluster's share of the columns. ``ragged``, ``ragged_shared``: times as much where
    rows are not of whole lines of 128 bytes. ``sharpness`` of the maximum of all these, by which
    the smaller ones add the less. ``store``, ``last_store``: µs per 32768 elements of C that
    nothing overlaps. ``turn``: µs per round.

    Of few rows alone: ``read``: B in TB/s by all SMs, slower by the power ``idle`` of what share of
    them have a CTA, by ``again`` for every further row of tiles that reads it, and by ``apart``
    where CTAs read it at several depths. ``latency``: µs, in which all stages of a CTA come once.
    ``split``, ``sent``: µs for adding up what CTAs have that share steps, and GB/s in which one
    gets sums.
    """

    product: float = 0.615
    in_turns: float = 0.976
    rows: float = 1.234
    columns: float = 1.1
    shared: float = 1.058
    sharpness: float = 4.117
    store: float = 1.295
    last_store: float = 1.47
    turn: float = 0.102
    ragged: float = 1.5
    ragged_shared: float = 1.0
    read: float = 2.487
    idle: float = 0.024
    again: float = 0.072
    apart: float = 0.033
    latency: float = 1.262
    split: float = 0.557
    sent: float = 40.731


FITTED = TileCosts()
FEW = TileCosts(rows=0.703, columns=0.431, sharpness=3.351, store=0.926, turn=1.652, ragged=2.194)


@dataclass(frozen=True)
class GemmTile:
    """Parameters of ``gemm_ws`` that belong together; ``form`` is turned but for the kernel's own
    tile."""

    tile_m: int
    tile_n: int
    schedule: str = "cooperative"
    cluster: int = 1
    form: str = "turned"
    split: int = 1

    @property
    def stages(self) -> int:
        """As many as fit beside a store buffer."""
        sent = bytes_sent(self.tile_m, self.tile_n, self.split)
        room = LARGEST_SMEM - SPARE - BARRIERS - STORE_BUFFER - sent
        return min(MOST_STAGES, room // (ROW * (self.tile_m + self.tile_n)))

    def stages_over(self, k: int) -> int:
        """Those that a product of depth ``k`` takes: of low or narrow tiles with many steps no more
        than keep DRAM busy, as what queues there beyond that is read in a worse order."""
        enough = 2 - (-512 // self.tile_n)
        low = self.tile_m < 64 or self.tile_n == 64
        return min(enough, self.stages) if low and k >= 2 * enough * DEPTH * self.split else self.stages

    def tiles(self, m: int, n: int) -> int:
        """How many C (m, n) takes, counted by clusters."""
        return -(-m // (self.tile_m * self.cluster)) * -(-n // self.tile_n)

    def resident(self, sms: int) -> int:
        """How many clusters run at one time. They lie within a GPC, whose SMs are no multiple of
        them: of an H100's 132 SMs those of 3 take 117, of 4 and 8 120, of 5 to 7 102 to 110."""
        ctas = self.cluster * self.split
        return max(1, (sms if ctas <= 2 else sms * 3 // 4 if ctas in (5, 6, 7) else sms * 7 // 8) // ctas)

    def rounds(self, m: int, n: int, sms: int) -> int:
        """How often each CTA of a full grid takes a tile, at most."""
        return -(-self.tiles(m, n) // self.resident(sms))

    def can_split(self, m: int, n: int, k: int, sms: int) -> bool:
        """Whether all CTAs run at one time, and each has some steps."""
        return self.rounds(m, n, sms) == 1 and k >= self.split * DEPTH * FEWEST_STAGES

    def parameters(self, m: int, n: int, k: int, sms: int) -> dict[str, int | str]:
        """Those of ``gemm_ws`` with this tile for C (m, n). Tiles that do not fit C are moved back
        into it, but of few rows. A single round of turned tiles is faster in low bands."""
        return {
            **asdict(self),
            "stages": self.stages_over(k),
            "band": 512 if self.form == "turned" and self.rounds(m, n, sms) == 1 else 2048,
            "edge": "moved" if m > FEW_ROWS and (m % (self.tile_m * self.cluster) or n % self.tile_n) else "cut",
        }

    def predicted_us(self, m: int, n: int, k: int, sms: int, costs: TileCosts = FITTED) -> float:
        """Time of C (m, n) = A (m, k) x B (k, n), for comparison with other tiles of this shape."""
        if m <= FEW_ROWS:
            return self._few_rows_us(m, n, k, sms)
        steps, workers = -(-k // DEPTH), max(1, sms // self.cluster)
        tiles, rounds = self.tiles(m, n), self.rounds(m, n, sms)
        turns = self.schedule == "pingpong"
        size = self.tile_m * self.tile_n
        product = rounds * steps * size / ELEMENTS_A_CYCLE * costs.product / 1e3 * (costs.in_turns if turns else 1.0)
        rows = costs.rows * self.tile_m * (costs.ragged if k % DEPTH else 1.0)
        whole, ragged = (costs.shared, costs.ragged_shared) if self.cluster > 1 else (1.0, costs.ragged)
        columns = costs.columns * self.tile_n * (ragged if n % DEPTH else whole)
        load = tiles / workers * steps * (rows + columns) / 1e3
        both = _soft_maximum(costs.sharpness, product, load)
        filled = size / 32768
        return both + (costs.turn * rounds + costs.last_store * filled if turns else costs.store * rounds * filled)

    def _few_rows_us(self, m: int, n: int, k: int, sms: int) -> float:
        size, rounds = self.tile_m * self.tile_n, self.rounds(m, n, sms)
        steps = rounds * -(-k // (DEPTH * self.split))
        busy = self.tiles(m, n) * self.split * self.cluster / (rounds * sms)
        time = FEW.turn * rounds + FEW.store * size / 32768
        read = (
            2.0
            * n
            * k
            / FEW.read
            / 1e6
            * busy**-FEW.idle
            * (1 + FEW.again * (-(-m // (self.tile_m * self.cluster)) - 1))
        )
        if self.split > 1:
            read *= 1 + FEW.apart
            time += FEW.split + bytes_sent(self.tile_m, self.tile_n, self.split) / FEW.sent / 1e3
        rows = FEW.rows * self.tile_m * (FEW.ragged if k % DEPTH else 1.0)
        columns = FEW.columns * self.tile_n * (FEW.ragged if n % DEPTH and self.cluster == 1 else 1.0)
        return time + _soft_maximum(
            FEW.sharpness,
            steps * size / ELEMENTS_A_CYCLE * FEW.product / 1e3,
            steps * (rows + columns) / 1e3,
            steps / self.stages_over(k) * FEW.latency,
            read,
        )


def _soft_maximum(sharpness: float, *times: float) -> float:
    return float(sum(time**sharpness for time in times) ** (1 / sharpness))


OWN = GemmTile(128, 256, cluster=2, form="plain")


@functools.cache
def candidates() -> tuple[GemmTile, ...]:
    """All tiles that are compared: those with room for 4 stages."""
    return tuple(tile for tile in _all_tiles() if tile.stages >= FEWEST_STAGES)


def _all_tiles() -> Iterator[GemmTile]:
    for columns in (128, 192, 256):
        for rows in range(64, 257, 8):
            if rows * columns <= LARGEST_PART and rows <= 192:
                yield GemmTile(rows, columns, "pingpong")
            # Two warpgroups share the columns by 64, or where these are odd, the rows by 8.
            halves = columns % 128 == 0 or (rows >= 128 and rows % 16 == 0)
            if halves and rows >= 104 and rows * columns <= 2 * LARGEST_PART:
                yield GemmTile(rows, columns)
                yield GemmTile(rows, columns, cluster=2)


def compared(m: int, n: int, k: int, sms: int) -> list[GemmTile]:
    """The candidates for C (m, n) = A (m, k) x B (k, n). Rows that are not of whole lines make
    clusters worth while in any product."""
    if m <= FEW_ROWS:
        return list(_of_few_rows(m, n, k, sms))
    if n % DEPTH or k % DEPTH:
        return [*candidates(), *(replace(tile, cluster=2) for tile in candidates() if tile.schedule == "pingpong")]
    cluster = 2 if 2.0 * m * n * k >= SHARED_FROM else 1
    return [tile for tile in candidates() if tile.cluster == (1 if tile.schedule == "pingpong" else cluster)]


def _of_few_rows(m: int, n: int, k: int, sms: int) -> Iterator[GemmTile]:
    """Tiles of which one to four have all rows, whole or in parts of k, two of them with a tile of
    B; of one warpgroup, or of two where that cannot hold them."""
    for columns, high, split, cluster in itertools.product((64, 128, 192, 256), range(1, 5), range(1, 9), (1, 2)):
        rows = -(-m // (8 * high)) * 8
        held = rows * columns <= LARGEST_PART
        tile = GemmTile(rows, columns, "pingpong" if held else "cooperative", cluster, split=split)
        fits = tile.stages >= FEWEST_STAGES and (held or columns == 256) and cluster * split <= 8
        if fits and -(-m // rows) % cluster == 0 and (split == 1 or tile.can_split(m, n, k, sms)):
            yield tile


@functools.lru_cache(maxsize=1024)
def best_tile(m: int, n: int, k: int, sms: int) -> GemmTile:
    """The tile to take where nobody chose one: ``OWN``, unless another promises ``GAIN``."""

    def time(tile: GemmTile) -> float:
        return tile.predicted_us(m, n, k, sms)

    fastest = min(compared(m, n, k, sms), key=time)
    return fastest if time(fastest) * (1 + GAIN) < time(OWN) else OWN
