"""Planted pairs before there is a GPU: both sides can be launched, do the same work, and are what
their words say."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from benchmarks.validation.planted import PLANTED
from benchmarks.validation.planted.pairs import PAIRS, PlantedPair, PlantedSide
from benchmarks.validation.planted.structure import (
    BOXES,
    EPILOGUE,
    MOST_CTAS,
    RAMP,
    RASTER,
    RESIDUAL,
    ROLES,
    WAVES,
    ring_bytes,
    scaled,
    with_residual,
)
from ncubble.analysis.account.parts import OUTCOMES, PARTS
from ncubble.analysis.changes.change import KINDS
from ncubble.errors import UsageError
from ncubble.kernels.build import broken_promises, build
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.device import occupancy
from ncubble.kernels.run.verify import draw_inputs
from ncubble.kernels.spec.case import Case, make_case
from ncubble.kernels.spec.spec import KernelSpec

SMS = 132
EVERY = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
BY_NAME = {pair.name: pair for pair in PAIRS}


def case_of(side: PlantedSide | None) -> Case:
    assert side is not None
    return make_case(find_spec(side.kernel, PLANTED), side.parameters, side.shape)


BUILT = [
    (WAVES, {"schedule": "stream"}),
    (RAMP, {"search": "serial"}),
    (EPILOGUE, {"store": "narrow"}),
    (RASTER, {"raster": "column", "tile_n": 256}),
    (BOXES, {"box_rows": 2}),
    (ROLES, {"producer": "warp"}),
    (RESIDUAL, {"read": "late"}),
    (RESIDUAL, {"read": "early"}),
]


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(("spec", "parameters"), BUILT, ids=lambda value: getattr(value, "name", str(value)))
def test_machine_code_is_what_the_spec_promises(spec: KernelSpec, parameters: dict[str, Any]) -> None:
    case = make_case(spec, parameters)
    assert broken_promises(case, "sm_90a", build(case, "sm_90a")) == []


@EVERY
def test_both_sides_can_be_launched_and_do_the_same_work(pair: PlantedPair) -> None:
    sick = case_of(pair.sick)
    assert sick.unverified is None
    if pair.cured is None:
        return
    cured = case_of(pair.cured)
    assert cured.unverified is None
    assert cured.label != sick.label
    assert cured.flops == sick.flops
    assert [cured.extent(array) for array in cured.spec.outputs] == [sick.extent(array) for array in sick.spec.outputs]


@EVERY
def test_a_pair_speaks_the_words_of_the_report(pair: PlantedPair) -> None:
    assert pair.parts and pair.kinds
    assert set(pair.parts) <= {*PARTS, *OUTCOMES}
    assert set(pair.kinds) <= set(KINDS)
    assert pair.what.endswith(".")


def test_a_name_stands_for_one_pair() -> None:
    assert len(BY_NAME) == len(PAIRS)


def tiles(name: str) -> int:
    return case_of(BY_NAME[name].sick).grid[0]


def test_the_grids_fill_the_sms_as_their_words_say() -> None:
    assert tiles("partial_wave") / SMS == pytest.approx(1.09, abs=0.005)
    assert tiles("too_few_ctas") == SMS // 2
    assert tiles("ramp") == SMS
    for whole in ("wave_gap", "occupancy_cliff", "l2_thrash", "late_residual"):
        assert tiles(whole) % (2 * SMS) == 0, whole
    for name in ("partial_wave", "too_few_ctas"):
        assert case_of(BY_NAME[name].cured).grid_on(SMS) == (SMS, 1, 1)


@pytest.mark.parametrize("sms", [1, 7, 132, 400])
def test_equal_runs_leave_no_cta_without_a_step_and_fit_the_partial_tiles(sms: int) -> None:
    source = WAVES.path.read_text(encoding="utf-8")
    assert re.search(rf"kMostCtas = {MOST_CTAS};", source)
    one_tile = make_case(WAVES, {}, {"m": 128, "n": 128, "k": 192})
    assert one_tile.grid_on(sms) == (min(sms, 3), 1, 1)
    assert make_case(WAVES).grid_on(sms) == (min(sms, MOST_CTAS), 1, 1)


@pytest.mark.parametrize(
    ("name", "sick", "cured"),
    [
        ("occupancy_cliff", 1, 2),
        ("partial_wave", 1, 1),
        ("wave_gap", 1, 1),
        ("short_k", 2, 2),
        ("small_boxes", 2, 2),
        ("role_imbalance", 1, 1),
        ("late_residual", 1, 1),
    ],
)
def test_shared_memory_leaves_room_for_as_many_ctas_as_said(name: str, sick: int, cured: int) -> None:
    def ctas(side: PlantedSide | None) -> int:
        case = case_of(side)
        return occupancy((9, 0), case.block[0], 32, case.smem).ctas

    assert (ctas(BY_NAME[name].sick), ctas(BY_NAME[name].cured)) == (sick, cured)


def test_a_ring_holds_slots_store_boxes_and_barriers() -> None:
    assert ring_bytes(3) == 3 * (128 + 128) * 128 + 8 * 2048 + 3 * 16
    assert ring_bytes(3, 256) - ring_bytes(3) == 3 * 128 * 128
    assert make_case(RAMP).smem == ring_bytes(5) + 16


def test_columns_that_a_tile_does_not_divide_are_refused() -> None:
    make_case(RASTER, {"tile_n": 64}, {"n": 192})
    with pytest.raises(UsageError, match="n=192 is not a multiple of tile_n=128"):
        make_case(RASTER, {"tile_n": 128}, {"n": 192})


def test_the_table_of_groups_ends_with_those_that_have_rows() -> None:
    case = make_case(RAMP, {}, {"m": 512, "n": 128, "k": 64, "groups": 7})
    inputs = draw_inputs(case, 0)
    assert inputs["ends"].tolist() == [0, 0, 0, 128, 256, 384, 512]
    few = draw_inputs(make_case(RAMP, {}, {"m": 512, "n": 128, "k": 64, "groups": 2}), 0)
    assert few["ends"].tolist() == [128, 512]
    assert draw_inputs(make_case(RAMP, {}, {"m": 128, "n": 128, "k": 64, "groups": 1}), 0)["ends"].tolist() == [128]


def test_a_row_is_scaled_by_the_first_group_that_ends_behind_it() -> None:
    inputs = {
        "a": np.ones((4, 2), np.float32),
        "b": np.ones((2, 3), np.float32),
        "ends": np.array([0, 1, 1, 4], np.int32),
        "scale": np.array([9.0, 0.5, 9.0, 0.75], np.float32),
    }
    assert scaled(inputs, np.array([0, 1, 3]))["c"].tolist() == [[1.0] * 3, [1.5] * 3, [1.5] * 3]


def test_the_residual_is_added() -> None:
    inputs = {"a": np.ones((2, 2), np.float32), "b": np.ones((2, 1), np.float32), "r": np.array([[3.0], [-4.0]])}
    assert with_residual(inputs, np.array([1]))["c"].tolist() == [[-2.0]]
