"""A kernel timed in turns with the library's call, on a GPU made of host memory."""

from __future__ import annotations

import functools
import itertools
import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from ncubble.api import kernels
from ncubble.cli import main as cli
from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.catalog.registry import catalog, find_spec
from ncubble.kernels.run import bench, peers
from ncubble.kernels.run.bench import time_in_rounds
from ncubble.kernels.run.peers import Peer, check_peer, device_copy
from ncubble.kernels.run.session import KernelRequest, describe, execute
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.spec.spec import Array
from tests.helpers.fake_gpu import FakeGpu

SMALL = {"m": 128, "n": 128, "k": 64}


@pytest.fixture
def library(monkeypatch, compiler):
    """A library call that takes 0.75 ms where the kernel takes 1 ms, and errs by 0.25."""
    made = []

    def make(prepared):
        gpu = prepared.gpu

        def run():
            gpu.log.append("library")
            gpu._now_ms += 0.75

        made.append(prepared)
        return Peer("cuTest", "1.2.3", run, lambda: 0.25)

    monkeypatch.setitem(peers.MAKERS, "matmul", make)
    monkeypatch.setattr(peers, "import_torch", lambda: None)
    return made


def besides(gpu=None, **changes):
    request = KernelRequest("tensor_core_gemm", {"stages": 2}, SMALL, seed=3, against=True)
    return execute(replace(request, **changes), lambda: gpu or FakeGpu())


def test_the_ratio_is_above_one_where_the_kernel_is_faster(library):
    outcome = besides()
    assert outcome.timing.p50_us == pytest.approx(1000)
    assert outcome.against.timing.p50_us == pytest.approx(750)
    assert outcome.against.ratio == pytest.approx(0.75)
    assert outcome.against.ratio_low == pytest.approx(0.75) == outcome.against.ratio_high
    assert outcome.against.max_abs_difference == 0.25
    assert outcome.against.fraction == pytest.approx(outcome.rates.fraction / 0.75)


def test_both_are_timed_as_often_as_asked_and_in_turns_and_the_cache_is_cleared_before_each(library):
    gpu = FakeGpu()
    outcome = besides(gpu, iterations=120)
    assert outcome.timing.iterations == outcome.against.timing.iterations == 120
    timed = [word for word in gpu.log if word in ("launch", "library")][-240:]
    turns = [word for index, word in enumerate(timed) if not index or timed[index - 1] != word]
    assert turns == ["launch", "library"] * bench.ROUNDS
    last = len(gpu.log) - 1 - gpu.log[::-1].index("library")
    since = gpu.log[gpu.log.index("fill", gpu.log.index("library")) : last + 1]
    for before, word in itertools.pairwise(since):
        assert word not in ("launch", "library") or before == "fill"


def test_a_wrong_kernel_is_not_timed_beside_anything(library):
    def spoil(views, gpu):
        views["c"][0, 0] += 1

    gpu = FakeGpu(spoil)
    outcome = besides(gpu)
    assert not outcome.verification.passed
    assert outcome.against is None
    assert not library and "library" not in gpu.log


def test_the_outcome_tells_both_to_people_and_programs(library):
    outcome = besides()
    text = "\n".join(describe(outcome))
    assert "against cuTest, 1.2.3" in text
    assert "0.750 x the library's throughput" in text
    assert "differ  by 0.25 at most" in text
    told = json.loads(json.dumps(outcome.to_json()))["against"]
    assert (told["library"], told["version"], told["ratio"]) == ("cuTest", "1.2.3", pytest.approx(0.75))
    assert told["timing"]["clocks"]["sm_mhz"] == 1700
    alone = besides(against=False)
    assert alone.against is None and alone.to_json()["against"] is None
    assert "against" not in "\n".join(describe(alone))


def test_a_library_that_refuses_the_call_is_an_error_that_names_both(library, monkeypatch):
    def refuse():
        raise RuntimeError("No available kernel")

    monkeypatch.setitem(peers.MAKERS, "matmul", lambda prepared: Peer("cuTest", "1", refuse, lambda: None))
    with pytest.raises(MeasurementError, match=r"cuTest refused tensor_core_gemm .*No available kernel"):
        besides()


@pytest.mark.parametrize(
    ("name", "peer", "complaint", "remedy"),
    [
        ("tiled_matmul", "", "tiled_matmul has no library call", "softmax_online"),
        ("softmax_online", "sdpa", "has 1 inputs, but the library's sdpa takes 3", "fix the spec's peer"),
        ("stream_pipeline", "copy", "has no library call", ""),  # a host program has no memory that it could take
    ],
)
def test_a_kernel_that_no_library_call_fits_is_refused_before_a_gpu_is_sought(name, peer, complaint, remedy):
    with pytest.raises(UsageError, match=complaint) as refused:
        check_peer(make_case(replace(find_spec(name), peer=peer)))
    assert remedy in refused.value.remedy


def test_a_missing_library_is_named_with_its_remedy_before_a_gpu_is_sought(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MeasurementError, match="PyTorch, which cannot be imported") as refused:
        execute(KernelRequest("tiled_matmul", against=True), lambda: pytest.fail("a GPU was opened"))
    assert refused.value.remedy.endswith("pip install torch")


def test_a_library_that_sees_no_gpu_is_named(monkeypatch):
    blind = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False), __version__="9.9")
    monkeypatch.setitem(sys.modules, "torch", blind)
    with pytest.raises(MeasurementError, match=r"torch 9\.9 sees no GPU"):
        check_peer(make_case(find_spec("softmax_online")))


def test_every_peer_that_a_spec_names_can_be_made():
    named = {spec.peer for spec in catalog().values()} - {""}
    assert named <= set(peers.MAKERS)
    assert set(peers.MAKERS) - {"copy"} == set(peers.CALLS)


@pytest.mark.parametrize("nbytes", [2 * 4 * 256 * 4, 1 << 20])
def test_a_device_copy_takes_the_kernels_own_memory_or_its_own_where_that_is_too_small(monkeypatch, nbytes):
    case = make_case(replace(find_spec("softmax_online"), bytes=lambda shape: nbytes), {}, {"rows": 4, "cols": 256})
    gpu, copied = FakeGpu(), []
    monkeypatch.setattr(gpu, "copy", lambda *call: copied.append(call))
    pointers = tuple(gpu.allocate(case.nbytes(array)) for array in case.spec.arrays)
    device_copy(SimpleNamespace(case=case, gpu=gpu, pointers=pointers)).run()
    ((target, source, moved),) = copied
    assert moved == nbytes // 2 and all(len(gpu.memory[pointer]) >= moved for pointer in (target, source))
    if nbytes == case.nbytes(case.array("x")) * 2:
        assert (target, source) == (pointers[1], pointers[0])
    else:
        assert not {target, source} & set(pointers)


def test_the_clock_of_each_side_is_the_median_of_its_rounds(monkeypatch):
    gpu = FakeGpu()
    clocks = iter([1500, 1800, 1510, 1810, 1900, 1820])
    monkeypatch.setattr(gpu, "clocks", lambda: {"sm_mhz": next(clocks)})

    def wait(milliseconds):
        gpu._now_ms += milliseconds

    slow, fast = time_in_rounds(gpu, (lambda: wait(2), lambda: wait(1)), iterations=9, rounds=3)
    assert (slow.timing.clocks, fast.timing.clocks) == ({"sm_mhz": 1510}, {"sm_mhz": 1810})
    assert slow.p50_us == pytest.approx((2000,) * 3)
    assert fast.timing.iterations == 9


class FakeTensor:
    def __init__(self, source, dtype=None):
        self.source, self.dtype = source, dtype

    def view(self, dtype):
        return FakeTensor(self.source, dtype)


@pytest.mark.parametrize(
    ("dtype", "typestr", "seen"),
    [("float32", "<f4", None), ("bfloat16", "<i2", "bf16"), ("float8_e4m3fn", "|i1", "fp8")],
)
def test_memory_reaches_the_library_without_a_copy(dtype, typestr, seen):
    torch = SimpleNamespace(bfloat16="bf16", float8_e4m3fn="fp8", as_tensor=lambda view, device: FakeTensor(view))
    case = SimpleNamespace(extent=lambda array: (2, 3))
    tensor = peers._tensor(torch, case, Array("a", ("m", "k"), dtype), 4096)
    interface = tensor.source.__cuda_array_interface__
    assert (interface["data"], interface["shape"], interface["typestr"]) == ((4096, False), (2, 3), typestr)
    assert tensor.dtype == seen


def test_fp32_products_of_the_library_are_fp32():
    told = []
    torch = SimpleNamespace(
        set_float32_matmul_precision=told.append,
        empty=lambda shape, dtype, device: np.empty(shape, dtype),
        matmul=np.matmul,
        __version__="9.9",
    )
    a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    _, version, call = peers._matmul(torch, None, [a, b])
    assert told == ["highest"]
    assert "torch 9.9" in version
    assert call().shape == (2, 4)


class FakeMatrix(np.ndarray):
    """A tensor as far as scales are handed on: NumPy's views, with PyTorch's names."""

    clone = np.ndarray.copy

    def __getitem__(self, index):
        return np.asarray(super().__getitem__(index)).view(FakeMatrix)

    def t(self):
        return self.T


def scaled_product(k, scaling, accumulate):
    """What cuBLASLt is called with: its arguments, its settings, and the arrays of the kernel."""
    called = []
    torch = SimpleNamespace(
        _scaled_mm=lambda *call, **settings: called.append((call, settings)), bfloat16="bf16", __version__="9.9"
    )
    shapes = {"a": (256, k), "b": (384, k), "scale_a": (k // 128, 256), "scale_b": (3, k // 128)}
    generator = np.random.default_rng(1)
    arrays = {name: generator.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    case = SimpleNamespace(parameters={"scaling": scaling, "accumulate": accumulate})
    library, _, call = peers._scaled_matmul(torch, case, [array.view(FakeMatrix) for array in arrays.values()])
    assert "cuBLASLt" in library
    call()
    return *called[0], arrays


@pytest.mark.parametrize("scaling", ["tensor", "block"])
@pytest.mark.parametrize("accumulate", ["fast", "promoted"])
def test_cublaslt_gets_the_scales_as_it_wants_them_and_adds_up_as_the_kernel_does(scaling, accumulate):
    (a, b, scale_a, scale_b), settings, arrays = scaled_product(512, scaling, accumulate)
    assert settings == {"out_dtype": "bf16", "use_fast_accum": accumulate == "fast"}
    expected = arrays["scale_a"].T, arrays["scale_b"].T
    if scaling == "tensor":
        expected = arrays["scale_a"][0, 0], arrays["scale_b"][0, 0]
    else:
        assert scale_a.strides == (4, 4 * 256)  # one column after the other
    for given, right in ((a, arrays["a"]), (b, arrays["b"].T), (scale_a, expected[0]), (scale_b, expected[1])):
        assert np.array_equal(given, right)


def test_scales_of_blocks_that_cublaslt_would_misread_are_refused():
    with pytest.raises(MeasurementError, match="k=640"):
        scaled_product(640, "block", "promoted")
    scaled_product(640, "tensor", "promoted")


def test_attention_is_cudnns_and_nobody_elses():
    switched = {}
    names = ("flash", "mem_efficient", "math", "cudnn")
    switches = {f"enable_{name}_sdp": functools.partial(switched.__setitem__, name) for name in names}
    attend = SimpleNamespace(scaled_dot_product_attention=lambda q, k, v, is_causal, **more: (is_causal, more))
    versions = SimpleNamespace(version=lambda: 91002)
    torch = SimpleNamespace(
        backends=SimpleNamespace(cuda=SimpleNamespace(**switches), cudnn=versions),
        nn=SimpleNamespace(functional=attend),
        __version__="9.9",
    )
    shared = {"enable_gqa": True}
    for value, causal, group, more in ((0, False, 1, {}), (1, True, 1, {}), (1, True, 4, shared)):
        case = SimpleNamespace(parameters={"causal": value, "group": group})
        library, version, call = peers._sdpa(torch, case, [1, 2, 3])
        assert call() == (causal, more)
    assert switched == {"flash": False, "mem_efficient": False, "math": False, "cudnn": True}
    assert "cuDNN" in library and version.startswith("cuDNN 9.10.2")


def test_the_command_hands_the_wish_on(monkeypatch, capsys, library):
    seen = []

    def remember(request):
        seen.append(request)
        return execute(request, FakeGpu)

    monkeypatch.setattr(kernels, "execute", remember)
    argv = ["bench", "tensor_core_gemm", "-p", "stages=2", "-p", "m=128,n=128,k=64", "--library", "--json"]
    with pytest.raises(SystemExit) as ended:
        cli.main(argv)
    assert not ended.value.code
    assert seen[0].against
    assert json.loads(capsys.readouterr().out)["against"]["library"] == "cuTest"
