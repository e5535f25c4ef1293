"""The exercises of docs/tutorial: where they start and where they end is the machine code of
kernels that were verified on GPUs, and their check tells one from the other."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from benchmarks.validation.planted import PLANTED
from ncubble.kernels.build import build, disassemble
from ncubble.kernels.catalog.registry import find_spec, user_specs
from ncubble.kernels.spec.case import Case, make_case
from ncubble.kernels.spec.spec import KernelSpec

ARCH = "sm_90a"
NAMES = ("ex0_copies", "ex1_tile", "ex2_cp_async", "ex3_stages", "ex4_swizzle", "ex5_tma", "ex6_roles")
# Exercise, its parameters, the kernel of the catalog that it is, with which parameters.
STARTS = [
    ("ex0_copies", {}, "async_copy_manual", {"stages": 1, "items": 4}),
    ("ex2_cp_async", {}, "tiled_matmul", {}),
    ("ex3_stages", {}, "tensor_core_gemm", {"stages": 1}),
    ("ex5_tma", {"stages": 1}, "gemm_tma", {"stages": 1}),
    ("ex6_roles", {}, "planted_roles", {"producer": "warp"}),
]
ENDS = [
    ("ex0_copies", {"stages": 1}, "async_copy_pipeline", {"stages": 1}),
    ("ex0_copies", {"stages": 4}, "async_copy_pipeline", {"stages": 4}),
    ("ex1_tile", {}, "tiled_matmul", {}),
    ("ex2_cp_async", {"stages": 3}, "async_pipeline", {"stages": 3}),
    ("ex3_stages", {"stages": 4}, "tensor_core_gemm", {"stages": 4}),
    ("ex4_swizzle", {}, "gemm_mma_swizzled", {}),
    ("ex5_tma", {"stages": 3}, "gemm_tma", {"stages": 3}),
    ("ex6_roles", {}, "planted_roles", {"producer": "tma"}),
]
compiles = pytest.mark.skipif(
    shutil.which("g++") is None or not (shutil.which("nvcc") or importlib.util.find_spec("nvidia")),
    reason="nvcc or g++ is missing",
)


@pytest.fixture(scope="module")
def folder(repository: Path) -> Path:
    return repository / "examples" / "tutorial"


@pytest.fixture(scope="module")
def specs(folder: Path) -> dict[str, KernelSpec]:
    return {spec.name: spec for spec in user_specs(folder)}


@pytest.fixture(scope="module")
def checker(folder: Path) -> ModuleType:
    found = importlib.util.spec_from_file_location("tutorial_check", folder / "check.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def instructions(case: Case) -> list[str]:
    """The machine code of a case, without addresses and labels."""
    code = re.findall(r"/\*[0-9a-f]{4,}\*/\s+([^;]+;)", disassemble(build(case, ARCH).cubin))
    return [re.sub(r"\s+", " ", re.sub(r"`\([^)]*\)", "LABEL", line)) for line in code]


@compiles
@pytest.mark.parametrize(("name", "own", "of", "parameters"), STARTS)
def test_an_exercise_starts_as_a_verified_kernel(
    specs: dict[str, KernelSpec], name: str, own: dict[str, int], of: str, parameters: dict[str, int | str]
) -> None:
    assert instructions(make_case(specs[name], own)) == instructions(make_case(find_spec(of, PLANTED), parameters))


@compiles
@pytest.mark.parametrize(("name", "own", "of", "parameters"), ENDS)
def test_a_solution_is_a_verified_kernel(
    specs: dict[str, KernelSpec],
    folder: Path,
    name: str,
    own: dict[str, int],
    of: str,
    parameters: dict[str, int | str],
) -> None:
    solved = replace(specs[name], folder=folder / "solutions")
    assert instructions(make_case(solved, own)) == instructions(make_case(find_spec(of, PLANTED), parameters))


@compiles
@pytest.mark.parametrize("name", NAMES)
def test_the_check_tells_a_start_from_a_solution(
    specs: dict[str, KernelSpec], folder: Path, checker: ModuleType, name: str
) -> None:
    assert checker.missing(make_case(specs[name]))
    assert checker.missing(make_case(replace(specs[name], folder=folder / "solutions"))) == []


@compiles
def test_a_layout_in_which_pieces_collide_is_refused(checker: ModuleType, folder: Path, tmp_path: Path) -> None:
    text = (folder / "ex4_layout.h").read_text()
    (tmp_path / "ex4_layout.h").write_text(text.replace("row * kRowBytes + column;", "row * kRowBytes + column % 64;"))
    assert checker.conflicts(tmp_path) == ["ex4_layout.h: two pieces share a place, or one left its 128 bytes"]


SHIM = """
#include <cstddef>
#include <cstdint>
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(x)
#define __shared__ static
struct Index { int x = 0, y = 0; } threadIdx, blockIdx;
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
#include "ex1_tile.cu"
extern "C" void run(const float* a, const float* b, float* c, int m, int n, int k) {
    for (blockIdx.y = 0; blockIdx.y < m / 128; ++blockIdx.y)
        for (blockIdx.x = 0; blockIdx.x < n / 128; ++blockIdx.x)
            for (threadIdx.x = 0; threadIdx.x < 256; ++threadIdx.x) ex1_tile(a, b, c, m, n, k);
}
"""


@compiles
def test_the_first_exercise_starts_with_the_right_result(folder: Path, repository: Path, tmp_path: Path) -> None:
    import ctypes

    (tmp_path / "run.cpp").write_text(SHIM)
    headers = [f"-I{folder}", f"-I{repository / 'kernels' / 'cuda'}"]
    command = [
        "g++",
        "-std=c++17",
        "-O2",
        "-shared",
        "-fPIC",
        *headers,
        tmp_path / "run.cpp",
        "-o",
        tmp_path / "run.so",
    ]
    subprocess.run(command, check=True)
    random = np.random.default_rng(7)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((128, 48), (48, 256)))
    c = np.full((128, 256), np.nan, np.float32)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (a, b, c)]
    ctypes.CDLL(str(tmp_path / "run.so")).run(*pointers, 128, 256, 48)
    assert np.allclose(c, a.astype(np.float64) @ b, atol=1e-4)


@compiles
def test_the_check_is_a_command(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", folder / "check.py", "ex2_cp_async", "x"], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stdout.splitlines()[:2] == ["ex2_cp_async: to do", "  LDGSTS.E.BYPASS.128 is missing"]
    assert "no such exercise; there are: ex0_copies" in done.stdout


def test_every_exercise_has_a_page(repository: Path, specs: dict[str, KernelSpec]) -> None:
    pages = "".join(path.read_text() for path in (repository / "docs" / "tutorial").glob("[0-9]*.md"))
    assert tuple(specs) == NAMES
    assert all(f"check.py {name}" in pages and f"verify {name}" in pages for name in NAMES)
