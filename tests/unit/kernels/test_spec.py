"""Specs and cases: what a spec with chosen parameters and shape gives, what is refused before there
is a GPU, and the limits of every GPU at their edges."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ncubble.chips import largest_cta_smem
from ncubble.errors import UsageError
from ncubble.kernels import build as building
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run import launch
from ncubble.kernels.run.launch import prepare
from ncubble.kernels.spec.case import Case, make_case
from ncubble.kernels.spec.spec import LAUNCH, SMS, Array, Dim, KernelSpec, Parameter, Scalar, TensorMap, Tolerance
from tests.helpers.fake_gpu import FakeGpu

X, Y = Array("x", ("n", "m"), "float16"), Array("y", ("n", "m"), output=True)
NUMBA = {"source": "own.py", "language": "numba"}
PATH = Parameter("path", "cp_async", ("cp_async", "tma"))


def spec(**changes: Any) -> KernelSpec:
    members: dict[str, Any] = {
        "name": "own",
        "source": "own.cu",
        "idea": "y = 2 x",
        "dims": (Dim("n", 64), Dim("m", 512)),
        "arrays": (X, Y),
        "grid": (4,),
        "block": (256,),
        "reference": lambda inputs, rows: {"y": rows},
    }
    return KernelSpec(**members | changes)


def case(**changes: Any) -> Case:
    return make_case(spec(**changes))


def said(**changes: Any) -> str:
    """What is said when this spec is refused, and its remedy; empty where it is not."""
    try:
        case(**changes)
    except UsageError as error:
        return f"{error.message}; {error.remedy}"
    return ""


# What a case is.


def test_what_is_not_declared_takes_its_default() -> None:
    own = case()
    assert (own.grid, own.block, own.cluster) == ((4, 1, 1), (256, 1, 1), (1, 1, 1))
    assert (own.launches, own.smem, own.flops, own.min_arch, own.only_arch) == (1, 0, 0.0, 80, None)
    assert own.scalars() == () and own.unverified is None and own.defines == () and not own.cooperative
    assert own.reference is own.spec.reference
    assert own.tolerance == Tolerance(absolute=1e-6, relative=1e-5)


RULES: dict[str, Any] = {
    "grid": (8, 2),
    "block": (64, 2),
    "cluster": (2,),
    "smem": 1024,
    "launches": 3,
    "defines": {"COLS": 512},
}


def test_a_rule_is_a_value_or_a_function_of_shape_and_parameters() -> None:
    functions = {name: (lambda shape, parameters, value=value: value) for name, value in RULES.items()}
    for own in (case(**RULES), case(**functions)):
        assert (own.grid, own.block, own.cluster) == ((8, 2, 1), (64, 2, 1), (2, 1, 1))
        assert (own.smem, own.launches, own.defines) == (1024, 3, ("COLS=512",))
    followed = case(grid=lambda shape, parameters: (shape["m"] // parameters["tile"],), parameters=(TILE,))
    assert followed.grid == (16, 1, 1)
    exact = Tolerance()
    for changes in ({"tolerance": exact}, {"tolerance": lambda shape: exact}):
        assert case(**changes).tolerance == exact
    for changes in ({"cooperative": True}, {"cooperative": lambda parameters: True}):
        assert case(**changes).cooperative
    for box in ((1, 64), lambda shape, parameters: (1, 64)):
        item = TensorMap("x", box)
        assert case(tensor_maps=(item,)).box(item) == (1, 64)


@pytest.mark.parametrize("extent", [(), (7,), (7, 6), (7, 6, 5)])
def test_an_extent_is_one_along_what_it_leaves_out(extent: tuple[int, ...]) -> None:
    assert case(block=extent).block == (*extent, 1, 1, 1)[:3]


def test_machine_code_is_promised_for_words_together_and_by_parameters() -> None:
    wanted = {"LDG STG": True, "UTMALDG": lambda parameters: parameters["path"] == "tma"}
    own = spec(parameters=(PATH,), sass=wanted)
    assert make_case(own).sass("sm_90a") == {"LDG": True, "STG": True, "UTMALDG": False}
    assert make_case(own, {"path": "tma"}).sass("sm_90a")["UTMALDG"] is True
    by_arch = case(sass=lambda arch, parameters: {"LDGSTS": arch == "sm_90a"})
    assert (by_arch.sass("sm_90a"), by_arch.sass("sm_80")) == ({"LDGSTS": True}, {"LDGSTS": False})


def test_arrays_have_the_extents_of_the_shape_and_bytes_are_theirs() -> None:
    own = make_case(spec(), shape={"n": 3, "m": 5})
    assert own.extent(own.array("y")) == (3, 5)
    assert (own.nbytes(own.array("x")), own.nbytes(own.array("y"))) == (30, 60)
    assert own.bytes == 90.0 and case(bytes=lambda shape: shape["n"]).bytes == 64.0


@pytest.mark.parametrize(("size", "blocks"), [(1, 1), (128, 1), (129, 2), (512, 4)])
def test_an_array_may_have_an_element_for_every_block(size: int, blocks: int) -> None:
    scale = Array("scale", ("n", "m/128"))
    made = make_case(spec(arrays=(scale, Y)), {}, {"n": 3, "m": size})
    assert (made.extent(scale), made.nbytes(scale)) == ((3, blocks), 3 * blocks * 4)


def test_operations_are_those_of_the_parameters_or_else_of_the_shape() -> None:
    assert case(flops=lambda shape: 2 * shape["m"]).flops == 1024.0
    assert case(flops=lambda shape: 1.0, work=lambda shape, parameters: 0).flops == 0.0


def test_scalars_have_their_types_and_those_known_at_launch_are_of_the_first_unless_asked() -> None:
    own = case(scalars=("m", LAUNCH, SMS, Scalar("a", "float32", 0.5)))
    assert own.scalars() == (512, 0, 0, 0.5) and own.scalars(3, 132) == (512, 3, 132, 0.5)
    assert [value.dtype for value in own.scalars()] == [np.int32, np.int32, np.int32, np.float32]


def test_words_become_macros_that_can_be_compared() -> None:
    made = make_case(find_spec("tensor_core_gemm"), {"copy": "plain", "vec": "4"})
    assert made.defines == ("STAGES=3", "COPY_PLAIN=0", "COPY_ASYNC=1", "COPY=COPY_PLAIN", "VEC=4")


def test_a_tacit_parameter_is_told_only_where_it_differs_from_its_default() -> None:
    own = spec(parameters=(Parameter("stages", 3, (2, 3)), Parameter("cap", 0, (0, 64), tacit=True)))
    usual, capped = make_case(own), make_case(own, {"cap": "64"})
    assert usual.label == "own stages=3 n=64 m=512" and usual.defines == ("STAGES=3",)
    assert capped.label == "own stages=3 cap=64 n=64 m=512" and capped.defines == ("STAGES=3", "CAP=64")
    assert usual.parameters["cap"] == 0


def test_rules_of_the_parameters_replace_those_of_the_spec() -> None:
    def other(inputs: Any, rows: Any) -> dict[str, Any]:
        return {"y": np.zeros(len(rows))}

    own = spec(
        parameters=(PATH,),
        reference_of=lambda parameters: other,
        tolerance_of=lambda shape, parameters: Tolerance(absolute=shape["n"] * (parameters["path"] == "tma")),
        unverified=lambda parameters: "it spins" if parameters["path"] == "tma" else None,
    )
    usual, spinning = make_case(own), make_case(own, {"path": "tma"})
    assert usual.reference is other and (usual.tolerance, usual.unverified) == (Tolerance(), None)
    assert (spinning.tolerance, spinning.unverified) == (Tolerance(absolute=64), "it spins")


def test_a_persistent_grid_follows_the_device_and_a_plain_one_does_not() -> None:
    assert case().grid_on(10) == (4, 1, 1)
    for more in ({}, {"grid": None}):
        own = case(persistent=lambda sms, shape, parameters: (2 * sms,), **more)
        assert own.grid_on(10) == (20, 1, 1)
    assert own.grid == (264, 1, 1), "without a rule of its own it is that of an H200"


TILE = Parameter("tile", 32, (32, 64, 128))


def test_what_is_not_given_follows_shape_and_sms_where_the_spec_says_so() -> None:
    fitted = spec(
        parameters=(TILE, Parameter("ring", 2, (2, 3))),
        defaults=lambda sms, shape, given: {"tile": 128 if shape["n"] > sms else 64},
    )
    assert make_case(fitted, {"ring": 3}, {"n": 132}).parameters == {"tile": 64, "ring": 3}
    assert make_case(fitted, {}, {"n": 133}).parameters == {"tile": 128, "ring": 2}
    assert make_case(fitted, {}, {"n": 133}, sms=148).parameters == {"tile": 64, "ring": 2}
    assert make_case(fitted, {"tile": "32"}, {"n": 133}).parameters["tile"] == 32


def test_allowed_values_are_a_range_only_if_they_are_one() -> None:
    for choices, text in (((1, 2, 3), "1..3"), ((1, 2, 4), "1, 2, 4"), ((1, 2), "1, 2")):
        assert Parameter("a", 1, choices).allowed == text


def test_the_tolerance_by_rows_is_of_their_root_mean_square() -> None:
    expected = np.array([[3.0, 4.0], [0.0, 0.0]])
    rms = np.sqrt(12.5)
    np.testing.assert_allclose(Tolerance(row=2.0).bound(expected), [[2 * rms] * 2, [0.0] * 2])
    np.testing.assert_allclose(Tolerance(1.0, 0.5, 2.0).bound(expected)[0], 1.0 + expected[0] / 2 + 2 * rms)
    np.testing.assert_allclose(Tolerance(row=1.0).bound(np.array([3.0, -4.0])), [3.0, 4.0])


# What is refused where the spec is written.


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"arrays": (X,)}, "at least one output"),
        ({"arrays": (Array("total", (), output=True),)}, "at least one output"),
        ({"arrays": (Y, Array("z", ("m",), output=True))}, "share their first dimension"),
        ({"arrays": (Array("y", ("n", "q"), output=True),)}, "dims does not declare q"),
        ({"arrays": (Array("x", ("n", "q/128")), Y)}, "dims does not declare q"),
        ({"scalars": ("q",)}, "dims does not declare q"),
        ({"arrays": (Array("y", ("n",), "bfloat17", output=True),)}, "'y' has the type 'bfloat17'"),
        ({"scalars": (Scalar("a", "str", 1.0),)}, "'a' has the type 'str'"),
        ({"tensor_maps": (TensorMap("z", (1,)),)}, "tensor_maps names z"),
    ],
)
def test_a_spec_that_contradicts_itself_is_refused(changes: Any, complaint: str) -> None:
    assert complaint in said(**changes)


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"default": 7}, "default 7 is not among 1, 2"),
        ({"elsewhere": "wmma"}, "default 'wmma' is not among 1, 2"),
    ],
)
def test_a_value_outside_the_choices_is_a_mistake_of_the_spec(more: Any, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        Parameter(**{"name": "stages", "default": 2, "choices": (1, 2), **more})


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ({"grid": lambda shape, parameters: (shape["q"],)}, "the spec's grid failed: KeyError: 'q'"),
        ({"grid": (1, 1, 1, 7)}, "the spec's grid failed: ValueError"),
        ({"block": 256}, "the spec's block failed: TypeError"),
        ({"flops": lambda shape: 1 / 0}, "the spec's flops failed: ZeroDivisionError"),
        ({"tolerance": lambda shape: shape["k"]}, "the spec's tolerance failed: KeyError"),
        ({"defaults": lambda sms, shape, given: {"tile": shape["k"]}}, "the spec's defaults failed: KeyError: 'k'"),
    ],
)
def test_a_rule_that_fails_is_named_before_there_is_a_launch(rule: Any, complaint: str) -> None:
    assert complaint in said(**rule)


# What is refused of parameters and shape.


@pytest.mark.parametrize(
    ("parameters", "shape", "message", "remedy"),
    [
        ({"stages": "9"}, {}, "stages=9 is not allowed", "1..6"),
        ({"stage": "2"}, {}, "has no parameter 'stage'", "stages, copy, vec"),
        ({}, {"q": 3}, "has no dimension 'q'", "m, n, k"),
        ({}, {"m": 100}, "m=100 is not a multiple of 128", "m=128"),
        ({}, {"m": 200}, "m=200 is not a multiple of 128", "m=256"),
        ({}, {"m": 1}, "m=1 is not a multiple of 128", "m=128"),
        ({}, {"k": 0}, "k=0 is out of range", "1.."),
        ({}, {"k": -128}, "k=-128 is out of range", "1.."),
        ({}, {"k": 2**31}, "is out of range", "1.."),
        ({}, {"m": 65536 * 128}, "grid y would be 65536; allowed: 1..65535", "smaller"),
    ],
)
def test_what_a_kernel_does_not_take_is_refused_with_what_it_does(
    parameters: Any, shape: Any, message: str, remedy: str
) -> None:
    with pytest.raises(UsageError) as refused:
        make_case(find_spec("tensor_core_gemm"), parameters, shape)
    assert message in refused.value.message and remedy in str(refused.value.remedy)


def test_a_spec_without_parameters_says_so() -> None:
    with pytest.raises(UsageError) as refused:
        make_case(spec(), {"stages": 3})
    assert refused.value.remedy == "it has none"


def test_what_a_spec_requires_of_shape_and_parameters_together_is_told() -> None:
    needs = "path=tma takes n >= 128"
    own = spec(parameters=(PATH,), requires=lambda shape, parameters: needs if parameters["path"] == "tma" else None)
    make_case(own)
    with pytest.raises(UsageError, match=needs):
        make_case(own, {"path": "tma"})


@pytest.mark.parametrize(
    ("members", "complaint"),
    [
        (NUMBA, ""),
        ({"source": "own.py", "language": "triton", "block": None}, ""),
        ({"source": "own.py"}, 'cannot be language=\'cuda\'; set language="numba" or "triton" for a Python source'),
        ({"language": "triton"}, "source 'own.cu' cannot be language='triton'"),
        ({"language": "Triton"}, "language='Triton' must be one of: cuda, numba, triton, host"),
        ({"language": "host"}, "program='' with language='host'"),
        ({"program": "own.py"}, "program='own.py' with language='cuda'"),
        ({"block": None}, "it needs a block"),
        ({**NUMBA, "block": None}, "it needs a block"),
    ],
    ids=str,
)
def test_a_language_is_named_and_fits_the_source(members: Any, complaint: str) -> None:
    found = said(**members)
    assert complaint in found and bool(found) == bool(complaint)


# The limits of GPUs.

MOST = largest_cta_smem()


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ({"grid": (2**31 - 1,)}, ""),
        ({"grid": (2**31,)}, "grid x would be 2147483648; allowed: 1..2147483647"),
        ({"grid": (1, 65535, 65535)}, ""),
        ({"grid": (1, 65536)}, "grid y would be 65536; allowed: 1..65535"),
        ({"grid": (1, 1, 65536)}, "grid z would be 65536; allowed: 1..65535"),
        ({"grid": (0,)}, "grid x would be 0; allowed: 1..2147483647"),
        ({"grid": (1, 1, 0)}, "grid z would be 0; allowed: 1..65535"),
        ({"block": (8, 8, 16)}, ""),
        ({"block": (1025,)}, "1025 threads per CTA; allowed: 1..1024"),
        ({"block": (32, 32, 2)}, "2048 threads per CTA; allowed: 1..1024"),
        ({"block": (0,)}, "0 threads per CTA; allowed: 1..1024"),
        ({"smem": MOST}, ""),
        ({"smem": MOST + 1}, f"{MOST + 1} bytes of shared memory per CTA; GPUs have at most {MOST}"),
        ({"cluster": (16,), "grid": (32,)}, ""),
        ({"cluster": (4, 2, 2), "grid": (4, 2, 2)}, ""),
        ({"cluster": (17,), "grid": (17,)}, "allowed: 1..16 in total"),
        ({"cluster": (8, 2, 2), "grid": (8, 2, 2)}, "allowed: 1..16 in total"),
        ({"cluster": (1, -1)}, "allowed: 1..16 in total"),
        ({"cluster": (3,)}, "a grid of (4, 1, 1) CTAs is not a multiple of the cluster size (3, 1, 1)"),
        ({**NUMBA, "cluster": (1,)}, ""),
        ({**NUMBA, "cluster": (2,)}, "only CUDA C++ has clusters and tensor maps"),
        ({**NUMBA, "tensor_maps": (TensorMap("x", (1, 64)),)}, "only CUDA C++ has"),
    ],
    ids=str,
)
def test_a_launch_may_be_as_large_as_a_gpu_takes_and_no_larger(rules: Any, complaint: str) -> None:
    found = said(**rules)
    assert complaint in found and bool(found) == bool(complaint)


def flat(shape: Any) -> tuple[int, ...]:
    return (shape["n"] * shape["m"] - 1,)


@pytest.mark.parametrize(
    ("item", "columns", "complaint"),
    [
        (TensorMap("x", (64, 64), 128), 512, ""),  # 128 bytes, as wide as the swizzle
        (TensorMap("x", (64, 72), 128), 512, "a box row of 'x' has 144 bytes, the swizzle 128"),
        (TensorMap("x", (1, 8), 128), 512, ""),
        (TensorMap("x", (256, 256), 0), 512, ""),
        (TensorMap("x", (257, 64), 128), 512, "box (257, 64) over (64, 512)"),
        (TensorMap("x", (64, 257), 0), 512, "box (64, 257) over (64, 512)"),
        (TensorMap("x", (0, 64), 128), 512, "box (0, 64) over (64, 512)"),
        (TensorMap("x", (64,), 128), 512, "a box has as many edges as the array, each of 1..256"),
        (TensorMap("x", (64, 12), 128), 512, "a box row of 'x' has 24 bytes, TMA needs a multiple of 16"),
        (TensorMap("x", (8, 8), 0), 33, "a row of 'x' has 66 bytes, TMA needs a multiple of 16; "),
        (TensorMap("x", (8, 8), 0), 33, "make the row length a multiple of 8 elements"),
        (TensorMap("x", (1, 8, 8), 0, lambda shape: (4, 16, 12)), 512, "a row of 'x' has 24 bytes"),
        (TensorMap("x", (64,), 128, flat), 33, ""),  # one row has no next one
        (TensorMap("x", (64, 64), 128, lambda shape: (64, 512)), 512, ""),
        (TensorMap("x", (64, 64), 128, lambda shape: (63, 512)), 512, ""),
        (TensorMap("x", (64, 64), 128, lambda shape: (65, 512)), 512, "tensor map of 'x' sees (65, 512)"),
    ],
)
def test_a_tensor_map_takes_the_boxes_that_tma_copies(item: TensorMap, columns: int, complaint: str) -> None:
    found = said(tensor_maps=(item,), dims=(Dim("n", 64), Dim("m", columns)))
    assert complaint in found and bool(found) == bool(complaint)


def test_a_tensor_map_may_see_the_array_with_other_extents_and_on_one_path_only() -> None:
    wide = TensorMap("x", (64, 512), 128, when=lambda parameters: parameters["path"] == "tma")
    own = spec(parameters=(PATH,), tensor_maps=(wide,))
    assert make_case(own).tensor_maps == ()
    with pytest.raises(UsageError, match="tensor map of 'x'"):
        make_case(own, {"path": "tma"})
    item = TensorMap("x", (64, 64), view=lambda shape: (2 * shape["n"] - 1, shape["m"] // 2))
    assert case(tensor_maps=(item,)).mapped_extent(item) == (127, 256)


# What the architecture and the device decide.

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
def test_defaults_follow_the_architecture_and_what_is_given_stays(arch: str, given: Any, expected: Any) -> None:
    found = building.case_for(make_case(TWO_PATHS, given), arch)
    assert dict(found.parameters) == expected
    building.check_arch(found, arch)


@pytest.mark.parametrize("arch", ["sm_80", "sm_100a"])
def test_a_path_for_one_architecture_is_refused_on_the_others(arch: str) -> None:
    building.check_arch(make_case(TWO_PATHS, {"path": "cp_async"}), arch)
    with pytest.raises(UsageError, match=r"path=tma stages=4 ctas=1 exists only for sm_90a") as refused:
        building.check_arch(make_case(TWO_PATHS, {"path": "tma"}), arch)
    assert "compute capability 9.0" in str(refused.value.remedy)
    assert case(only_arch=90).min_arch == 90


def old_gpu() -> FakeGpu:
    gpu = FakeGpu()
    gpu.arch = "sm_80"
    return gpu


BROKEN = spec(cluster=(4,), persistent=lambda sms, shape, parameters: (sms - 1,))


@pytest.mark.parametrize(
    ("made", "gpu", "words"),
    [
        (make_case(spec(min_arch=90)), old_gpu(), "needs sm_90 or later"),
        (make_case(TWO_PATHS, {"path": "tma"}), old_gpu(), "path=tma stages=2 ctas=1 exists only for sm_90a"),
        (make_case(BROKEN), FakeGpu(), r"a grid of \(131, 1, 1\) CTAs"),
    ],
    ids=["too old", "another architecture", "broken clusters"],
)
def test_what_the_device_cannot_run_is_refused_before_it_takes_memory(made: Case, gpu: FakeGpu, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        prepare(made, gpu)
    assert not gpu.memory


def test_defaults_that_follow_the_sms_are_those_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Case] = []
    monkeypatch.setattr(launch, "build", lambda case, *rest: seen.append(case) or SimpleNamespace(launch=None))
    monkeypatch.setattr(launch, "load_built", lambda *given: (None, None))
    monkeypatch.setattr(launch.BuildFacts, "of", lambda *given: None)
    made = case(parameters=(PATH,), defaults=lambda sms, shape, given: {"path": "tma" if sms < 140 else "cp_async"})
    large = FakeGpu()
    large.facts = replace(large.facts, sm_count=148)
    assert [prepare(made, gpu).case.parameters["path"] for gpu in (FakeGpu(), large)] == ["tma", "cp_async"]
    assert seen[0].parameters == {"path": "tma"}
