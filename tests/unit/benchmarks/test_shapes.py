"""The draw of shapes keeps its rule, and does not move."""

from __future__ import annotations

import math

import pytest

from benchmarks.kernels.shapes import DRAWS, MOST_FLOP, SIZES, drawn


@pytest.mark.parametrize("name", DRAWS)
def test_a_draw_keeps_the_rule(name):
    shapes = drawn(name)
    assert len(shapes) == DRAWS[name][1]
    for shape in shapes:
        assert 2 * math.prod(shape.values()) <= MOST_FLOP
        for dim, (lowest, highest, multiple) in SIZES.items():
            size = shape[dim]
            assert lowest <= size <= highest
            assert size % multiple == 0
            assert size & (size - 1)


def test_the_draws_are_what_they_were_and_share_nothing():
    assert drawn("test")[0] == {"m": 1272, "n": 6336, "k": 4608}
    assert drawn("tuning")[0] == {"m": 14416, "n": 1152, "k": 576}
    assert not [shape for shape in drawn("test") if shape in drawn("tuning")]
