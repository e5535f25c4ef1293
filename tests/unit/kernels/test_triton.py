"""Own kernels in Triton's language: how they are bound to a spec and compiled without a GPU."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ncubble.cli import main as cli
from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.build import build
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.session import KernelRequest, execute
from ncubble.kernels.spec.case import Case, make_case
from ncubble.kernels.spec.spec import SMS, Scalar
from tests.helpers.fake_gpu import FakeGpu
from tests.helpers.own_kernels import write_own_kernels


def run(*argv: str) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        cli.main(list(argv))
    return int(ended.value.code or 0)


SOURCE = """
import triton
import triton.language as tl

@triton.jit
def scale(x, out, n, a, BLOCK: tl.constexpr, HALF: tl.constexpr = False):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, a * tl.load(x + at, at < n), at < n)

@triton.autotune([triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def tuned(x, out, n, a, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, a * tl.load(x + at, at < n), at < n)

@triton.jit
def strided(x, out, n, a, stride_row, stride_column, BLOCK: tl.constexpr):
    at = tl.program_id(0) * stride_row + tl.arange(0, BLOCK) * stride_column
    tl.store(out + at, a * tl.load(x + at, at < n), at < n)

@triton.jit(do_not_specialize=["n"])
def persistent(x, out, n, a, programs, BLOCK: tl.constexpr):
    for first in range(tl.program_id(0) * BLOCK, n, programs * BLOCK):
        at = first + tl.arange(0, BLOCK)
        tl.store(out + at, a * tl.load(x + at, at < n), at < n)

@triton.jit
def broken(x, out, n, a, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), undefined_name)

@triton.jit
def tiles(x, out, n, a):
    rows, depth = tl.arange(0, 64), tl.arange(0, 64)
    total = tl.zeros((64, 64), tl.float32)
    for start in range(0, n, 64):
        left = tl.load(x + rows[:, None] * n + start + depth[None, :])
        right = tl.load(x + (start + depth)[:, None] * 64 + rows[None, :])
        total = tl.dot(left, right, total)
    tl.store(out + rows[:, None] * 64 + rows[None, :], a * total)

def plain(x, out, n, a, BLOCK): ...
"""
STRIDES = (Scalar("row", "int32", lambda shape: shape["n"]), Scalar("column", "int32", 1))


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's kernels, with more in their source, and an empty cache."""
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "own"
    folder.mkdir()
    (write_own_kernels(folder) / "tiles.py").write_text(SOURCE)
    return folder


def case(own: Path, chosen: Any = None, n: int = 1 << 20, **changes: Any) -> Case:
    members = {"function": "scale", **changes}
    return make_case(replace(find_spec("scale_tiles", own), **members), chosen, {"n": n})


def test_without_triton_it_is_named_with_what_installs_it(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(MeasurementError, match="Triton cannot be imported") as refused:
        build(case(own), "sm_90a")
    assert "triton]" in str(refused.value.remedy)


def test_it_is_compiled_for_a_named_architecture_and_comes_from_the_cache(own: Path) -> None:
    pytest.importorskip("triton")
    first, again = build(case(own), "sm_80"), build(case(own), "sm_80")
    assert (first.cached, again.cached) == (False, True)
    assert replace(first, cached=True) == again
    assert first.compiler.startswith("Triton ") and {"BLOCK=1024", "num_warps=4"} <= {*first.flags}
    assert first.resources.registers > 0 and first.resources.spill_B == 0
    assert not build(case(own), "sm_90a").cached
    assert not build(case(own, {"num_warps": 8}), "sm_80").cached
    (own / "tiles.py").write_text(SOURCE.replace("a * tl", "2 * a * tl"))
    assert not build(case(own), "sm_80").cached


def test_what_is_launched_follows_triton(own: Path) -> None:
    pytest.importorskip("triton")
    made = case(own, {"num_warps": 8})
    launch = build(made, "sm_90a").launch
    assert launch is not None
    launched = launch.of(made, scratch=1 << 40)
    assert launched.block == (256, 1, 1) and launched.grid == made.grid and launched.smem == launch.smem_B
    assert [float(value) for value in launched.scalars()] == [1 << 20, 2.0, float(1 << 40), 0.0]


@pytest.mark.parametrize(
    ("n", "changes", "passed"),
    [
        (1000, {}, [1000, 2]),
        (1, {}, [2]),
        (4096, {"function": "tuned"}, [4096, 2]),
        (4096, {"function": "strided", "scalars": ("n", Scalar("a", "float32", 2.0), *STRIDES)}, [4096, 2, 4096]),
        (1, {"function": "persistent", "scalars": ("n", Scalar("a", "float32", 2.0), SMS)}, [1, 2, 132]),
        (1000, {"scalars": ("n",), "defines": {"a": 3, "HALF": 1}}, [1000]),
    ],
    ids=["plain", "one", "autotuned", "strides", "not specialized", "constants"],
)
def test_arguments_are_those_that_tritons_own_launch_would_pass(
    own: Path, n: int, changes: Any, passed: list[float]
) -> None:
    """A value of 1 is compiled in, as are constants; multiples of 16 are told to the compiler."""
    pytest.importorskip("triton")
    made = case(own, n=n, **changes)
    built = build(made, "sm_90a")
    assert built.launch is not None
    assert built.launch.of(made).scalars(sms=132)[:-2] == tuple(passed)


def test_types_and_attributes_are_those_of_tritons_own_binder(own: Path) -> None:
    jit = pytest.importorskip("triton.runtime.jit")
    compiler = pytest.importorskip("triton.compiler.compiler")
    backends = pytest.importorskip("triton.backends.compiler")
    from ncubble.kernels.triton import TritonSource

    scalars = ("n", Scalar("a", "float32", 2.0), *STRIDES)
    ours = TritonSource.of(case(own, n=4096, function="strided", scalars=scalars))
    function, backend = ours.ast.fn, compiler.make_backend(backends.GPUTarget("cuda", 90, 32))
    bind = jit.create_function_from_signature(function.signature, function.params, backend)
    pointers = [jit.MockTensor("fp32"), jit.MockTensor("fp32")]
    bound, specialization, options = bind(*pointers, 4096, 2.0, 4096, 1, BLOCK=1024, num_warps=4)
    _, signature, constants, attributes = function._pack_args(backend, options, bound, specialization, options)
    assert (ours.ast.signature, ours.ast.constants) == (signature, constants)
    assert ours.ast.attrs == {path: told for path, told in attributes.items() if told}, "3.9 lists empty ones"


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"function": "plain"}, "'plain' is no @triton.jit function"),
        ({"function": "nothing"}, "'nothing' is no @triton.jit function; set function="),
        (
            {"defines": {"num_warp": 4}},
            "'num_warp' is no argument of scale and no option that specs can set; did you mean",
        ),
        ({"defines": {"num_ctas": 2}}, "'num_ctas' is no argument of scale"),
        ({"parameters": ()}, r"scale needs \(x, out, n, a, BLOCK: tl.constexpr\)"),
        ({"scalars": ("n",)}, r"its arrays and scalars are \(x, out, n\); declare arrays and scalars"),
        ({"parameters": (), "scalars": ("n", "n", "n")}, "a parameter or a define for each tl.constexpr"),
    ],
    ids=str,
)
def test_a_function_and_a_spec_that_do_not_fit_are_refused(own: Path, changes: Any, complaint: str) -> None:
    pytest.importorskip("triton")
    rules = {"grid": (1,)} if "parameters" in changes else {}
    with pytest.raises(UsageError, match=complaint) as refused:
        try:
            build(case(own, **changes, **rules), "sm_90a")
        except UsageError as error:
            raise UsageError(f"{error.message}; {error.remedy}") from error
    assert "scale_tiles" in refused.value.message or "tiles.py" in refused.value.message


def test_tritons_words_are_in_the_error(own: Path) -> None:
    pytest.importorskip("triton")
    with pytest.raises(MeasurementError, match=r"Triton could not compile .*tiles.py:\n(.*\n)*.*undefined_name"):
        build(case(own, function="broken"), "sm_90a")


def test_a_tile_that_no_cta_can_hold_is_refused(own: Path) -> None:
    pytest.importorskip("triton")
    more = {"function": "tiles", "parameters": (), "defines": {"num_stages": 9}}
    with pytest.raises(UsageError, match=r"bytes of shared memory per CTA, sm_80 has 166912"):
        build(case(own, grid=(1,), **more), "sm_80")


def test_compile_only_shows_resources_and_machine_code(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    warned: list[str] = []
    monkeypatch.setattr("triton.knobs.warn_once", warned.append, raising=False)
    monkeypatch.delenv("TRITON_DEFAULT_FP_FUSION", raising=False)
    argv = ["verify", "scale_tiles", "--compile-only", "--catalog", str(write_own_kernels(own)), "-p", "num_warps=8"]
    assert run(*argv, "--out", str(tmp_path / "code")) == 0
    said = capsys.readouterr().out
    assert not warned
    assert "scale_tiles (sm_90a)  builds: " in said and " registers, 0 B spilled" in said
    assert " LDG" in said and " STG" in said
    listing = (tmp_path / "code" / "scale_tiles.sass").read_text()
    assert "LDG.E" in listing and 'tiles.py", line' in listing
    assert run(*argv, "--json") == 0
    (check,) = json.loads(capsys.readouterr().out)["kernels"]
    assert any(opcode.startswith("LDG.E") for opcode in check["opcodes"]) and check["resources"]["spill_B"] == 0


def test_triton_kernels_need_no_nvcc(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("triton")
    monkeypatch.setattr("ncubble.kernels.build.cuda_tool", lambda name: None)
    monkeypatch.setattr("ncubble.kernels.run.compiling.cxx", lambda: None)
    (write_own_kernels(own) / "scale.py").unlink()
    assert run("verify", "--compile-only", "--catalog", str(own)) == 3
    said = capsys.readouterr()
    assert said.err.endswith("ncubble: missing: nvdisasm\n  remedy: see above\n")
    assert "scale_tiles (sm_90a)  builds: " in said.out


def test_it_is_run_verified_and_told_like_any_kernel(own: Path) -> None:
    pytest.importorskip("triton")
    gpu = FakeGpu()
    request = KernelRequest("scale_tiles", {"num_warps": 8}, {"n": 1000}, write_own_kernels(own))
    outcome = execute(request, lambda: gpu)
    assert outcome.verification is not None and outcome.verification.passed and outcome.timing is not None
    assert outcome.case.block == (256, 1, 1)
    facts = outcome.to_json()
    assert facts["kernel"]["function"] == "scale_tiles" and facts["kernel"]["bytes"] == 8000
    assert facts["build"]["compiler"].startswith("Triton ") and facts["build"]["code_sha256"]
    with pytest.raises(UsageError, match="not built by nvcc"):
        execute(replace(request, debug=True, iterations=0), FakeGpu)
