"""A request from start to end on a GPU made of host memory (the sources are really compiled), with
its switches --debug and --ranges."""

from __future__ import annotations

import builtins
import json
import sys
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from types import SimpleNamespace

import pytest
from elftools.elf.elffile import ELFFile

from ncubble.api import kernels
from ncubble.cli import main as cli
from ncubble.errors import MeasurementError, UsageError, VerificationError
from ncubble.kernels import __main__ as program
from ncubble.kernels.build import DEBUG, DEBUG_HEADER, build, code_hash, includes
from ncubble.kernels.catalog.registry import catalog, find_spec
from ncubble.kernels.run import launch
from ncubble.kernels.run.bench import nvtx_ranges
from ncubble.kernels.run.gates import gates_of, run_acceptance
from ncubble.kernels.run.session import KernelRequest, describe, execute, parse_parameters, parse_shape
from ncubble.kernels.spec.case import make_case
from tests.helpers.fake_gpu import FakeGpu

pytestmark = pytest.mark.usefixtures("compiler")

SMALL = {"m": 256, "n": 128, "k": 64}
ONCE = KernelRequest("tensor_core_gemm", {"stages": 2}, SMALL, seed=3, iterations=0)
NAME, TINY = "sdpa_fp8_stage_c_wmma", {"b": 1, "h": 1, "s": 40, "d": 16}


# What is asked.


def test_pairs_are_parsed():
    assert parse_parameters(["stages=3", "copy=plain"]) == {"stages": "3", "copy": "plain"}
    assert parse_shape(["m=256,n=512", "k=64", "m=256"]) == {"m": 256, "n": 512, "k": 64}


@pytest.mark.parametrize(
    ("parse", "texts", "complaint"),
    [
        *[(parse_parameters, [text], "not name=value") for text in ("stages", "stages=", "=3")],
        *[(parse_shape, [text], "not name=integer") for text in ("m", "m=", "m=x", "m=-1", "m=1.5", "m=²")],
        (parse_shape, ["m=" + "9" * 5000], "5000 digits"),
        (parse_parameters, ["stages=2", "stages=3"], "stages is both 2 and 3"),
        (parse_shape, ["m=128,n=64", "m=256"], "m is both 128 and 256"),
    ],
)
def test_what_is_no_pair_or_said_twice_is_refused(parse, texts, complaint):
    with pytest.raises(UsageError, match=complaint):
        parse(texts)


@pytest.mark.parametrize("bad", [{"launches": 0}, {"iterations": -1}, {"seed": -1}])
def test_counts_that_make_no_sense_are_refused(bad):
    with pytest.raises(UsageError):
        KernelRequest("tiled_matmul", **bad)


# What is done.


@pytest.mark.parametrize("launches", [1, 4])
def test_profile_mode_launches_exactly_as_often_as_asked_and_times_nothing(launches):
    gpu = FakeGpu()
    outcome = execute(replace(ONCE, verify=False, launches=launches), lambda: gpu)
    assert gpu.log.count("launch") == launches and "download" not in gpu.log
    assert outcome.verification is None and outcome.timing is None
    assert gpu.closed


def test_what_cannot_be_verified_is_timed_without_and_says_so():
    gpu = FakeGpu()
    ablated = replace(ONCE, parameters={"stages": 2, "ablate": "copy"}, iterations=100)
    outcome = execute(ablated, lambda: gpu)
    assert outcome.verification is None and outcome.timing is not None
    assert "download" not in gpu.log
    assert any("verify  skipped: ablate=copy" in line for line in describe(outcome))
    with pytest.raises(UsageError, match="ablate=copy"):
        execute(replace(ablated, iterations=0), lambda: gpu)
    assert execute(replace(ablated, iterations=0, verify=False), lambda: gpu).timing is None


def test_outputs_are_poisoned_before_the_launch():
    gpu = FakeGpu()
    execute(ONCE, lambda: gpu)
    assert gpu.log.index("fill") < gpu.log.index("launch")


def test_a_right_kernel_is_verified_then_timed():
    gpu = FakeGpu()
    outcome = execute(replace(ONCE, iterations=100), lambda: gpu)
    assert outcome.verification.passed
    assert gpu.log.index("download") < gpu.log.index("launch", gpu.log.index("launch") + 1)
    assert outcome.timing.iterations == 100
    assert outcome.timing.p50_us == pytest.approx(1000.0)
    assert outcome.timing.std_us == pytest.approx(0.0, abs=1e-6)
    assert outcome.rates.tflops == pytest.approx(2 * 256 * 128 * 64 / 1e-3 / 1e12)
    assert outcome.rates.peak == pytest.approx(4096 * 132 * 1980e6 / 1e12)


def test_a_memory_bound_kernel_is_related_to_a_device_copy():
    rates = execute(KernelRequest("softmax_online", shape={"rows": 64, "cols": 256}, seed=1), FakeGpu).rates
    moved = 2 * 64 * 256 * 4
    assert rates.tflops is None and rates.fraction == pytest.approx(0.5)
    assert rates.gb_per_s == pytest.approx(moved / 1e-3 / 1e9)
    assert rates.peak == pytest.approx(moved / 0.5e-3 / 1e9)


def spoil_one_element(views, gpu):
    views["c"][100, 100] += 1.0


def leave_unwritten(views, gpu):
    views["c"].view("uint8")[:] = 0xFF


@pytest.mark.parametrize("spoil", [spoil_one_element, leave_unwritten], ids=lambda spoil: spoil.__name__)
def test_a_wrong_kernel_is_not_timed(spoil):
    gpu = FakeGpu(spoil)
    outcome = execute(replace(ONCE, iterations=100), lambda: gpu)
    assert not outcome.verification.passed and outcome.timing is None
    assert gpu.log.count("launch") == 1
    assert "WRONG" in "\n".join(describe(outcome))
    with pytest.raises(VerificationError):
        outcome.require()


def test_a_write_past_the_end_is_caught():
    def spoil(views, gpu):
        max(gpu.memory.values(), key=len)[-1] = 0

    outcome = execute(ONCE, lambda: FakeGpu(spoil))
    assert outcome.verification.overrun == ("c",) and not outcome.verification.passed


def test_too_much_shared_memory_is_refused_before_anything_is_built(monkeypatch):
    monkeypatch.setattr(launch, "build", lambda *_: pytest.fail("built"))
    gpu = FakeGpu()
    gpu.facts = replace(gpu.facts, smem_per_cta=99 * 1024)
    with pytest.raises(UsageError, match="113664 bytes of shared memory per CTA, Fake H200 has 101376"):
        execute(KernelRequest("tensor_core_gemm", {"stages": 6}, SMALL, iterations=0), lambda: gpu)
    assert gpu.closed


def test_facts_are_written_where_the_profiler_asks(tmp_path, monkeypatch):
    target = tmp_path / "facts.json"
    monkeypatch.setenv("NCUBBLE_FACTS", str(target))
    execute(replace(ONCE, verify=False), FakeGpu)
    facts = json.loads(target.read_text())
    assert facts["kernel"] == {
        "name": "tensor_core_gemm",
        "function": "tensor_core_gemm",
        "parameters": {"stages": 2, "copy": "async", "vec": 16},
        "shape": SMALL,
        "stages": 2,
        "flops": 2.0 * 256 * 128 * 64,
        "bytes": 2.0 * (256 * 64 + 64 * 128) + 4.0 * 256 * 128,
        "dtype": "float16",
    }
    assert set(facts["build"]) == {
        *("compiler", "flags", "registers", "smem_static_B", "smem_dynamic_B", "spill_B"),
        *("cubin_sha256", "code_sha256", "warnings"),
    }
    assert facts["build"]["smem_dynamic_B"] == 2 * 18944
    assert facts["device"] == {"name": "Fake H200", "compute_capability": "9.0", "driver": "580.00"}
    assert facts["clocks"]["sm_mhz"] == 1700
    monkeypatch.setenv("NCUBBLE_FACTS", str(tmp_path / "nowhere" / "facts.json"))
    with pytest.raises(MeasurementError, match="NCUBBLE_FACTS"):
        execute(ONCE, FakeGpu)


def test_a_fresh_seed_is_drawn_and_told():
    first, second = (execute(replace(ONCE, seed=None), FakeGpu) for _ in range(2))
    assert first.seed != second.seed
    assert f"seed    {first.seed}" in "\n".join(describe(first))


@pytest.mark.parametrize(
    ("argv", "spoil", "code", "words"),
    [
        (("--once", "--json", "--seed", "4"), None, 0, ""),
        (("--once", "--json"), leave_unwritten, 4, "wrong result"),
        (("-p", "stages=77"), None, 2, "stages=77"),
    ],
)
def test_the_program_that_is_profiled_prints_an_object_and_ends_with_its_code(
    monkeypatch, capsys, argv, spoil, code, words
):
    monkeypatch.setattr(program, "execute", lambda request: execute(request, lambda: FakeGpu(spoil)))
    assert program.main(["tensor_core_gemm", "--shape", "m=256,n=128,k=64", *argv]) == code
    said = capsys.readouterr()
    assert words in said.err and ("--seed" in said.err) == (code == 4)
    if "--json" in argv:
        found = json.loads(said.out)
        assert found["timing"] is None and found["verification"]["passed"] is (spoil is None)
        assert found["seed"] == 4 if spoil is None else found["verification"]["max_abs_error"] is None


# The ranges of --ranges.


@pytest.fixture
def ranged(monkeypatch):
    """The ranges around each launch, joined by slashes, by a stand-in for NVIDIA's package."""
    open_ranges, launches = [], []

    @contextmanager
    def annotate(name):
        open_ranges.append(name)
        yield
        assert open_ranges.pop() == name

    class Watched(FakeGpu):
        def launch(self, *arguments):
            launches.append("/".join(open_ranges))
            super().launch(*arguments)

    monkeypatch.setitem(sys.modules, "nvtx", SimpleNamespace(annotate=annotate))
    return SimpleNamespace(gpu=Watched, launches=launches)


@pytest.mark.parametrize(
    ("nvtx", "expected"), [(True, {"verify": 1, "warm-up": 10, "time": 100}), (False, {"": 111})], ids=["on", "off"]
)
def test_every_phase_has_a_range_of_its_own(ranged, nvtx, expected):
    execute(KernelRequest(NAME, {}, TINY, seed=1, iterations=100, nvtx=nvtx), ranged.gpu)
    assert {name: ranged.launches.count(name) for name in ranged.launches} == expected


def test_gates_put_a_range_around_each_path(ranged):
    gates = replace(gates_of(NAME), shapes={"small": TINY}, timed="small", seeds=(0,), iterations=2)
    run_acceptance(NAME, gates, run=lambda request: execute(request, ranged.gpu), nvtx=True)
    assert ranged.launches.count("baseline/verify") == ranged.launches.count("candidate/verify") == 1
    assert ranged.launches.count("candidate/time") == 2


def test_a_missing_package_is_named_before_anything_is_launched(monkeypatch):
    original = builtins.__import__

    def refuse(name, *rest):
        if name == "nvtx":
            raise ImportError("No module named 'nvtx'")
        return original(name, *rest)

    monkeypatch.delitem(sys.modules, "nvtx", raising=False)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MeasurementError, match="nvtx") as error:
        nvtx_ranges()
    assert "[gpu]', or omit --ranges" in error.value.remedy


# The build of --debug.


@pytest.mark.parametrize("path", [0, 1])
def test_a_debug_build_prints_and_checks_and_another_build_holds_nothing_of_it(path):
    case = make_case(find_spec(NAME), {"use_cp_async": path}, TINY)
    plain, debug = build(case, "sm_90a"), build(case, "sm_90a", DEBUG)
    assert b"keys, first byte" in debug.cubin
    for text in (b"vprintf", b"__assertfail"):
        assert text in debug.cubin and text not in plain.cubin
    assert code_hash(plain.cubin) != code_hash(debug.cubin)
    assert "-G" in debug.flags and "-G" not in plain.flags


@pytest.mark.parametrize(
    ("name", "parameters", "symbol", "alignment"),
    [("async_copy_tma", {}, "buffers", 128), ("cluster_dsmem", {"share": "multicast"}, "memory", 1024)],
)
def test_debug_builds_align_shared_memory_that_tma_fills(name, parameters, symbol, alignment):
    """``nvcc -G`` ignores the alignment of dynamic shared memory and places it right behind the
    static part."""
    cubin = ELFFile(BytesIO(build(make_case(find_spec(name), parameters), "sm_90a", DEBUG).cubin))
    (dynamic,) = cubin.get_section_by_name(".symtab").get_symbol_by_name(symbol)
    assert dynamic["st_value"] % alignment == 0


def run_cli(capsys, *argv):
    with pytest.raises(SystemExit) as ended:
        cli.main(["verify", *argv])
    return ended.value.code or 0, capsys.readouterr().err


def test_a_kernel_that_prints_nothing_when_debugged_is_said_to(monkeypatch, capsys, repository):
    ran = []
    done = SimpleNamespace(require=lambda: None)
    monkeypatch.setattr(kernels, "execute", lambda request: ran.append(request) or done)
    monkeypatch.setattr("ncubble.kernels.run.session.describe", lambda outcome: [])
    for name, silent in (("gemm_tma", True), (NAME, False)):
        code, said = run_cli(capsys, name, "--debug")
        assert not code and ran.pop().debug
        assert (f"note: {name} has no debug prints" in said) is silent
    printing = {spec.name for spec in catalog().values() if includes(make_case(spec), DEBUG_HEADER)}
    page = (repository / "docs" / "reference" / "kernels.md").read_text()
    assert printing == {NAME} and f"`{NAME}`" in page


def test_debug_code_is_verified_and_never_timed():
    outcome = execute(KernelRequest(NAME, {}, TINY, seed=1, iterations=0, debug=True), FakeGpu)
    assert outcome.verification is not None and outcome.verification.passed
    assert set(DEBUG) <= set(outcome.facts["build"]["flags"])
    with pytest.raises(UsageError, match="times are meaningless"):
        KernelRequest(NAME, iterations=100, debug=True)
    with pytest.raises(UsageError, match="not built by nvcc"):
        execute(KernelRequest("numba_softmax_online", iterations=0, debug=True), FakeGpu)


@pytest.mark.parametrize("other", ["--gates", "--json"])
def test_debug_goes_with_nothing_that_it_would_spoil(capsys, other):
    code, said = run_cli(capsys, NAME, "--debug", other)
    assert code == 2 and "--debug cannot be combined with" in said
