"""The Triton kernel of docs/own-kernels.md on a GPU: verified, timed, profiled, tried, swept and
checked by name."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.launch import prepare
from ncubble.kernels.spec.case import make_case
from tests.helpers.on_gpu import verified
from tests.helpers.own_kernels import write_own_kernels

pytestmark = pytest.mark.gpu
pytest.importorskip("triton")
NAME = "scale_tiles"
SMALL = ("-p", "n=4194304")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_own_kernels(tmp_path_factory.mktemp("my_kernels"))


def ncubble(folder: Path, *argv: str) -> str:
    """What a command prints, run in ``folder``; it must end with 0."""
    code = "from ncubble.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *argv], cwd=folder.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{argv}: {done.stderr}\n{done.stdout}"
    return done.stdout


def answer(folder: Path, *argv: str) -> Any:
    return json.loads(ncubble(folder, *argv, "--json"))


@pytest.mark.parametrize("n", [1, 16, 1000, 1_000_003])
@pytest.mark.parametrize("block", [512, 4096])
def test_it_is_right_over_sizes_and_parameters(own: Path, n: int, block: int) -> None:
    """A size of 1 is compiled in, so that it is no argument of the launch; a multiple of 16 is told
    to the compiler."""
    for warps in (2, 8):
        verified(NAME, {"BLOCK": block, "num_warps": warps}, {"n": n}, catalog=own)


def test_a_wrong_kernel_is_seen(own: Path, tmp_path: Path) -> None:
    write_own_kernels(tmp_path)
    source = tmp_path / "tiles.py"
    source.write_text(source.read_text().replace("a * tl", "1.001 * a * tl"))
    with pytest.raises(AssertionError, match="bad of"):
        verified(NAME, {}, {"n": 1 << 20}, catalog=tmp_path)


def test_its_code_is_that_of_tritons_own_launch(own: Path) -> None:
    torch = pytest.importorskip("torch")
    from ncubble.kernels.build import code_hash
    from ncubble.kernels.catalog.registry import load_module

    n = 1 << 20
    with closing(Gpu.open()) as gpu:
        ours = prepare(make_case(find_spec(NAME, own), None, {"n": n}), gpu).build
    function = load_module(own / "tiles.py").scale_tiles
    x = torch.randn(n, device="cuda")
    theirs = function[(n // 1024,)](x, torch.empty_like(x), n, 2.0, BLOCK=1024, num_warps=4)
    assert ours.code_sha256 == code_hash(theirs.asm["cubin"])
    assert ours.registers == theirs.n_regs and ours.smem_dynamic_B == theirs.metadata.shared


def test_verify_and_bench(own: Path) -> None:
    assert answer(own, "verify", NAME, "--catalog", str(own))["verification"]["passed"]
    timed = answer(own, "bench", NAME, "--catalog", str(own), "-p", "num_warps=8")
    assert timed["timing"]["p50_us"] > 0 and timed["rates"]["gb_per_s"] > 0
    assert timed["build"]["registers"] > 0 and timed["build"]["spill_B"] == 0
    assert timed["kernel"]["parameters"] == {"BLOCK": 1024, "num_warps": 8}


def test_compile_only_needs_no_gpu_and_shows_the_code(own: Path) -> None:
    (check,) = answer(own, "verify", NAME, "--compile-only", "--catalog", str(own))["kernels"]
    assert check["problems"] == [] and check["resources"]["registers"] > 0
    assert any(opcode.startswith("LDG.E") for opcode in check["opcodes"])


def test_profile_report_baseline_and_check(own: Path) -> None:
    catalog = ("--setting", f"catalog={own}")
    ncubble(own, "profile", NAME, "--catalog", str(own), *SMALL, "--repeat", "5", "--out", "runs/scale")
    launches = answer(own, "report", "runs/scale")["launches"]
    assert [launch["kernel"] for launch in launches] == [NAME] * 5
    assert all(launch["account"] and launch["label"].startswith(NAME) for launch in launches)
    ncubble(own, "baseline", "runs/scale")
    ncubble(own, "check", "--profile", NAME, *SMALL, *catalog, "--rule", "cycles 50%", "--out", "runs/new")


def test_try_times_every_change(own: Path) -> None:
    tried = answer(own, "try", NAME, "--catalog", str(own), *SMALL, "--out", "runs/tried")
    (base,) = tried["rounds"]
    outcomes = {(change["name"], change["after"]): change["outcome"] for change in base["changes"]}
    assert {*outcomes} == {("BLOCK", 512), ("BLOCK", 4096), ("num_warps", 2), ("num_warps", 8)}
    assert {*outcomes.values()} == {"ok"}
    assert all(change["built"]["registers"] for change in base["changes"])


def test_sweep(own: Path) -> None:
    swept = answer(own, "sweep", NAME, "--catalog", str(own), *SMALL, "-g", "num_warps=4,8", "--out", "runs/swept")
    assert [(job["parameters"]["num_warps"], job["state"]) for job in swept["jobs"]] == [(4, "ok"), (8, "ok")]
