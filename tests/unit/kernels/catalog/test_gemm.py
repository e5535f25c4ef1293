"""The GEMMs on shared-memory tiles and mma.sync, and the variants that leave something out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from benchmarks.validation.subjects import ablated, variants
from ncubble.errors import UsageError
from ncubble.kernels.catalog import ablation
from ncubble.kernels.catalog.gemm import GEMM_MMA_SWIZZLED, NUMBA_TENSOR_CORE_GEMM
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.launch import kernel_facts
from ncubble.kernels.run.session import KernelRequest, execute
from ncubble.kernels.spec.case import Case, make_case

ABLATED = ("tensor_core_gemm", "async_pipeline", "gemm_mma_swizzled", "gemm_tma", "gemm_ws")


@pytest.mark.parametrize("spec", [GEMM_MMA_SWIZZLED, NUMBA_TENSOR_CORE_GEMM], ids=lambda spec: spec.name)
@pytest.mark.parametrize(
    ("parameters", "shape", "message"),
    [
        ({}, {"n": 384}, "n=384 is not a multiple of tile_n=256"),
        ({}, {"k": 96}, "k=96 is not a multiple of tile_k=64"),
        ({}, {"m": 100}, "m=100 is not a multiple of 128"),
        ({"stages": 5}, {}, "245760 bytes of shared memory per CTA; GPUs have at most 232448"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_requirement(spec, parameters, shape, message):
    with pytest.raises(UsageError, match=message):
        make_case(spec, parameters, shape)


def test_smaller_tiles_take_what_larger_ones_refuse_and_every_tile_of_c_has_a_cta():
    make_case(GEMM_MMA_SWIZZLED, {"tile_n": 128, "tile_k": 32, "stages": 6}, {"m": 128, "n": 384, "k": 96})
    case = make_case(GEMM_MMA_SWIZZLED, {"tile_n": 128}, {"m": 2176, "n": 640, "k": 64})
    assert (case.grid, case.block) == ((17 * 5, 1, 1), (128, 1, 1))


def test_shared_memory_holds_the_ring_and_at_least_the_result():
    ring = make_case(GEMM_MMA_SWIZZLED, {"tile_n": 256, "tile_k": 64, "stages": 4})
    assert ring.smem == 4 * (128 + 256) * 64 * 2
    short = make_case(GEMM_MMA_SWIZZLED, {"tile_n": 256, "tile_k": 32, "stages": 2})
    assert short.smem == 128 * 256 * 2, "two stages of 24 KB are less than C's 64 KB"


def test_the_tolerance_covers_rounding_to_half_but_no_missing_term():
    exact = np.random.default_rng(3).standard_normal((100, 100)) * 64
    allowed = make_case(GEMM_MMA_SWIZZLED, shape={"k": 4096}).tolerance.bound(exact)
    assert (np.abs(exact.astype(np.float16) - exact) <= allowed).all()
    assert np.median(allowed) < 0.1, "a missing product of two normals is about 1"


# Variants that leave something out.


@pytest.mark.parametrize(
    ("variant", "parts"),
    [
        ("none", set()),
        ("wait", {"wait"}),
        ("copy", {"copy", "wait"}),
        ("wait_sync", {"wait", "sync"}),
        ("copy_smem", {"copy", "wait", "smem"}),
        ("all", {"wait", "copy", "sync", "smem", "epilogue"}),
    ],
)
def test_a_variant_leaves_out_what_its_name_says_and_no_copy_means_no_wait(variant, parts):
    assert ablation.removed({"ablate": variant}) == parts
    assert ablation.defines({}, {"ablate": variant}) == {f"WITHOUT_{part.upper()}": 1 for part in parts}


@pytest.mark.parametrize("name", ABLATED)
def test_a_variant_is_named_in_label_facts_and_flags_and_a_whole_kernel_is_as_if_there_were_none(name):
    whole, case = make_case(find_spec(name)), make_case(find_spec(name), {"ablate": "copy"})
    assert whole.unverified is None
    assert "ablate" not in whole.label and "ablate" not in kernel_facts(whole)["parameters"]
    assert not [text for text in whole.defines if "ABLATE" in text or "WITHOUT" in text]
    assert "ablate=copy" in case.label and kernel_facts(case)["parameters"]["ablate"] == "copy"
    assert {"WITHOUT_COPY=1", "WITHOUT_WAIT=1"} <= set(case.defines)


@pytest.mark.parametrize("iterations", [0, 100])
def test_verification_and_a_library_beside_it_are_refused_before_a_gpu_is_opened(iterations):
    request = KernelRequest("gemm_tma", {"ablate": "copy"}, iterations=iterations, against=iterations > 0)
    with pytest.raises(UsageError, match="ablate=copy computes nothing useful") as refused:
        execute(request, lambda: pytest.fail("a GPU was opened"))
    assert "ncubble profile" in refused.value.remedy


def test_a_variant_that_has_nothing_to_leave_out_is_refused():
    with pytest.raises(UsageError, match="plain copy has no wait"):
        make_case(find_spec("tensor_core_gemm"), {"copy": "plain", "ablate": "wait_sync"})


def test_every_subject_has_variants_with_the_same_work_and_the_one_without_a_tail_is_whole_waves():
    subjects = list(ablated())
    names = [subject.name for subject in subjects]
    assert len(names) == len(set(names))
    for subject in subjects:
        (word, whole), *others = variants(subject)
        assert word == "none" and len(others) >= 2
        flops = case_of(whole).flops
        for name, entry in others:
            assert case_of(entry).flops == pytest.approx(flops * entry["shape"]["m"] / subject.shape["m"]), name
            assert name != "tail" or math.prod(case_of(entry).grid) % 132 == 0, subject.name


def case_of(entry: Mapping[str, Any]) -> Case:
    return make_case(find_spec(entry["kernel"]), entry["parameters"], entry["shape"])
