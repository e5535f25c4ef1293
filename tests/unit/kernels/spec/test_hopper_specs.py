"""What specs of Hopper kernels can say: tensor maps, clusters, persistent grids, several launches,
bfloat16."""

from __future__ import annotations

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from ncubble.errors import UsageError
from ncubble.kernels import build as building
from ncubble.kernels.run import launch
from ncubble.kernels.run.launch import prepare
from ncubble.kernels.run.verify import draw_inputs, verify
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.spec.spec import LAUNCH, SMS, Array, Dim, KernelSpec, Parameter, TensorMap, Tolerance
from tests.helpers.fake_gpu import FakeGpu


def spec(**changes) -> KernelSpec:
    known = KernelSpec(
        name="doubled",
        source="doubled.cu",
        idea="y = 2 x",
        dims=(Dim("heads", 6), Dim("rows", 64), Dim("cols", 64)),
        arrays=(
            Array("x", ("heads", "rows", "cols"), "bfloat16"),
            Array("y", ("heads", "rows", "cols"), "bfloat16", output=True),
        ),
        parameters=(Parameter("path", "cp_async", ("cp_async", "tma")),),
        grid=lambda shape, parameters: (8, 2),
        block=lambda shape, parameters: (128,),
        row_dims=2,
        reference=lambda inputs, rows: {"y": 2.0 * inputs["x"].reshape(-1, 64)[rows].astype(np.float64)},
        tolerance=lambda shape: Tolerance(relative=2**-8),
    )
    return replace(known, **changes)


def a_map(box=(1, 64, 64), swizzle=128, view=None) -> TensorMap:
    return TensorMap("x", lambda shape, parameters: box, swizzle, view)


@pytest.mark.parametrize(
    ("item", "complaint"),
    [
        (a_map(box=(64, 64)), "a box has as many edges"),
        (a_map(box=(1, 512, 64)), r"each of 1\.\.256"),
        (a_map(box=(1, 64, 128)), "a box row of 'x' has 256 bytes, the swizzle 128"),
        (a_map(box=(1, 64, 4)), "a box row of 'x' has 8 bytes, TMA needs a multiple of 16"),
        (a_map(box=(64, 64), view=lambda shape: (385, 64)), r"sees \(385, 64\)"),
    ],
)
def test_a_tensor_map_that_the_driver_would_refuse_is_refused_with_the_reason(item, complaint):
    with pytest.raises(UsageError) as refused:
        make_case(spec(tensor_maps=(item,)))
    assert re.search(complaint, f"{refused.value.message} {refused.value.remedy}")


@pytest.mark.parametrize(
    ("cluster", "complaint"),
    [
        ((3,), r"a grid of \(8, 2, 1\) CTAs is not a multiple of the cluster size \(3, 1, 1\)"),
        ((8, 2, 2), r"allowed: 1\.\.16 in total"),
        ((0,), r"allowed: 1\.\.16 in total"),
    ],
)
def test_clusters_that_no_launch_could_have_are_refused(cluster, complaint):
    with pytest.raises(UsageError, match=complaint):
        make_case(spec(cluster=lambda shape, parameters: cluster))


def test_a_grid_of_broken_clusters_on_this_device_is_refused_before_anything_is_built():
    case = make_case(
        spec(
            cluster=lambda shape, parameters: (4,),
            persistent=lambda sms, shape, parameters: (sms - 1,),
        )
    )
    gpu = FakeGpu()
    with pytest.raises(UsageError, match=r"a grid of \(131, 1, 1\) CTAs"):
        prepare(case, gpu)
    assert not gpu.memory


def test_a_kernel_that_the_device_is_too_old_for_takes_no_memory_of_it():
    gpu = FakeGpu()
    gpu.arch = "sm_80"
    with pytest.raises(UsageError, match="needs sm_90 or later"):
        prepare(make_case(spec(min_arch=90)), gpu)
    assert not gpu.memory


@pytest.mark.parametrize("changes", [{"cluster": lambda shape, parameters: (2,)}, {"tensor_maps": (a_map(),)}])
def test_what_numba_cannot_launch_is_refused(changes):
    with pytest.raises(UsageError, match="Numba supports neither clusters nor tensor maps"):
        make_case(spec(source="doubled.py", **changes))


def test_rows_that_tma_cannot_address_are_refused_with_the_multiple():
    with pytest.raises(UsageError) as refused:
        make_case(spec(tensor_maps=(a_map(),)), shape={"cols": 65})
    assert "TMA needs a multiple of 16" in refused.value.message
    assert "multiple of 8 elements" in refused.value.remedy


def test_a_tensor_map_of_no_array_is_refused_where_the_spec_is_written():
    with pytest.raises(UsageError, match="tensor_maps names z"):
        spec(tensor_maps=(TensorMap("z", lambda shape, parameters: (1,)),))


def test_a_tensor_map_may_see_the_array_with_other_extents():
    item = a_map(box=(64, 64), view=lambda shape: (shape["heads"] * shape["rows"], shape["cols"]))
    assert make_case(spec(tensor_maps=(item,))).mapped_extent(item) == (384, 64)


def test_a_tensor_map_may_leave_out_the_end_of_the_array():
    item = a_map(box=(64, 64), view=lambda shape: (shape["heads"] * shape["rows"] - 1, shape["cols"]))
    assert make_case(spec(tensor_maps=(item,))).mapped_extent(item) == (383, 64)


def test_a_persistent_grid_follows_the_device_and_the_plain_one_does_not():
    persistent = make_case(spec(persistent=lambda sms, shape, parameters: (2 * sms,)))
    assert persistent.grid_on(132) == (264, 1, 1)
    assert make_case(spec()).grid_on(132) == (8, 2, 1)


def test_launch_index_and_sm_count_are_passed_where_the_spec_names_them():
    case = make_case(spec(scalars=("rows", LAUNCH, SMS), launches=lambda shape, parameters: 3))
    assert case.launches == 3
    assert [int(value) for value in case.scalars(2, 132)] == [64, 2, 132]


def test_what_a_spec_requires_of_shape_and_parameters_is_told_before_the_launch():
    wants = spec(
        requires=lambda shape, parameters: "path=tma takes rows >= 128" if parameters["path"] == "tma" else None
    )
    make_case(wants)
    with pytest.raises(UsageError, match="path=tma takes rows >= 128"):
        make_case(wants, {"path": "tma"})


def test_a_path_for_one_architecture_is_refused_on_the_others():
    wants = spec(
        arch_of=lambda parameters: 90 if parameters["path"] == "tma" else 80,
        only_arch=lambda parameters: 90 if parameters["path"] == "tma" else None,
    )
    building.check_arch(make_case(wants), "sm_80")
    building.check_arch(make_case(wants, {"path": "tma"}), "sm_90a")
    for arch in ("sm_80", "sm_100a"):
        with pytest.raises(UsageError, match=r"path=tma exists only for sm_90a") as refused:
            building.check_arch(make_case(wants, {"path": "tma"}), arch)
        assert "compute capability 9.0" in refused.value.remedy


TWO_PATHS = spec(
    parameters=(
        Parameter("path", "tma", ("cp_async", "tma"), elsewhere="cp_async"),
        Parameter("stages", 4, (1, 2, 4), elsewhere=2),
        Parameter("ctas", 1, (1, 2)),
    ),
    only_arch=lambda parameters: 90 if parameters["path"] == "tma" else None,
)


@pytest.mark.parametrize(
    ("arch", "given", "expected"),
    [
        ("sm_90a", {}, {"path": "tma", "stages": 4, "ctas": 1}),
        ("sm_80", {}, {"path": "cp_async", "stages": 2, "ctas": 1}),
        ("sm_100a", {"ctas": 2}, {"path": "cp_async", "stages": 2, "ctas": 2}),
        ("sm_80", {"stages": 4}, {"path": "cp_async", "stages": 4, "ctas": 1}),
        ("sm_80", {"path": "cp_async"}, {"path": "cp_async", "stages": 2, "ctas": 1}),  # named or not, the same
        ("sm_90a", {"path": "cp_async"}, {"path": "cp_async", "stages": 4, "ctas": 1}),
    ],
)
def test_defaults_follow_the_architecture_and_what_is_given_stays(arch, given, expected):
    case = building.case_for(make_case(TWO_PATHS, given), arch)
    assert dict(case.parameters) == expected
    building.check_arch(case, arch)


def test_defaults_that_follow_the_sms_are_those_of_the_device(monkeypatch):
    seen = []
    monkeypatch.setattr(launch, "build", lambda case, *rest: seen.append(case))
    monkeypatch.setattr(launch, "load_built", lambda *given: (None, None))
    monkeypatch.setattr(launch.BuildFacts, "of", lambda *given: None)
    case = make_case(spec(defaults=lambda sms, shape, given: {"path": "tma" if sms < 140 else "cp_async"}))
    assert prepare(case, FakeGpu()).case.parameters == seen[0].parameters == {"path": "tma"}
    gpu = FakeGpu()
    gpu.facts = replace(gpu.facts, sm_count=148)
    assert prepare(case, gpu).case.parameters == {"path": "cp_async"}


def test_a_path_that_is_named_is_refused_where_it_does_not_exist():
    gpu = FakeGpu()
    gpu.arch = "sm_80"
    with pytest.raises(UsageError, match="path=tma stages=2 ctas=1 exists only for sm_90a"):
        prepare(make_case(TWO_PATHS, {"path": "tma"}), gpu)
    assert not gpu.memory


def test_a_default_for_other_gpus_must_be_a_choice():
    with pytest.raises(UsageError, match="default 'wmma' is not among cp_async, tma"):
        Parameter("path", "tma", ("cp_async", "tma"), elsewhere="wmma")


def test_macros_from_the_shape_are_defined():
    case = make_case(spec(defines=lambda shape, parameters: {"COLS": shape["cols"]}))
    assert "COLS=64" in case.defines


def test_work_that_depends_on_parameters_replaces_flops():
    case = make_case(spec(work=lambda shape, parameters: 7.0 if parameters["path"] == "tma" else 1.0), {"path": "tma"})
    assert case.flops == 7.0


def test_inputs_of_the_wrong_type_from_draw_are_refused():
    wrong = spec(draw=lambda generator, shape: {"x": generator.standard_normal((6, 64, 64))})
    with pytest.raises(UsageError, match="draw returned float64"):
        draw_inputs(make_case(wrong), 0)


def test_bfloat16_rows_over_two_dimensions_are_verified():
    case = make_case(spec())
    inputs = draw_inputs(case, 1)
    assert inputs["x"].dtype == ml_dtypes.bfloat16
    right = {"y": (2 * inputs["x"].astype(np.float32)).astype(ml_dtypes.bfloat16)}
    checked = verify(case, inputs, right, 1)
    assert checked.passed
    assert checked.checked == 6 * 64 * 64
    right["y"][5, 63, 63] += 1
    assert verify(case, inputs, right, 1).bad == 1
    right["y"][5, 63, 63] = np.nan
    assert verify(case, inputs, right, 1).nonfinite == 1
