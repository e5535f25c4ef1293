"""GEMMs on a real GPU: right over parameters, shapes and seeds, at edges and over many tiles per
CTA, and as fast as they are to be."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ncubble.errors import UsageError
from ncubble.kernels.run.session import KernelRequest, execute
from tests.helpers.on_gpu import compile_all, p50_us, verified

pytestmark = pytest.mark.gpu


def mnk(m, n, k):
    return {"m": m, "n": n, "k": k}


# Tiles through shared memory, in CUDA C++ and in Numba.

WHOLE = [mnk(128, 128, 32), mnk(384, 640, 96), mnk(1024, 256, 2048)]


@pytest.mark.parametrize("shape", WHOLE, ids=str)
def test_tiled_matmul(shape):
    for seed in (0, 1, 2):
        verified("tiled_matmul", {}, shape, seed=seed)


@pytest.mark.parametrize("shape", WHOLE, ids=str)
@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("stages", [2, 3, 4, 5, 6])
def test_async_pipeline(stages, threads, shape):
    verified("async_pipeline", {"stages": stages, "threads": threads}, shape, seed=stages)


@pytest.mark.parametrize("shape", WHOLE, ids=str)
@pytest.mark.parametrize("vec", [4, 16])
@pytest.mark.parametrize("copy", ["plain", "async"])
@pytest.mark.parametrize("stages", [1, 2, 3, 4, 5, 6])
def test_tensor_core_gemm(stages, copy, vec, shape):
    verified("tensor_core_gemm", {"stages": stages, "copy": copy, "vec": vec}, shape, seed=stages)


@pytest.mark.parametrize(
    ("name", "seeds"),
    [
        *[(name, (None,)) for name in ("tiled_matmul", "async_pipeline", "tensor_core_gemm")],
        *[(name, (0, 1, 2)) for name in ("gemm_tma", "gemm_ws")],
    ],
)
def test_the_default_shape(name, seeds):
    for seed in seeds:
        verified(name, seed=seed)


ANY = [mnk(1, 1, 1), mnk(31, 4, 4), mnk(65, 130, 33), mnk(257, 100, 1000), mnk(512, 512, 512)]


@pytest.mark.parametrize("shape", ANY, ids=str)
def test_numba_kernels_take_any_size(shape):
    for blocking in (1, 2, 4):
        verified("numba_tiled_matmul", {"blocking": blocking}, shape)
    for stages in (2, 3, 4):
        for blocking in (4, 8):
            verified("numba_async_pipeline", {"stages": stages, "blocking": blocking}, shape, seed=stages)


@pytest.mark.parametrize("tile_k", [32, 64])
@pytest.mark.parametrize("tile_n", [128, 256])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_numba_tensor_core_gemm(stages, tile_n, tile_k):
    parameters = {"stages": stages, "tile_n": tile_n, "tile_k": tile_k}
    verified("numba_tensor_core_gemm", parameters, mnk(384, 768, 320))


@pytest.mark.parametrize("shape", [mnk(128, 256, 64), mnk(17 * 128, 256, 128), mnk(1024, 512, 2048)], ids=str)
def test_numba_tensor_core_gemm_over_bands_of_tiles(shape):
    verified("numba_tensor_core_gemm", {}, shape)


def test_copies_that_run_ahead_beat_plain_loads_and_tensor_cores_in_numba_beat_wmma():
    baseline = p50_us("tiled_matmul")
    assert p50_us("async_pipeline", {"stages": 3}) < baseline
    assert p50_us("async_pipeline", {"stages": 3, "threads": 128}) < baseline
    assert p50_us("numba_async_pipeline") < p50_us("numba_tiled_matmul")
    found = verified("numba_tensor_core_gemm", iterations=100)
    assert found.facts["build"]["spill_B"] == 0
    assert found.timing.p50_us < p50_us("tensor_core_gemm")


def test_bench_reports_time_and_rate():
    outcome = verified("tensor_core_gemm", {"stages": 2}, mnk(1024, 1024, 1024), iterations=100)
    assert outcome.timing.iterations >= 100
    assert 0 < outcome.timing.min_us <= outcome.timing.p50_us <= outcome.timing.p90_us
    assert 0 < outcome.rates.fraction < 1
    assert outcome.facts["build"]["spill_B"] == 0


def ncubble(folder, *argv):
    code = "import sys; from ncubble.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-P", "-c", code, *argv]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=280, check=False)


def test_the_gate_on_tensor_core_utilization_passes_the_numba_gemm_and_fails_it_with_one_buffer(tmp_path):
    name, quick = "numba_tensor_core_gemm", ("--quick", "--no-history", "--json", "--repeat", "7")
    counters = ("--set", "tensor", "--set", "dram", "--repeat", "7")
    assert ncubble(tmp_path, "profile", name, *counters, "--out", "runs/before").returncode == 0
    assert ncubble(tmp_path, "baseline", "runs/before").returncode == 0
    (baseline,) = (tmp_path / "baselines").rglob("*.json")
    assert json.loads(baseline.read_text())["metrics"]["tensor_elapsed_pct"]["gated"]
    same = ncubble(tmp_path, "check", "--profile", name, "--rule", "tensor_elapsed_pct >= 60", *quick)
    assert same.returncode == 0, same.stdout + same.stderr
    slowed = ncubble(tmp_path, "check", "--profile", name, "-p", "stages=1", "--baseline", str(baseline), *quick)
    assert slowed.returncode == 1, slowed.stdout + slowed.stderr
    found = {item["name"]: item["verdict"] for item in json.loads(slowed.stdout)["kernels"][0]["metrics"]}
    assert found["tensor_elapsed_pct"] == "regressed", found


# ldmatrix and mma.sync on swizzled tiles.

BAND = 16 * 128  # rows of C in one band of CTAs
SWIZZLED = "gemm_mma_swizzled"


@pytest.mark.parametrize(
    "shape",
    [
        mnk(128, 256, 64),
        mnk(384, 768, 192),
        mnk(128, 256, 4096),
        mnk(BAND + 128, 768, 128),
        mnk(3 * BAND - 128, 256, 320),
    ],
    ids=str,
)
def test_swizzled_tiles_of_any_shape(shape):
    for seed in (0, 1, 2):
        assert verified(SWIZZLED, {}, shape, seed=seed).facts["build"]["spill_B"] == 0


@pytest.mark.parametrize(
    ("tile_n", "tile_k", "stages"),
    [
        *((256, 64, stages) for stages in (2, 3)),
        *((256, 32, stages) for stages in (2, 3, 4, 5, 6)),
        *((128, 64, stages) for stages in (2, 5)),
        *((128, 32, stages) for stages in (2, 4, 6)),
    ],
)
def test_swizzled_tiles_of_any_size(tile_n, tile_k, stages):
    parameters = {"tile_n": tile_n, "tile_k": tile_k, "stages": stages}
    for depth in (1, 3, 7):  # fewer tiles than stages, and more
        verified(SWIZZLED, parameters, mnk(640, 3 * tile_n, depth * tile_k))


@pytest.mark.parametrize(("tile_n", "tile_k"), [(256, 64), (128, 32)])
def test_the_layout_with_bank_conflicts_is_right_and_slow(tile_n, tile_k):
    tile = {"tile_n": tile_n, "tile_k": tile_k}
    xor, plain = (p50_us(SWIZZLED, {"layout": layout, **tile}, mnk(2048, 2048, 2048)) for layout in ("xor", "plain"))
    assert plain > 1.5 * xor


def test_the_default_shape_is_near_the_roof_of_mma_sync():
    fraction = verified(SWIZZLED, iterations=100).rates.fraction
    assert fraction > 0.4, "of the wgmma peak, of which mma.sync reaches two thirds"


# TMA and wgmma.

SPECIALIZED = [
    {},
    {"stages": 2},
    {"stages": 3, "walk": "snake"},
    {"stages": 4, "cluster": 1},
    {"stages": 4, "band": 4096},
    {"stages": 2, "tile_n": 128},
    {"stages": 6, "tile_n": 128, "band": 512},
    {"stages": 5, "tile_n": 128, "cluster": 1, "walk": "snake"},
    {"stages": 2, "tile_n": 128, "cluster": 1, "schedule": "pingpong"},
    {"stages": 4, "tile_n": 128, "cluster": 2, "schedule": "pingpong", "band": 1024},
    {"stages": 5, "tile_n": 128, "cluster": 1, "schedule": "pingpong", "walk": "snake"},
    {"stages": 6, "tile_n": 128, "cluster": 2, "schedule": "pingpong", "band": 8192},
    {"stages": 5, "tile_n": 192, "cluster": 1, "schedule": "pingpong"},
    {"stages": 4, "tile_n": 192, "cluster": 1, "schedule": "pingpong"},  # 6 stores of a tile, 4 buffers
    {"tile_n": 192},  # three blocks of B, whose rows a cluster shares
    {"stages": 4, "tile_m": 256, "tile_n": 128, "cluster": 1},
    {"stages": 5, "tile_m": 64, "schedule": "pingpong", "cluster": 1},
    {"stages": 4, "tile_m": 176, "tile_n": 192, "form": "turned"},  # split along m, boxes of 8 rows
    {"stages": 4, "tile_m": 192, "tile_n": 192, "form": "turned", "cluster": 1},
    {"stages": 5, "tile_m": 160, "tile_n": 128, "form": "turned", "cluster": 1},  # 3 stores of a tile, 2 buffers
    {"stages": 4, "tile_m": 152, "form": "turned", "cluster": 1, "walk": "snake"},  # split along n
    {"stages": 5, "tile_m": 184, "tile_n": 128, "form": "turned", "schedule": "pingpong", "cluster": 1},
    {"edge": "moved"},  # the second CTA of a cluster may lie outside of C
    {"tile_m": 176, "tile_n": 192, "form": "turned", "edge": "moved"},
    {"tile_n": 128, "schedule": "pingpong", "edge": "moved"},
    {"stages": 5, "tile_m": 104, "tile_n": 192, "form": "turned", "schedule": "pingpong"},
    {"stages": 8, "tile_m": 72, "tile_n": 128, "form": "turned", "schedule": "pingpong", "cluster": 1},
    {"stages": 5, "tile_m": 224, "tile_n": 64, "form": "turned", "schedule": "pingpong", "cluster": 1},
    {"stages": 14, "tile_m": 8, "tile_n": 64, "form": "turned", "schedule": "pingpong", "cluster": 1},
    {"stages": 14, "tile_m": 24, "tile_n": 64, "form": "turned", "schedule": "pingpong"},
    {"stages": 9, "tile_m": 48, "tile_n": 128, "form": "turned", "cluster": 1},
]
PROMOTED = {"accumulate": "promoted", "tile_n": 128, "stages": 6}
BLOCKS = {"scaling": "block", **PROMOTED}
EIGHT_BITS = [
    {},
    {"stages": 2, "cluster": 1},
    {"stages": 3, "band": 4096},
    {"tile_n": 128, "stages": 6},
    {"tile_n": 128, "stages": 5, "cluster": 1, "schedule": "pingpong"},
    {"tile_n": 128, "stages": 6, "schedule": "pingpong", "band": 512},
    PROMOTED,
    {**PROMOTED, "stages": 2, "cluster": 1},
    BLOCKS,
    {**BLOCKS, "stages": 5, "band": 1024},
    {**BLOCKS, "stages": 3, "cluster": 1},
]
HOPPER = [
    *(("gemm_tma", {"stages": stages}) for stages in (1, 2, 3, 4, 5, 6)),
    *(("gemm_ws", parameters) for parameters in SPECIALIZED),
    *(("gemm_fp8", parameters) for parameters in EIGHT_BITS),
]
SHAPES = [
    mnk(128, 256, 64),  # one tile, one step
    mnk(1, 8, 16),  # the smallest
    mnk(200, 328, 272),  # remainders everywhere, an odd number of steps
    mnk(129, 1000, 2064),  # most of a cluster's second tile lies outside
    mnk(2304, 4352, 192),  # several tiles per CTA, not as many for all; fewer steps than slots
    mnk(2304, 4352, 16),  # the same, a step each: stores of the next tile follow at once
    mnk(1024, 2048, 8192),  # many rounds of the ring
]


@pytest.fixture(scope="module")
def _hopper():
    compile_all(HOPPER)


@pytest.mark.usefixtures("_hopper")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("name", "parameters"), HOPPER, ids=str)
def test_the_product_is_right(name, parameters, shape):
    if "scaling" in parameters and shape["m"] % 4:
        shape = {**shape, "m": 4 * -(-shape["m"] // 4)}
    verified(name, parameters, shape, seed=shape["m"])


SLICED = [  # rows and columns of a tile: slices of whole blocks, of parts of them, and for some CTAs of none
    (24, 128, 6),
    (8, 64, 14),
    (104, 192, 3),
    (96, 256, 2),
]


@pytest.mark.parametrize("shape", [mnk(37, 4104, 2056), mnk(200, 328, 520), mnk(3, 8, 1000)], ids=str)
@pytest.mark.parametrize("schedule", ["pingpong", "cooperative"])
@pytest.mark.parametrize("split", [2, 3, 5, 8])
@pytest.mark.parametrize(("rows", "columns", "stages"), SLICED)
def test_ctas_that_share_the_steps_of_a_tile_add_up_their_sums(rows, columns, stages, split, schedule, shape):
    if schedule == "cooperative" and columns % 128:
        pytest.skip("half of its rows are no multiple of 8")
    tile = {"tile_m": rows, "tile_n": columns, "form": "turned", "cluster": 1, "stages": stages}
    verified("gemm_ws", {**tile, "split": split, "schedule": schedule}, shape, seed=split, launches=3)


@pytest.mark.parametrize("name", ["gemm_tma", "gemm_ws"])
def test_a_step_smaller_than_a_box_of_tma(name):
    verified(name, {}, mnk(1, 8, 8))


@pytest.mark.parametrize(("name", "parameters"), [("gemm_ws", {}), ("gemm_fp8", {}), ("gemm_fp8", BLOCKS)], ids=str)
def test_launches_follow_one_another_without_residue(name, parameters):
    verified(name, parameters, mnk(1000, 1000, 1008), launches=50)


def test_too_many_stages_are_refused_before_the_launch():
    with pytest.raises(UsageError, match="5 stages"):
        execute(KernelRequest("gemm_ws", {"stages": 5}, mnk(256, 256, 64)))


@pytest.mark.parametrize("parameters", [{}, PROMOTED, BLOCKS], ids=str)
def test_cublaslt_computes_the_same_product(parameters):
    pytest.importorskip("torch")
    outcome = verified("gemm_fp8", parameters, mnk(1024, 1024, 1024), iterations=100, against=True)
    assert "cuBLASLt" in outcome.against.library and "(unknown" not in outcome.against.version
    # Each is at most so far from the right result, which is known of all elements.
    assert 0 <= outcome.against.max_abs_difference <= 2 * outcome.verification.max_abs_error
