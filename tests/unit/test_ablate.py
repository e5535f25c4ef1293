"""Ablations: what a variant leaves out, that it cannot be verified, and what a measurement makes of fabricated runs."""

from __future__ import annotations

import importlib
import json
import math
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from ncubble.errors import UsageError
from ncubble.kernels.case import make_case
from ncubble.kernels.facts import kernel_facts
from ncubble.kernels.registry import find_spec
from ncubble.kernels.session import Request, execute
from ncubble.kernels.specs import ablation
from ncubble.recordings import REPEATS

KERNELS = ("tensor_core_gemm", "async_pipeline", "gemm_mma_swizzled", "gemm_tma", "gemm_ws")


@pytest.fixture
def ablate(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("ablate")


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
    request = Request("gemm_tma", {"ablate": "copy"}, iterations=iterations, against=iterations > 0)
    with pytest.raises(UsageError, match="ablate=copy computes nothing useful") as refused:
        execute(request, no_gpu)
    assert "ncubble profile" in refused.value.remedy


def test_a_variant_that_has_nothing_to_leave_out_is_refused() -> None:
    with pytest.raises(UsageError, match="plain copy has no wait"):
        make_case(find_spec("tensor_core_gemm"), {"copy": "plain", "ablate": "wait_sync"})
    with pytest.raises(UsageError, match="ablate=sync"):
        make_case(find_spec("gemm_tma"), {"ablate": "sync"})


def test_every_case_of_the_plan_has_variants_with_the_same_work(ablate: ModuleType) -> None:
    names = [subject.name for subject in ablate.plan()]
    assert len(names) == len(set(names))
    for subject in ablate.plan():
        variants = list(subject.variants())
        assert variants[0].word == "none" and len(variants) > 2
        for variant in variants:
            case = make_case(find_spec(subject.kernel), variant.parameters, variant.shape)
            assert case.flops == pytest.approx(variant.work * 2 * 4096**3)


def test_the_shape_without_a_tail_is_whole_waves(ablate: ModuleType) -> None:
    for subject in ablate.plan():
        for variant in subject.variants():
            if variant.word == "tail":
                case = make_case(find_spec(subject.kernel), variant.parameters, variant.shape)
                assert math.prod(case.grid) % 132 == 0, subject.name


def launch(ablate: ModuleType, cycles: float, products: float = 8.0, busy: float = 50.0) -> dict[str, float]:
    other = dict.fromkeys(ablate.PRODUCTS, 0.0)
    return {**other, ablate.PRODUCTS[1]: products, ablate.CYCLES: cycles, ablate.BUSY: busy}


def test_a_run_is_the_median_of_its_launches(ablate: ModuleType) -> None:
    found = ablate.summary([launch(ablate, cycles) for cycles in (1010.0, 1000.0, 2000.0)])
    assert (found.launches, found.cycles, found.products) == (3, 1010.0, 8.0)
    assert found.spread_pct == pytest.approx(100 * 1000 / 1010)


def test_what_was_not_collected_is_none_and_no_cycles_are_refused(ablate: ModuleType) -> None:
    found = ablate.summary([{**launch(ablate, 5.0, math.nan), ablate.BUSY: math.nan}])
    assert found.tensor_pct is None and found.products is None
    with pytest.raises(ValueError, match="cycles"):
        ablate.summary([launch(ablate, math.nan)])
    with pytest.raises(ValueError, match="cycles"):
        ablate.summary([])


def test_vanished_cycles_are_counted_for_the_same_work(ablate: ModuleType) -> None:
    base = ablate.summary([launch(ablate, 1000.0)])
    faster = ablate.compared(base, ablate.summary([launch(ablate, 700.0)]))
    assert faster["vanished_pct"] == pytest.approx(30.0) and faster["same_products"] is True
    larger = ablate.compared(base, ablate.summary([launch(ablate, 1000.0, 10.0)]), 1.25)
    assert larger["vanished_pct"] == pytest.approx(20.0) and larger["same_products"] is True


def test_a_variant_with_fewer_products_is_told(ablate: ModuleType) -> None:
    base, fewer = (ablate.summary([launch(ablate, 1000.0, count)]) for count in (8.0, 7.0))
    assert ablate.compared(base, fewer)["same_products"] is False
    assert ablate.compared(base, replace(fewer, products=None))["same_products"] is None


def test_an_overlap_needs_both_parts(ablate: ModuleType) -> None:
    vanished = {"copy": 34.0, "smem": 5.0, "copy_smem": 48.0, "copy_sync": 40.0, "tail": 1.0, "all": 60.0}
    assert ablate.overlaps(vanished) == {"copy_smem": pytest.approx(9.0)}


def test_rows_are_json_and_the_table_marks_other_work(ablate: ModuleType) -> None:
    subject = ablate.Subject("tensor_core_gemm", {"stages": 2})
    runs = {"none": launch(ablate, 1000.0), "copy": launch(ablate, 600.0), "smem": launch(ablate, 950.0, 7.0)}
    row = ablate.row(subject, {word: ablate.summary([one]) for word, one in runs.items()})
    assert json.loads(json.dumps(row)) == row
    assert list(row["variants"]) == ["copy", "smem"]
    head, line = ablate.table([row])
    assert head.split()[-2:] == ["copy", "smem"]
    assert line.split()[-2:] == ["40.0", "5.0!"]


def test_a_recorded_run_is_read(ablate: ModuleType) -> None:
    found = ablate.read(REPEATS / "tensor_core_gemm" / "stages3")
    assert found.launches == 5
    assert 0 < found.spread_pct < 3
    # 4096^3 products in HMMA of 16 x 8 x 16.
    assert found.products == 4096**3 / (16 * 8 * 16)


def test_the_command_profiles_with_parameters_shape_and_repeats(ablate: ModuleType, tmp_path: Path) -> None:
    argv = ablate.Variant(ablate.Subject("gemm_ws"), "copy").argv(tmp_path, 3)
    assert argv[:2] == ["ncubble", "profile"]
    assert argv[-7:] == ["gemm_ws", "-p", "ablate=copy", "--shape", "m=4096,n=4096,k=4096", "--repeat", "3"]
