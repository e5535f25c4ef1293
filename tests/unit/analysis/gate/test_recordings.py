"""The recorded repeats under the project's own gate: they keep the baselines that ship, by the
pytest plugin."""

from __future__ import annotations

import pytest

RECORDED = "recordings/h200-repeats/tensor_core_gemm"


@pytest.mark.tensor_util(min=44, baseline="baselines")
def test_the_recorded_gemm_keeps_its_baseline(ncubble):
    ncubble.report(f"{RECORDED}/stages3")


@pytest.mark.xfail(strict=True, raises=pytest.fail.Exception)
@pytest.mark.tensor_util(
    baseline="baselines/nvidia-h200/tensor-core-gemm-stages-3-copy-async-vec-16-m-4096-n-4096-k-4096-da29d883.json"
)
def test_narrow_copies_do_not_keep_the_baseline_of_wide_ones(ncubble):
    ncubble.report(f"{RECORDED}/stages3-vec4")
