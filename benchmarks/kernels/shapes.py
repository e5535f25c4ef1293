"""Shapes off the powers of two for ``gemm_ws``: drawn by a rule, not chosen.

The rule, written down before anything was measured. ``m`` is a number of tokens, a multiple of 8;
``n`` and ``k`` are widths of layers, multiples of 64. Each is log-uniform, ``m`` and ``n`` from 768
(the narrowest layers of language models in use) to 16384, ``k`` from 512 to 16384. A power of two
is drawn again, and so is a product of more than 2^42 FLOP (some 6 ms on an H100).

Two draws of it: ``test`` is what is scored and never tuned on; ``tuning`` is what defaults of the
kernel may be fitted to.
"""

from __future__ import annotations

import math
import random

DRAWS = {"test": (21, 24), "tuning": (22, 48)}  # seed, shapes
SIZES = {"m": (768, 16384, 8), "n": (768, 16384, 64), "k": (512, 16384, 64)}  # lowest, highest, multiple of
MOST_FLOP = 2**42

Sizes = dict[str, int]


def drawn(name: str) -> list[Sizes]:
    """The shapes of the draw ``name``, always the same."""
    seed, count = DRAWS[name]
    generator = random.Random(seed)  # noqa: S311 - nothing secret
    shapes: list[Sizes] = []
    while len(shapes) < count:
        shape = {dim: _size(generator, *limits) for dim, limits in SIZES.items()}
        if 2 * math.prod(shape.values()) <= MOST_FLOP and shape not in shapes:
            shapes.append(shape)
    return shapes


def _size(generator: random.Random, lowest: int, highest: int, multiple: int) -> int:
    """Log-uniform between the limits, rounded to a multiple, no power of two."""
    while True:
        size = round(lowest * (highest / lowest) ** generator.random() / multiple) * multiple
        if size.bit_count() != 1:
            return size
