"""Ablations: what a variant leaves out, that it cannot be verified, and that all of a plan do the
same work."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.validation.subjects import ablated, variants
from ncubble.errors import UsageError
from ncubble.kernels.catalog import ablation
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.launch import kernel_facts
from ncubble.kernels.run.session import KernelRequest, execute
from ncubble.kernels.spec.case import Case, make_case

KERNELS = ("tensor_core_gemm", "async_pipeline", "gemm_mma_swizzled", "gemm_tma", "gemm_ws")


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
def test_a_variant_leaves_out_what_its_name_says_and_no_copy_means_no_wait(variant: str, parts: set[str]) -> None:
    assert ablation.removed({"ablate": variant}) == parts
    expected = {f"WITHOUT_{part.upper()}": 1 for part in parts}
    assert ablation.defines({}, {"ablate": variant}) == expected


@pytest.mark.parametrize("name", KERNELS)
def test_a_whole_kernel_is_named_and_built_as_before_there_were_variants(name: str) -> None:
    case = make_case(find_spec(name))
    assert case.unverified is None
    assert "ablate" not in case.label
    assert "ablate" not in kernel_facts(case)["parameters"]
    assert not [text for text in case.defines if "ABLATE" in text or "WITHOUT" in text]


@pytest.mark.parametrize("name", KERNELS)
def test_a_variant_is_named_in_label_facts_and_flags(name: str) -> None:
    case = make_case(find_spec(name), {"ablate": "copy"})
    assert "ablate=copy" in case.label
    assert kernel_facts(case)["parameters"]["ablate"] == "copy"
    assert {"WITHOUT_COPY=1", "WITHOUT_WAIT=1"} <= set(case.defines)


def no_gpu() -> None:
    raise AssertionError("refused before a GPU is opened")


@pytest.mark.parametrize("iterations", [0, 100])
def test_verification_and_a_library_beside_it_are_refused(iterations: int) -> None:
    request = KernelRequest("gemm_tma", {"ablate": "copy"}, iterations=iterations, against=iterations > 0)
    with pytest.raises(UsageError, match="ablate=copy computes nothing useful") as refused:
        execute(request, no_gpu)
    assert "ncubble profile" in refused.value.remedy


def test_a_variant_that_has_nothing_to_leave_out_is_refused() -> None:
    with pytest.raises(UsageError, match="plain copy has no wait"):
        make_case(find_spec("tensor_core_gemm"), {"copy": "plain", "ablate": "wait_sync"})
    with pytest.raises(UsageError, match="ablate=sync"):
        make_case(find_spec("gemm_tma"), {"ablate": "sync"})


def test_every_subject_has_variants_with_the_same_work() -> None:
    subjects = list(ablated())
    names = [subject.name for subject in subjects]
    assert len(names) == len(set(names))
    for subject in subjects:
        (word, whole), *others = variants(subject)
        assert word == "none" and len(others) >= 2
        flops = case_of(whole).flops
        for name, entry in others:
            assert case_of(entry).flops == pytest.approx(flops * entry["shape"]["m"] / subject.shape["m"]), name


def test_the_shape_without_a_tail_is_whole_waves() -> None:
    for subject in ablated():
        for word, entry in variants(subject):
            if word == "tail":
                assert math.prod(case_of(entry).grid) % 132 == 0, subject.name


def case_of(entry: Mapping[str, Any]) -> Case:
    return make_case(find_spec(entry["kernel"]), entry["parameters"], entry["shape"])
