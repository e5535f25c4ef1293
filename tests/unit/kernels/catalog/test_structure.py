"""Warp roles, clusters, persistent grids and grid-wide barriers: what can be told without a GPU."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ncubble.errors import UsageError
from ncubble.kernels.catalog.structure import CLUSTER_DSMEM, GRID_SYNC, PERSISTENT, WARP_SPECIALIZED, normalized
from ncubble.kernels.run.verify import draw_inputs
from ncubble.kernels.spec.case import make_case


@pytest.mark.parametrize("columns", [4, 8])
@pytest.mark.parametrize("cluster", [2, 4, 8])
def test_columns_that_do_not_fill_a_cluster_are_refused(cluster, columns):
    parameters = {"cluster": cluster, "columns": columns}
    make_case(CLUSTER_DSMEM, parameters, {"n": columns * cluster})
    with pytest.raises(UsageError, match=f"n={columns} is not a multiple of {columns * cluster}"):
        make_case(CLUSTER_DSMEM, parameters, {"n": columns})


@pytest.mark.parametrize(("columns", "grid"), [(4, (16, 3, 1)), (8, (8, 3, 1))])
def test_a_cluster_lies_along_the_columns(columns, grid):
    case = make_case(CLUSTER_DSMEM, {"cluster": 4, "columns": columns}, {"m": 513, "n": 64})
    assert case.grid == grid
    assert case.cluster == (4, 1, 1)


def test_the_ring_holds_a_tile_of_each_matrix_per_stage():
    case = make_case(CLUSTER_DSMEM, {"stages": 6, "columns": 8})
    assert case.smem == 6 * 4 * (256 * 32 + 32 * 8)
    assert case.box(CLUSTER_DSMEM.tensor_maps[1]) == (32, 8)


@pytest.mark.parametrize(("share", "rows"), [("none", 256), ("dsmem", 256), ("split", 32), ("multicast", 32)])
def test_a_load_of_a_is_the_whole_tile_or_a_part_per_cta(share, rows):
    case = make_case(CLUSTER_DSMEM, {"cluster": 8, "share": share})
    assert case.box(CLUSTER_DSMEM.tensor_maps[0]) == (rows, 32)


def test_rows_that_tma_cannot_address_are_refused():
    with pytest.raises(UsageError, match="k=1022 is not a multiple of 4"):
        make_case(CLUSTER_DSMEM, shape={"k": 1022})


def test_the_reference_of_persistent_is_what_its_words_say():
    case = make_case(PERSISTENT, shape={"batches": 3, "rows": 2, "cols": 8})
    inputs = draw_inputs(case, 0)
    rows = np.array([0, 3, 5])
    found = normalized(inputs, rows)["y"]
    assert found.shape == (3, 8)
    for at, (batch, row) in enumerate([(0, 0), (1, 1), (2, 1)]):
        values = [float(value) for value in inputs["x"][batch, row]]
        size = math.sqrt(sum(value * value for value in values) / 8 + 1e-5)
        for column, value in enumerate(values):
            assert found[at, column] == pytest.approx(value / size * float(inputs["w"][column]), rel=1e-12)


@pytest.mark.parametrize(
    ("mode", "launches", "ctas"), [("many", 64, 13), ("grid", 1, 64 * 13), ("persistent", 1, 132 * 2)]
)
def test_the_modes_cut_the_same_tiles_into_launches(mode, launches, ctas):
    case = make_case(PERSISTENT, {"mode": mode, "threads": 256}, {"rows": 100})
    assert case.launches == launches
    assert case.grid == (ctas, 1, 1)


def test_persistent_starts_no_cta_without_a_tile():
    case = make_case(PERSISTENT, {"ctas": 4}, {"batches": 2, "rows": 9})
    assert case.grid_on(132) == (4, 1, 1)


@pytest.mark.parametrize("steps", [2, 16])
def test_the_reference_of_grid_sync_is_the_steps_written_out(steps):
    case = make_case(GRID_SYNC, {"steps": steps}, {"n": 40})
    inputs, rows = draw_inputs(case, 0), np.array([0, 3, 21, 39])
    states = [[float(value) for value in inputs["x"]]]
    for _ in range(steps):
        last = states[-1]
        states.append([0.5 * last[i] + 0.5 * last[(i + 4 * (5 + 1)) % 40] for i in range(40)])
    found = case.reference(inputs, rows)
    for name, state in (("t", states[-2]), ("y", states[-1])):
        assert found[name] == pytest.approx([state[row] for row in rows], abs=1e-12)


def test_a_step_too_many_or_too_few_is_outside_the_tolerance():
    case = make_case(GRID_SYNC, {"steps": 256}, {"n": 4096})
    found = case.reference(draw_inputs(case, 1), np.arange(4096))
    assert (np.abs(found["y"] - found["t"]) > case.tolerance.absolute).mean() > 0.99


def test_a_grid_that_synchronizes_is_resident_and_launched_once():
    many, one = (make_case(GRID_SYNC, {"mode": mode, "ctas": 2}) for mode in ("many", "cooperative"))
    assert (many.launches, many.grid, many.cooperative) == (64, (1024, 1, 1), False)
    assert (one.launches, one.grid, one.cooperative) == (1, (264, 1, 1), True)


@pytest.mark.parametrize("work", [0, 16, 64, 512])
def test_the_reference_is_the_recurrence(work):
    case = make_case(WARP_SPECIALIZED, {"work": work}, {"n": 2048})
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
    case, more = (make_case(WARP_SPECIALIZED, {"work": work}, {"n": 4096}) for work in (256, 512))
    inputs, rows = draw_inputs(case, 1), np.arange(4096)
    difference = np.abs(case.reference(inputs, rows)["c"] - more.reference(inputs, rows)["c"])
    assert (difference > case.tolerance.absolute).mean() > 0.99


@pytest.mark.parametrize(("tiles", "ctas", "grid"), [(1, 1, 1), (100, 4, 100), (5000, 1, 132), (5000, 4, 528)])
def test_the_grid_is_as_many_ctas_as_asked_but_none_without_a_tile(tiles, ctas, grid):
    case = make_case(WARP_SPECIALIZED, {"ctas": ctas}, {"n": 1024 * tiles})
    assert case.grid == (grid, 1, 1)
    assert WARP_SPECIALIZED.persistent(10, case.shape, case.parameters) == (min(tiles, 10 * ctas),)


def test_part_of_a_tile_is_refused():
    with pytest.raises(UsageError, match="multiple of 1024"):
        make_case(WARP_SPECIALIZED, {}, {"n": 1000})
