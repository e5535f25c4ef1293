"""Random inputs, and the rows of a result that are compared with the reference."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.errors import UsageError
from ncubble.kernels.spec.case import Case
from ncubble.kernels.spec.dtypes import dtype_of, is_float

TILE_ROWS = 128  # the sample includes every row position within such a tile
FLOP_BUDGET = 5e9  # float64 work on the CPU per verification: a fraction of a second
ELEMENT_BUDGET = 2**23


def fresh_seed() -> int:
    """A seed nobody has chosen; print it, so that a failure can be repeated."""
    return secrets.randbits(32)


def draw_inputs(case: Case, seed: int) -> dict[str, NDArray[Any]]:
    """One array per input of ``case``: N(0, 1) for floats, uniform over the type for integers."""
    generator = np.random.default_rng(seed)
    if case.spec.draw is not None:
        return _drawn_by_spec(case, case.spec.draw(generator, case.shape))
    drawn: dict[str, NDArray[Any]] = {}
    for array in case.spec.arrays:
        if array.output:
            continue
        dtype, extent = dtype_of(array.dtype), case.extent(array)
        if is_float(dtype):
            drawn[array.name] = generator.standard_normal(extent, dtype=np.float32).astype(dtype, copy=False)
        else:
            limits = np.iinfo(dtype)
            drawn[array.name] = generator.integers(limits.min, limits.max, extent, dtype=dtype, endpoint=True)
    return drawn


def _drawn_by_spec(case: Case, drawn: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    for array in case.spec.arrays:
        if array.output:
            continue
        given, wanted = drawn.get(array.name), (case.extent(array), dtype_of(array.dtype))
        if given is None or (given.shape, given.dtype) != wanted:
            got = "nothing" if given is None else f"{given.dtype} {given.shape}"
            message = f"{case.spec.name}: draw returned {got} for {array.name!r}, expected {wanted[1]} {wanted[0]}"
            raise UsageError(message, "fix the spec's draw")
    return dict(drawn)


def choose_rows(case: Case, seed: int) -> NDArray[np.intp]:
    """Rows (flat indices over the outputs' first ``row_dims`` axes) to compare: all of a small
    problem, else a sample.

    The sample holds every position within a tile of 128 rows, and a row of every such tile, paired
    at random: an error tied to a thread, a warp or a row of CTAs cannot hide.
    """
    rows = math.prod(case.extent(case.spec.outputs[0])[: case.spec.row_dims])
    wanted = _affordable(case, rows)
    if wanted >= rows:
        return np.arange(rows)
    generator = np.random.default_rng([seed, 1])
    positions = generator.permutation(TILE_ROWS)
    tiles = generator.permutation(-(-rows // TILE_ROWS))
    index = np.arange(max(wanted, len(tiles)))
    shift = index // math.lcm(len(tiles), TILE_ROWS)  # otherwise the same pairs repeat
    chosen = tiles[index % len(tiles)] * TILE_ROWS + positions[(index + shift) % TILE_ROWS]
    taken = np.zeros(rows, dtype=bool)  # far cheaper than np.unique for millions of rows
    taken[np.minimum(chosen, rows - 1)] = True
    return np.flatnonzero(taken)


def _affordable(case: Case, rows: int) -> int:
    elements = sum(int(np.prod(case.extent(array))) for array in case.spec.outputs)
    by_elements = ELEMENT_BUDGET * rows // max(elements, 1)
    by_flops = int(FLOP_BUDGET * rows / case.flops) if case.flops else rows
    return max(TILE_ROWS, min(by_elements, by_flops))
