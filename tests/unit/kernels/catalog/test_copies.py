"""The four copies: what can be told of them without a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from ncubble.errors import UsageError
from ncubble.kernels.catalog import copies
from ncubble.kernels.run.verify import draw_inputs, verify
from ncubble.kernels.spec.case import make_case

EVERY = pytest.mark.parametrize("spec", copies.SPECS, ids=lambda spec: spec.name)


@EVERY
def test_every_chunk_has_a_cta_or_shares_one(spec):
    chunk = copies.chunk_floats(make_case(spec).parameters)
    assert make_case(spec, shape={"n": 1}).grid == (1, 1, 1)
    assert make_case(spec, shape={"n": chunk}).grid == (1, 1, 1)
    assert make_case(spec, shape={"n": chunk + 1}).grid == (2, 1, 1)


@EVERY
def test_the_grid_follows_the_device(spec):
    case = make_case(spec, {"ctas": 4})
    assert case.grid_on(78) == (312, 1, 1)
    assert case.grid_on(132) == case.grid == (528, 1, 1)


@EVERY
def test_shared_memory_is_a_chunk_per_stage(spec):
    for stages in (1, 2):
        case = make_case(spec, {"stages": stages, "threads": 128, "items": 2})
        assert case.smem == stages * 128 * 2 * 16


@pytest.mark.parametrize(("n", "mapped"), [(1, 1), (3, 3), (4, 4), (7, 4), (1_000_003, 1_000_000)])
def test_tensor_maps_end_with_a_whole_piece_of_16_bytes(n, mapped):
    case = make_case(copies.ASYNC_COPY_TMA, shape={"n": n})
    assert [case.mapped_extent(item) for item in case.tensor_maps] == [(mapped,), (mapped,)]


def test_registers_hold_no_more_than_one_chunk_ahead():
    with pytest.raises(UsageError, match="stages=3"):
        make_case(copies.ASYNC_COPY_MANUAL, {"stages": 3})


@EVERY
def test_the_reference_doubles_and_forgives_nothing(spec):
    case = make_case(spec, shape={"n": 1001})
    inputs = draw_inputs(case, 3)
    doubled = inputs["x"] + inputs["x"]
    assert verify(case, inputs, {"y": doubled}, 3).passed
    doubled[1000] = np.nextafter(doubled[1000], np.float32(np.inf))
    assert verify(case, inputs, {"y": doubled}, 3).bad == 1


def test_the_work_leaves_every_normal_number_as_it_is():
    # The recurrence of copy_body.cuh. x / 2 and its half are exact, so a rounded sum equals a fused
    # one.
    x = np.random.default_rng(0).standard_normal(100_000, dtype=np.float32)
    x[:3] = 0.0, np.finfo(np.float32).max, -2 * np.finfo(np.float32).tiny
    r, half = x.copy(), np.float32(0.5) * x
    for _ in range(256):
        r = r * np.float32(0.5) + half
    assert np.array_equal(r, x)
