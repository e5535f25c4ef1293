"""The switches --debug and --nvtx: what is built and printed, and which range holds a launch."""

from __future__ import annotations

import builtins
import sys
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from elftools.elf.elffile import ELFFile

from ncubble.api import kernels
from ncubble.cli import main as cli
from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.build import DEBUG, DEBUG_HEADER, build, code_hash, includes
from ncubble.kernels.catalog.registry import catalog, find_spec
from ncubble.kernels.run.bench import nvtx_ranges
from ncubble.kernels.run.gates import gates_of, run_acceptance
from ncubble.kernels.run.session import KernelRequest, execute
from ncubble.kernels.spec.case import make_case
from tests.helpers.fake_gpu import FakeGpu

pytestmark = pytest.mark.usefixtures("compiler")

NAME, SMALL = "sdpa_fp8_stage_c_wmma", {"b": 1, "h": 1, "s": 40, "d": 16}


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


def test_every_phase_has_a_range_of_its_own(ranged):
    execute(KernelRequest(NAME, {}, SMALL, seed=1, iterations=100, nvtx=True), ranged.gpu)
    assert {name: ranged.launches.count(name) for name in ranged.launches} == {"verify": 1, "warm-up": 10, "time": 100}


def test_without_the_switch_there_are_no_ranges(ranged):
    execute(KernelRequest(NAME, {}, SMALL, seed=1, iterations=100), ranged.gpu)
    assert set(ranged.launches) == {""}


def test_gates_put_a_range_around_each_path(ranged):
    gates = replace(gates_of(NAME), shapes={"small": SMALL}, timed="small", seeds=(0,), iterations=2)
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
    assert "[gpu]', or omit --nvtx" in error.value.remedy


def test_a_debug_build_prints_and_checks_and_another_build_holds_nothing_of_it():
    for path in (0, 1):
        case = make_case(find_spec(NAME), {"use_cp_async": path}, SMALL)
        plain, debug = build(case, "sm_90a"), build(case, "sm_90a", DEBUG)
        assert b"vprintf" in debug.cubin and b"__assertfail" in debug.cubin and b"keys, first byte" in debug.cubin
        assert b"vprintf" not in plain.cubin and b"__assertfail" not in plain.cubin
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


def test_a_kernel_that_prints_nothing_when_debugged_is_said_to(monkeypatch, capsys):
    ran = []
    done = SimpleNamespace(require=lambda: None)
    monkeypatch.setattr(kernels, "execute", lambda request: ran.append(request) or done)
    monkeypatch.setattr("ncubble.kernels.run.session.describe", lambda outcome: [])
    for name, silent in (("gemm_tma", True), ("sdpa_fp8_stage_c_wmma", False)):
        with pytest.raises(SystemExit) as ended:
            cli.main(["verify", name, "--debug"])
        assert not ended.value.code and ran.pop().debug
        assert (f"note: {name} has no debug prints" in capsys.readouterr().err) is silent
    printing = {spec.name for spec in catalog().values() if includes(make_case(spec), DEBUG_HEADER)}
    page = (Path(__file__).parents[4] / "docs" / "reference" / "kernels.md").read_text()
    assert printing == {"sdpa_fp8_stage_c_wmma"} and all(f"`{name}`" in page for name in printing)


def test_debug_code_is_verified_and_never_timed():
    outcome = execute(KernelRequest(NAME, {}, SMALL, seed=1, iterations=0, debug=True), FakeGpu)
    assert outcome.verification is not None and outcome.verification.passed
    assert set(DEBUG) <= set(outcome.facts["build"]["flags"])
    with pytest.raises(UsageError, match="times are meaningless"):
        KernelRequest(NAME, iterations=100, debug=True)


def test_a_kernel_that_nvcc_does_not_build_has_no_debug_build():
    with pytest.raises(UsageError, match="not built by nvcc"):
        execute(KernelRequest("numba_softmax_online", iterations=0, debug=True), FakeGpu)


@pytest.mark.parametrize("other", ["--gates", "--json"])
def test_debug_goes_with_nothing_that_it_would_spoil(capsys, other):
    with pytest.raises(SystemExit) as ended:
        cli.main(["verify", NAME, "--debug", other])
    assert ended.value.code == 2 and "--debug cannot be combined with" in capsys.readouterr().err
