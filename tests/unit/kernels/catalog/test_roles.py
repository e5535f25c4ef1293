"""The spec of warp specialization: its reference against the recurrence written out, its grid, what
it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from ncubble.errors import UsageError
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.catalog.structure import WARP_SPECIALIZED
from ncubble.kernels.run.verify import draw_inputs
from ncubble.kernels.spec.case import make_case


@pytest.mark.parametrize("work", [0, 16, 64, 512])
def test_the_reference_is_the_recurrence(work):
    case = make_case(find_spec("warp_specialized"), {"work": work}, {"n": 2048})
    inputs = draw_inputs(case, 3)
    rows = np.array([0, 1, 3, 4, 1019, 1020, 1023, 1024, 1027, 2047])
    found = case.reference(inputs, rows)["c"]
    for row, result in zip(rows, found, strict=True):
        tile, within = divmod(int(row), 1024)
        quad, place = divmod(within, 4)
        y = float(inputs["b"][tile * 1024 + (255 - quad) * 4 + place])
        x = float(inputs["a"][row]) + y
        for _ in range(work):
            x = -255.0 / 256.0 * x + y
        assert result == pytest.approx(x, abs=1e-9)


def test_a_step_too_many_is_outside_the_tolerance():
    case, more = (make_case(find_spec("warp_specialized"), {"work": work}, {"n": 4096}) for work in (256, 512))
    inputs, rows = draw_inputs(case, 1), np.arange(4096)
    difference = np.abs(case.reference(inputs, rows)["c"] - more.reference(inputs, rows)["c"])
    assert (difference > case.tolerance.absolute).mean() > 0.99


@pytest.mark.parametrize(("tiles", "ctas", "grid"), [(1, 1, 1), (100, 4, 100), (5000, 1, 132), (5000, 4, 528)])
def test_the_grid_is_as_many_ctas_as_asked_but_none_without_a_tile(tiles, ctas, grid):
    case = make_case(find_spec("warp_specialized"), {"ctas": ctas}, {"n": 1024 * tiles})
    assert case.grid == (grid, 1, 1)
    assert WARP_SPECIALIZED.persistent(10, case.shape, case.parameters) == (min(tiles, 10 * ctas),)


def test_part_of_a_tile_is_refused():
    with pytest.raises(UsageError, match="multiple of 1024"):
        make_case(find_spec("warp_specialized"), {}, {"n": 1000})
