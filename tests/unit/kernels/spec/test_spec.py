"""Specs, cases and the registry: what is refused before there is a GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncubble.errors import UsageError
from ncubble.kernels.catalog.registry import SPECS, catalog, find_spec
from ncubble.kernels.run.session import KernelRequest, parse_parameters, parse_shape
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.spec.spec import Array, Dim, KernelSpec, Parameter, Scalar

OWN = Path(__file__).parents[3] / "data" / "catalog"


def own_spec() -> KernelSpec:
    return KernelSpec(
        name="own",
        source="own.cu",
        idea="y = n",
        dims=(Dim("n", 1024), Dim("m", 64)),
        arrays=(Array("y", ("n",), output=True),),
        grid=lambda shape, parameters: (4,),
        block=lambda shape, parameters: (256,),
        reference=lambda inputs, rows: {"y": rows},
    )


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_every_spec_of_the_catalog_makes_a_case_and_has_its_source(spec):
    case = make_case(spec)
    assert spec.path.is_file()
    assert spec.entry in spec.path.read_text(encoding="utf-8")
    assert case.bytes == sum(case.nbytes(array) for array in spec.arrays)
    assert spec.demonstrates and spec.idea


def test_a_parameter_out_of_range_names_parameter_value_and_range():
    with pytest.raises(UsageError) as refused:
        make_case(find_spec("tensor_core_gemm"), {"stages": "9"})
    assert "stages=9" in refused.value.message
    assert "1..6" in refused.value.remedy


def test_async_pipeline_refuses_one_stage():
    with pytest.raises(UsageError, match="stages=1"):
        make_case(find_spec("async_pipeline"), {"stages": 1})


def test_an_unknown_parameter_lists_the_known_ones():
    with pytest.raises(UsageError) as refused:
        make_case(find_spec("tensor_core_gemm"), {"stage": "2"})
    assert "stages, copy, vec" in refused.value.remedy


@pytest.mark.parametrize(("size", "use"), [(100, 128), (200, 256), (64, 128), (1, 128)])
def test_a_size_that_is_no_multiple_of_the_tile_is_refused_with_the_nearest_that_is(size, use):
    with pytest.raises(UsageError) as refused:
        make_case(find_spec("tensor_core_gemm"), shape={"m": size})
    assert f"m={size} is not a multiple of 128" in refused.value.message
    assert f"m={use}" in refused.value.remedy


@pytest.mark.parametrize("size", [0, -128, 2**31])
def test_sizes_out_of_range_are_refused(size):
    with pytest.raises(UsageError, match="out of range"):
        make_case(find_spec("tensor_core_gemm"), shape={"k": size})


def test_a_grid_that_no_gpu_takes_is_refused():
    with pytest.raises(UsageError, match="grid y would be 65536"):
        make_case(find_spec("tiled_matmul"), shape={"m": 65536 * 128})


def test_words_become_macros_that_can_be_compared():
    case = make_case(find_spec("tensor_core_gemm"), {"copy": "plain", "vec": "4"})
    assert case.defines == ("STAGES=3", "COPY_PLAIN=0", "COPY_ASYNC=1", "COPY=COPY_PLAIN", "VEC=4")


def test_scalars_keep_their_types():
    case = make_case(find_spec("saxpy", OWN), shape={"n": 1000})
    assert [(value, value.dtype) for value in case.scalars()] == [(2.0, np.float32), (1000, np.int32)]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"arrays": (Array("x", ("n",)),)}, "at least one output"),
        ({"arrays": (Array("total", (), output=True),)}, "at least one output"),
        ({"arrays": (Array("y", ("n",), output=True), Array("z", ("m",), output=True))}, "share their first dimension"),
        ({"arrays": (Array("y", ("n", "q"), output=True),)}, "dims does not declare q"),
        ({"scalars": ("q",)}, "dims does not declare q"),
        ({"arrays": (Array("y", ("n",), "bfloat17", output=True),)}, "'y' has the type 'bfloat17'"),
        ({"scalars": (Scalar("a", "str", 1.0),)}, "'a' has the type 'str'"),
    ],
)
def test_a_spec_that_contradicts_itself_is_refused_where_it_is_written(changes, complaint):
    with pytest.raises(UsageError, match=complaint):
        replace(own_spec(), **changes)


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ({"grid": lambda shape, parameters: (shape["q"],)}, "the spec's grid failed: KeyError: 'q'"),
        ({"grid": lambda shape, parameters: (1, 1, 1, 7)}, "the spec's grid failed: ValueError"),
        ({"block": lambda shape, parameters: 256}, "the spec's block failed: TypeError"),
        ({"flops": lambda shape: 1 / 0}, "the spec's flops failed: ZeroDivisionError"),
        ({"tolerance": lambda shape: shape["k"]}, "the spec's tolerance failed: KeyError"),
    ],
)
def test_a_rule_of_a_spec_that_fails_is_named_before_there_is_a_launch(rule, complaint):
    with pytest.raises(UsageError, match=complaint):
        make_case(replace(own_spec(), **rule))


def test_a_default_outside_the_choices_is_a_mistake_of_the_spec():
    with pytest.raises(UsageError, match="default 7"):
        Parameter("stages", 7, (1, 2))


def test_allowed_values_are_a_range_only_if_they_are_one():
    assert Parameter("a", 1, (1, 2, 3)).allowed == "1..3"
    assert Parameter("a", 1, (1, 2, 4)).allowed == "1, 2, 4"
    assert Parameter("a", 4, (4, 16)).allowed == "4, 16"


def test_a_dimension_of_the_right_size_passes():
    Dim("m", 128, 128).check(256)


def test_an_unknown_kernel_suggests_a_near_one():
    with pytest.raises(UsageError) as refused:
        find_spec("tensor_cor_gemm")
    assert "tensor_core_gemm" in refused.value.remedy


def test_own_specs_come_after_the_shipped_ones_and_find_their_sources():
    found = catalog(OWN)
    assert list(found)[: len(SPECS)] == [spec.name for spec in SPECS]
    assert found["saxpy"].path == OWN / "saxpy.cu"
    assert found["numba_scale"].language == "numba"


def test_without_a_folder_only_shipped_specs_are_known():
    assert set(catalog()) == {spec.name for spec in SPECS}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("# KernelSpec\nSPEC = 1\n", "SPEC is not a KernelSpec"),
        ("# KernelSpec\nraise ValueError('broken')\n", "failed to load: ValueError: broken"),
        ("# KernelSpec\nimport no_such_module_xyz\n", "no_such_module_xyz"),
        ("# KernelSpec\nSPECS = 5\n", "SPEC is not a KernelSpec"),
        ("# KernelSpec\nimport sys\nsys.exit(0)\n", "failed to load: SystemExit: 0"),
        ("x = 1\n", "no spec found"),
    ],
)
def test_a_bad_folder_is_refused_with_the_reason(tmp_path, text, complaint):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(UsageError, match=complaint):
        catalog(tmp_path)


def test_what_editors_leave_beside_a_spec_is_passed_over(tmp_path):
    for name in ("saxpy.py", "saxpy.cu"):
        (tmp_path / name).write_text((OWN / name).read_text())
    (tmp_path / ".#saxpy.py").symlink_to("user@host.1234")
    (tmp_path / "._saxpy.py").write_bytes(b"\0\5\x16\7KernelSpec")
    (tmp_path / "folder.py").mkdir()
    assert "saxpy" in catalog(tmp_path)


def test_a_missing_source_is_named(tmp_path):
    (tmp_path / "saxpy.py").write_text((OWN / "saxpy.py").read_text())
    with pytest.raises(UsageError, match=r"source 'saxpy.cu' of 'saxpy' is missing"):
        catalog(tmp_path)


def test_an_own_kernel_cannot_take_a_shipped_name(tmp_path):
    (tmp_path / "saxpy.py").write_text((OWN / "saxpy.py").read_text().replace('name="saxpy"', 'name="tiled_matmul"'))
    (tmp_path / "saxpy.cu").write_text((OWN / "saxpy.cu").read_text())
    with pytest.raises(UsageError, match="already exists"):
        catalog(tmp_path)


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no such folder"):
        catalog(tmp_path / "nowhere")


def test_pairs_are_parsed():
    assert parse_parameters(["stages=3", "copy=plain"]) == {"stages": "3", "copy": "plain"}
    assert parse_shape(["m=256,n=512", "k=64"]) == {"m": 256, "n": 512, "k": 64}


@pytest.mark.parametrize("text", ["stages", "stages=", "=3", ""])
def test_parameters_that_are_no_pairs_are_refused(text):
    with pytest.raises(UsageError, match="not name=value"):
        parse_parameters([text])


@pytest.mark.parametrize("text", ["m", "m=", "m=x", "m=-1", "m=1.5", "m=²"])
def test_shapes_that_are_no_integers_are_refused(text):
    with pytest.raises(UsageError, match="not name=integer"):
        parse_shape([text])


def test_a_size_of_thousands_of_digits_is_refused():
    with pytest.raises(UsageError, match="5000 digits"):
        parse_shape(["m=" + "9" * 5000])


def test_two_values_for_one_name_are_refused():
    with pytest.raises(UsageError, match="stages is both 2 and 3"):
        parse_parameters(["stages=2", "stages=3"])
    with pytest.raises(UsageError, match="m is both 128 and 256"):
        parse_shape(["m=128,n=64", "m=256"])
    assert parse_shape(["m=128", "m=128"]) == {"m": 128}


@pytest.mark.parametrize("bad", [{"launches": 0}, {"iterations": -1}, {"seed": -1}])
def test_counts_that_make_no_sense_are_refused(bad):
    with pytest.raises(UsageError):
        KernelRequest("tiled_matmul", **bad)
