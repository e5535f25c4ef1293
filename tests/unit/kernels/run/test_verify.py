"""Verification: what it must catch."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from ncubble.errors import UsageError, VerificationError
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.verify import Verification, choose_rows, draw_inputs, verify
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.spec.spec import Array, Dim, KernelSpec, Tolerance


@pytest.fixture
def gemm():
    case = make_case(find_spec("tiled_matmul"), shape={"m": 256, "n": 128, "k": 64})
    inputs = draw_inputs(case, 7)
    return case, inputs, inputs["a"] @ inputs["b"]


def test_a_right_result_passes(gemm):
    case, inputs, c = gemm
    checked = verify(case, inputs, {"c": c}, 7)
    assert checked.passed
    assert checked.checked == checked.total == 256 * 128
    assert checked.bad_pct == 0.0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_element_that_is_not_finite_fails(gemm, value):
    case, inputs, c = gemm
    c[17, 5] = value
    checked = verify(case, inputs, {"c": c}, 7)
    assert not checked.passed
    assert checked.bad == 1
    assert checked.nonfinite == 1
    assert checked.max_abs_error == np.inf


def test_an_output_that_was_never_written_fails(gemm):
    case, inputs, c = gemm
    poisoned = np.frombuffer(b"\xff" * c.nbytes, dtype=np.float32).reshape(c.shape)
    assert verify(case, inputs, {"c": poisoned}, 7).nonfinite == c.size


def test_one_missing_term_or_a_write_past_the_end_fails(gemm):
    case, inputs, c = gemm
    written = verify(case, inputs, {"c": c}, 7, overrun=("c",))
    assert not written.passed and "past the end of 'c'" in written.describe()
    c[200, 100] -= inputs["a"][200, 3] * inputs["b"][3, 100]
    checked = verify(case, inputs, {"c": c}, 7)
    assert checked.bad == 1 and not checked.passed


@pytest.mark.parametrize("reference", [lambda inputs, rows: {}, lambda inputs, rows: {"c": inputs["q"]}])
def test_a_reference_that_fails_is_named(gemm, reference):
    case, inputs, c = gemm
    case = replace(case, spec=replace(case.spec, reference=reference))
    with pytest.raises(VerificationError, match="its reference failed: KeyError"):
        verify(case, inputs, {"c": c}, 7)


def test_nothing_compared_is_no_pass_and_a_failure_says_how_to_repeat_it():
    assert not Verification(max_abs_error=0.0, bad=0, checked=0, nonfinite=0, total=0).passed
    failed = Verification(max_abs_error=1.0, bad=1, checked=4, nonfinite=0, total=4)
    with pytest.raises(VerificationError, match="25 % bad") as raised:
        failed.require("kernel", 99)
    assert raised.value.exit_code == 4 and "--seed 99" in raised.value.remedy


@pytest.mark.parametrize("m", [4096, 16384, 128 * 131])
def test_the_sample_of_a_large_gemm_holds_every_position_and_every_tile(m):
    case = make_case(find_spec("tensor_core_gemm"), shape={"m": m})
    for seed in range(3):
        rows = choose_rows(case, seed)
        assert len(rows) < m
        assert set(rows % 128) == set(range(128))
        assert set(rows // 128) == set(range(m // 128))


def test_a_sample_is_as_large_as_planned_and_another_for_each_seed():
    rows = choose_rows(make_case(find_spec("softmax_online")), 0)
    assert len(rows) == 2048 and rows.max() < 16384
    case = make_case(find_spec("tensor_core_gemm"))
    assert not np.array_equal(choose_rows(case, 0), choose_rows(case, 1))


def test_an_error_outside_the_sampled_rows_still_shows_if_it_is_not_finite():
    case = make_case(find_spec("tensor_core_gemm"), shape={"m": 8192, "n": 1024, "k": 1024})
    inputs = draw_inputs(case, 0)
    c = inputs["a"].astype(np.float32) @ inputs["b"].astype(np.float32)
    rows = choose_rows(case, 0)
    missed = np.setdiff1d(np.arange(8192), rows)[0]
    c[missed, 3] = np.nan
    checked = verify(case, inputs, {"c": c}, 0)
    assert checked.bad == 0
    assert not checked.passed


def test_inputs_follow_the_seed_and_keep_the_stored_type():
    case = make_case(find_spec("tensor_core_gemm"), shape={"m": 128, "n": 128, "k": 128})
    first, again, other = draw_inputs(case, 1), draw_inputs(case, 1), draw_inputs(case, 2)
    assert first["a"].dtype == np.float16
    assert np.array_equal(first["a"], again["a"])
    assert not np.array_equal(first["a"], other["a"])
    assert abs(float(first["a"].astype(float).std()) - 1.0) < 0.05


DOUBLED = KernelSpec(
    name="doubled",
    source="doubled.cu",
    idea="y = 2 x",
    dims=(Dim("heads", 6), Dim("rows", 64), Dim("cols", 64)),
    arrays=tuple(Array(name, ("heads", "rows", "cols"), "bfloat16", output=name == "y") for name in "xy"),
    grid=(8,),
    block=(128,),
    row_dims=2,
    reference=lambda inputs, rows: {"y": 2.0 * inputs["x"].reshape(-1, 64)[rows].astype(np.float64)},
    tolerance=Tolerance(relative=2**-8),
)


def test_bfloat16_rows_over_two_dimensions_are_verified():
    case = make_case(DOUBLED)
    inputs = draw_inputs(case, 1)
    right = {"y": (2 * inputs["x"].astype(np.float32)).astype(ml_dtypes.bfloat16)}
    checked = verify(case, inputs, right, 1)
    assert checked.passed and checked.checked == 6 * 64 * 64
    right["y"][5, 63, 63] += 1
    assert verify(case, inputs, right, 1).bad == 1
    right["y"][5, 63, 63] = np.nan
    assert verify(case, inputs, right, 1).nonfinite == 1


def test_inputs_of_the_wrong_type_from_draw_are_refused():
    wrong = replace(DOUBLED, draw=lambda generator, shape: {"x": generator.standard_normal((6, 64, 64))})
    with pytest.raises(UsageError, match="draw returned float64"):
        draw_inputs(make_case(wrong), 0)
