"""Which configurations of a kernel a search may choose."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ncubble.errors import UsageError
from ncubble.kernels.catalog.registry import SPECS, find_spec
from ncubble.kernels.run.tune import space_of
from ncubble.kernels.spec.spec import DOWN, UP, Parameter
from tests.helpers.fake_gpu import H200
from tests.helpers.tune_bench import toy

AMPERE = replace(H200, name="A100", compute_capability=(8, 0), smem_per_cta=166912, sm_count=108)


def space(name, fixed=None, start=None, shape=None, device=H200):
    return space_of(find_spec(name), shape or {}, fixed or {}, start or {}, device)


def test_the_space_holds_every_valid_combination_once_and_no_other():
    found = space("tensor_core_gemm")
    assert [axis.name for axis in found.axes] == ["stages", "copy", "vec"]
    assert len(found.cases) == 24
    assert found.settings(found.start) == {"stages": 3, "copy": "async", "vec": 16}
    assert all(case.parameters["ablate"] == "none" for case in found.cases.values())
    assert found.left_out == {}


def test_stages_that_do_not_fit_the_gpu_are_no_configurations():
    most = {
        device.name: max(
            case.parameters["stages"]
            for case in space("gemm_mma_swizzled", start={"stages": 3}, device=device).cases.values()
            if case.parameters["tile_n"] == 256 and case.parameters["tile_k"] == 64
        )
        for device in (H200, AMPERE)
    }
    assert most == {"Fake H200": 4, "A100": 3}


def test_a_search_of_gemm_ws_holds_the_tile_that_suits_the_shape():
    found = space("gemm_ws", shape={"m": 2232, "n": 2112, "k": 1792})
    assert found.left_out == {
        "tile_m": "fixed at 192, its default here",
        "form": "fixed at turned, its default here",
        "edge": "fixed at moved, its default here",
    }
    assert {(case.parameters["tile_m"], case.parameters["form"]) for case in found.cases.values()} == {(192, "turned")}
    assert found.cases[found.start].parameters["tile_n"] == 192


def test_what_says_what_is_computed_is_not_searched_but_may_be_held():
    found = space("attention_fwd")
    assert found.left_out == {"causal": "defines what is computed"}
    assert {case.parameters["causal"] for case in found.cases.values()} == {0}
    held = space("attention_fwd", {"causal": "1"})
    assert held.left_out == {"causal": "fixed by -p"}
    assert {case.parameters["causal"] for case in held.cases.values()} == {1}
    assert len({case.flops for case in held.cases.values()}) == 1


def test_every_parameter_of_the_catalog_that_changes_the_work_says_so():
    for spec in SPECS:
        if spec.language == "host":
            continue
        for item in spec.parameters:
            works = (
                {spec.work(shape_of(spec), defaults(spec) | {item.name: value}) for value in item.choices}
                if spec.work
                else {0}
            )
            assert len(works) == 1 or item.problem, f"{spec.name}: {item.name}"


def shape_of(spec):
    return {dim.name: dim.default for dim in spec.dims}


def defaults(spec):
    return {item.name: item.default for item in spec.parameters}


def test_a_held_parameter_is_no_axis_and_the_start_is_where_it_is_said():
    found = space("tensor_core_gemm", {"copy": "plain"}, {"stages": "1"})
    assert [axis.name for axis in found.axes] == ["stages", "vec"]
    assert found.settings(found.start) == {"stages": 1, "vec": 16}
    assert {case.parameters["copy"] for case in found.cases.values()} == {"plain"}


def test_moving_stays_in_the_space():
    found = space("gemm_mma_swizzled", start={"stages": 4, "tile_n": 256, "tile_k": 64})
    assert found.settings(found.moved(found.start, "stages", 3))["stages"] == 3
    assert found.moved(found.start, "stages", 6) is None  # more shared memory than there is
    assert found.moved(found.start, "stages", 99) is None and found.moved(found.start, "none", 1) is None


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("stream_pipeline",), "driven by the host"),
        (("tiled_matmul",), "no other valid configuration"),
        (("tensor_core_gemm", {"stages": 2}, {"stages": 3}), "both fixed and searched"),
        (("tensor_core_gemm", {}, {"ablate": "copy"}), "ablate=copy"),
        (("gemm_ws", {}, {}, {}, AMPERE), "only for sm_90a"),
        (("tensor_core_gemm", {"stages": 9}), "stages=9 is not allowed"),
        (("tensor_core_gemm", {"nonsense": 9}), "no parameter 'nonsense'"),
    ],
)
def test_a_space_that_cannot_be_searched_is_refused(arguments, complaint):
    with pytest.raises(UsageError, match=complaint):
        space(*arguments)


def test_a_space_too_large_to_look_through_is_refused():
    spec = toy()
    many = tuple(Parameter(f"p{number}", 0, tuple(range(16))) for number in range(5))
    with pytest.raises(UsageError, match="at most 50000 are searched"):
        space_of(replace(spec, parameters=(*spec.parameters, *many)), {}, {}, {}, H200)


def test_cures_name_values_that_exist():
    Parameter("stages", 2, (1, 2), cures={"data_wait": UP, "tail": DOWN, "issue": 1})
    with pytest.raises(UsageError, match="9, which fixes data_wait, is not among"):
        Parameter("stages", 2, (1, 2), cures={"data_wait": 9})
