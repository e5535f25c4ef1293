"""Cases: what a spec with chosen parameters and shape gives, and the limits of every GPU at their
edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ncubble.chips import largest_cta_smem
from ncubble.errors import UsageError
from ncubble.kernels.spec.case import Case, make_case
from ncubble.kernels.spec.spec import LAUNCH, SMS, Array, Dim, KernelSpec, Parameter, Scalar, TensorMap, Tolerance


def spec(**changes: Any) -> KernelSpec:
    members: dict[str, Any] = {
        "name": "own",
        "source": "own.cu",
        "idea": "y = 2 x",
        "dims": (Dim("n", 64), Dim("m", 512)),
        "arrays": (Array("x", ("n", "m"), "float16"), Array("y", ("n", "m"), "float32", output=True)),
        "grid": lambda shape, parameters: (4,),
        "block": lambda shape, parameters: (256,),
        "reference": lambda inputs, rows: {"y": rows},
    }
    return KernelSpec(**members | changes)


def case(**changes: Any) -> Case:
    return make_case(spec(**changes))


def message(**changes: Any) -> str:
    """What is said when this spec is refused; empty where it is not."""
    try:
        case(**changes)
    except UsageError as error:
        return error.message
    return ""


@pytest.mark.parametrize(
    ("grid", "complaint"),
    [
        ((2**31 - 1,), ""),
        ((2**31,), "grid x would be 2147483648; allowed: 1..2147483647"),
        ((1, 65535, 65535), ""),
        ((1, 65536), "grid y would be 65536; allowed: 1..65535"),
        ((1, 1, 65536), "grid z would be 65536; allowed: 1..65535"),
        ((0,), "grid x would be 0; allowed: 1..2147483647"),
        ((1, 1, 0), "grid z would be 0; allowed: 1..65535"),
    ],
)
def test_a_grid_may_be_as_large_as_a_gpu_takes_and_no_larger(grid: tuple[int, ...], complaint: str) -> None:
    said = message(grid=lambda shape, parameters: grid)
    assert said.endswith(complaint) and bool(said) == bool(complaint)


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        ((1,), ""),
        ((1024,), ""),
        ((32, 32), ""),
        ((8, 8, 16), ""),
        ((1025,), "1025 threads per CTA; allowed: 1..1024"),
        ((32, 32, 2), "2048 threads per CTA; allowed: 1..1024"),
        ((0,), "0 threads per CTA; allowed: 1..1024"),
    ],
)
def test_a_cta_may_have_a_thousand_and_24_threads(block: tuple[int, ...], complaint: str) -> None:
    said = message(block=lambda shape, parameters: block)
    assert said.endswith(complaint) and bool(said) == bool(complaint)


def test_a_cta_may_take_all_shared_memory_of_the_largest_gpu_and_no_byte_more() -> None:
    most = largest_cta_smem()
    assert case(smem=lambda shape, parameters: most).smem == most
    assert message(smem=lambda shape, parameters: most + 1).endswith(
        f"{most + 1} bytes of shared memory per CTA; GPUs have at most {most}"
    )


@pytest.mark.parametrize(("cluster", "fits"), [((16,), True), ((4, 2, 2), True), ((17,), False), ((1, -1), False)])
def test_a_cluster_may_have_sixteen_ctas(cluster: tuple[int, ...], fits: bool) -> None:
    said = message(grid=lambda shape, parameters: (17 * 16, 16, 16), cluster=lambda shape, parameters: cluster)
    assert ("allowed: 1..16 in total" in said) is not fits
    assert bool(said) is not fits


@pytest.mark.parametrize(
    ("box", "swizzle", "complaint"),
    [
        ((64, 64), 128, ""),  # 128 bytes, as wide as the swizzle
        ((64, 72), 128, "a box row of 'x' has 144 bytes, the swizzle 128"),
        ((1, 8), 128, ""),
        ((256, 256), 0, ""),
        ((257, 64), 128, "box (257, 64) over (64, 512)"),
        ((64, 257), 0, "box (64, 257) over (64, 512)"),
        ((0, 64), 128, "box (0, 64) over (64, 512)"),
        ((64,), 128, "box (64,) over (64, 512)"),
        ((64, 12), 128, "a box row of 'x' has 24 bytes, TMA needs a multiple of 16"),
    ],
)
def test_a_tensor_map_takes_the_boxes_that_tma_copies(box: tuple[int, ...], swizzle: int, complaint: str) -> None:
    said = message(tensor_maps=(TensorMap("x", lambda shape, parameters: box, swizzle),))
    assert said.endswith(complaint) and bool(said) == bool(complaint)


def test_rows_of_a_mapped_array_are_multiples_of_16_bytes_unless_there_is_one_row() -> None:
    maps = (TensorMap("x", lambda shape, parameters: (8, 8), 0),)
    with pytest.raises(UsageError) as refused:
        make_case(spec(tensor_maps=maps), shape={"m": 33})
    assert refused.value.message.endswith("a row of 'x' has 66 bytes, TMA needs a multiple of 16")
    assert refused.value.remedy == "make the row length a multiple of 8 elements"
    cube = TensorMap("x", lambda shape, parameters: (1, 8, 8), 0, lambda shape: (4, 16, 12))
    assert message(tensor_maps=(cube,)).endswith("a row of 'x' has 24 bytes, TMA needs a multiple of 16")
    flat = TensorMap("x", lambda shape, parameters: (64,), 128, lambda shape: (shape["n"] * shape["m"] - 1,))
    assert make_case(spec(tensor_maps=(flat,)), shape={"m": 33}).mapped_extent(flat) == (64 * 33 - 1,)


@pytest.mark.parametrize(("rows", "complaint"), [(64, ""), (65, "tensor map of 'x' sees (65, 512)")])
def test_a_tensor_map_sees_no_more_than_the_array(rows: int, complaint: str) -> None:
    item = TensorMap("x", lambda shape, parameters: (64, 64), 128, lambda shape: (rows, 512))
    assert message(tensor_maps=(item,)).endswith(complaint)
    assert bool(message(tensor_maps=(item,))) == bool(complaint)


def test_a_map_of_another_path_is_neither_taken_nor_checked() -> None:
    wide = TensorMap("x", lambda shape, parameters: (64, 512), 128, when=lambda parameters: parameters["path"] == "tma")
    own = spec(parameters=(Parameter("path", "plain", ("plain", "tma")),), tensor_maps=(wide,))
    assert make_case(own).tensor_maps == ()
    with pytest.raises(UsageError, match="tensor map of 'x'"):
        make_case(own, {"path": "tma"})


def test_a_numba_kernel_may_say_that_it_has_no_cluster() -> None:
    assert case(source="own.py", cluster=lambda shape, parameters: (1,)).cluster == (1, 1, 1)
    assert "Numba supports neither" in message(source="own.py", cluster=lambda shape, parameters: (2,))


def test_sizes_in_bytes_follow_types_and_shape() -> None:
    own = make_case(spec(), shape={"n": 3, "m": 5})
    assert own.extent(own.array("y")) == (3, 5)
    assert (own.nbytes(own.array("x")), own.nbytes(own.array("y"))) == (30, 60)
    assert own.bytes == 90.0
    assert case(bytes=lambda shape: shape["n"]).bytes == 64.0


def test_operations_are_those_of_the_parameters_or_else_of_the_shape() -> None:
    assert case(flops=lambda shape: 2 * shape["m"]).flops == 1024.0
    work = {"flops": lambda shape: 1.0, "work": lambda shape, parameters: 0}
    assert case(**work).flops == 0.0


def test_an_extent_is_one_along_what_it_leaves_out() -> None:
    for extent, full in (((), (1, 1, 1)), ((7,), (7, 1, 1)), ((7, 6), (7, 6, 1)), ((7, 6, 5), (7, 6, 5))):
        assert case(block=lambda shape, parameters, extent=extent: extent).block == full


def test_scalars_are_those_of_the_first_launch_unless_another_is_asked_for() -> None:
    own = case(scalars=("m", LAUNCH, SMS, Scalar("a", "float32", 0.5)))
    assert own.scalars() == (512, 0, 0, 0.5)
    assert own.scalars(3, 132) == (512, 3, 132, 0.5)
    assert [value.dtype for value in own.scalars()] == [np.int32, np.int32, np.int32, np.float32]


def test_a_tacit_parameter_is_told_only_where_it_differs_from_its_default() -> None:
    own = spec(parameters=(Parameter("stages", 3, (2, 3)), Parameter("cap", 0, (0, 64), tacit=True)))
    usual, capped = make_case(own), make_case(own, {"cap": 64})
    assert usual.label == "own stages=3 n=64 m=512" and usual.defines == ("STAGES=3",)
    assert capped.label == "own stages=3 cap=64 n=64 m=512" and capped.defines == ("STAGES=3", "CAP=64")
    assert usual.parameters["cap"] == 0
    large = spec(parameters=(Parameter("cap", 1000, tuple(range(0, 2000, 500)), tacit=True),))
    assert make_case(large, {"cap": "1000"}).settings == {}


def test_what_nothing_takes_is_refused_with_what_there_is() -> None:
    with pytest.raises(UsageError, match="own has no parameter 'stages'") as refused:
        make_case(spec(), {"stages": 3})
    assert refused.value.remedy == "it has none"
    with pytest.raises(UsageError, match="own has no dimension 'k'") as refused:
        make_case(spec(), shape={"k": 3})
    assert refused.value.remedy == "it has: n, m"


def test_what_is_not_declared_takes_its_default() -> None:
    own = case()
    assert (own.grid, own.block, own.cluster) == ((4, 1, 1), (256, 1, 1), (1, 1, 1))
    assert (own.launches, own.smem, own.flops, own.min_arch, own.only_arch) == (1, 0, 0.0, own.spec.min_arch, None)
    assert own.scalars() == () and own.unverified is None and own.defines == ()
    assert own.reference is own.spec.reference


def test_references_and_reasons_of_the_parameters_replace_those_of_the_spec() -> None:
    def other(inputs: Any, rows: Any) -> dict[str, Any]:
        return {"y": np.zeros(len(rows))}

    own = spec(
        parameters=(Parameter("what", "copy", ("copy", "spin")),),
        reference_of=lambda parameters: other,
        unverified=lambda parameters: "it spins" if parameters["what"] == "spin" else None,
    )
    assert make_case(own).reference is other and make_case(own).unverified is None
    assert make_case(own, {"what": "spin"}).unverified == "it spins"


@pytest.mark.parametrize(("size", "blocks"), [(1, 1), (128, 1), (129, 2), (512, 4)])
def test_an_array_may_have_an_element_for_every_block(size: int, blocks: int) -> None:
    scale = Array("scale", ("n", "m/128"), "float32")
    made = make_case(spec(arrays=(scale, Array("y", ("n", "m"), output=True))), {}, {"n": 3, "m": size})
    assert made.extent(scale) == (3, blocks)
    assert made.nbytes(scale) == 3 * blocks * 4


def test_blocks_of_a_dimension_that_is_not_declared_are_refused() -> None:
    with pytest.raises(UsageError, match="dims does not declare q"):
        spec(arrays=(Array("x", ("n", "q/128")), Array("y", ("n", "m"), output=True)))


def test_parameters_may_decide_how_far_results_may_be_off() -> None:
    changes: dict[str, Any] = {
        "parameters": (Parameter("way", "long", ("long", "short")),),
        "tolerance_of": lambda shape, parameters: Tolerance(absolute=shape["n"] * (parameters["way"] == "short")),
    }
    assert case(**changes).tolerance == Tolerance()
    assert make_case(spec(**changes), {"way": "short"}).tolerance == Tolerance(absolute=64)
    assert case().tolerance == Tolerance(absolute=1e-6, relative=1e-5)


def _tile(sms: int, shape: Any, given: Any) -> dict[str, int]:
    return {"tile": 128 if shape["n"] > sms else 64}


def test_what_is_not_given_follows_shape_and_sms_where_the_spec_says_so() -> None:
    fitted = spec(parameters=(Parameter("tile", 32, (32, 64, 128)), Parameter("ring", 2, (2, 3))), defaults=_tile)
    assert make_case(fitted, {"ring": 3}, {"n": 132}).parameters == {"tile": 64, "ring": 3}
    assert make_case(fitted, {}, {"n": 133}).parameters == {"tile": 128, "ring": 2}
    assert make_case(fitted, {}, {"n": 133}, sms=148).parameters == {"tile": 64, "ring": 2}
    assert make_case(fitted, {"tile": "32"}, {"n": 133}).parameters["tile"] == 32


def test_defaults_that_fail_are_the_specs_mistake() -> None:
    assert "own: the spec's defaults failed: KeyError: 'k'" in message(
        defaults=lambda sms, shape, given: {"tile": shape["k"]}
    )
