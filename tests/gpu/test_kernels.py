"""Copies, softmax, kernels that share work, and own kernels on a real GPU: right over parameters,
shapes and seeds, and as fast as they are to be."""

from __future__ import annotations

import functools
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.bench import rates, time_launches
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.launch import prepare
from ncubble.kernels.run.verify import verify
from ncubble.kernels.spec.case import make_case
from tests.helpers.on_gpu import compile_all, p50_us, verified

pytestmark = pytest.mark.gpu
OWN = Path(__file__).parents[1] / "data" / "catalog"


@pytest.mark.parametrize("name", ["saxpy", "numba_scale"])
def test_an_own_kernel(name):
    verified(name, {}, {"n": 1_000_003}, catalog=OWN)


# Softmax.


@pytest.mark.parametrize("name", ["softmax_online", "numba_softmax_online"])
def test_softmax(name):
    for rows in (1, 77):
        for cols in (1, 3, 4, 1000, 1001, 4096, 4100, 20000):
            verified(name, {}, {"rows": rows, "cols": cols})
    verified(name, {}, {"rows": 16384, "cols": 4096})


@pytest.mark.parametrize("items", [1, 2, 4])
@pytest.mark.parametrize("threads", [128, 256, 512, 1024])
def test_softmax_parameters(threads, items):
    # Whole blocks, a piece more, rows aligned to 4 and to 8 bytes, and one that no shared memory
    # holds.
    for cols in (threads * items * 4, threads * items * 4 + 4, 1001, 1002, 60_000):
        parameters = {"threads": threads, "items": items, "stages": {1: 6, 2: 1, 4: 3}[items]}
        verified("softmax_online", parameters, {"rows": 33, "cols": cols})


@pytest.mark.parametrize("threads", [128, 256, 512, 1024])
def test_softmax_in_registers(threads):
    for cols in (4, threads * 4, threads * 4 + 4, threads * 32):
        verified("softmax_online", {"path": "registers", "threads": threads}, {"rows": 33, "cols": cols})


def test_softmax_reaches_nine_tenths_of_a_device_copy():
    assert verified("softmax_online", iterations=100).rates.fraction >= 0.9


# Copies.

SEED = 20
SIZES = (3, 1021, 4096, 3 * 16384 + 7, 4_000_002)  # n % 4 of every kind; with the last, CTAs of small grids loop
COPIES = ("async_copy_manual", "async_copy_pipeline", "async_copy_coop", "async_copy_tma")
# Every value of every parameter, not every combination: (stages, threads, items, ctas, work).
LAYOUTS = [
    (1, 128, 1, 3, 0),
    (2, 256, 2, 2, 16),
    (1, 512, 8, 1, 64),
    (2, 512, 4, 1, 256),
    (3, 128, 8, 1, 0),
    (4, 256, 4, 1, 0),
    (3, 256, 1, 4, 16),
    (4, 512, 2, 1, 0),
    (2, 128, 4, 64, 0),
]
CONFIGURATIONS = [
    (name, dict(zip(("stages", "threads", "items", "ctas", "work"), layout, strict=True)) | path)
    for name in COPIES
    for layout in LAYOUTS
    for path in ([{"path": "tensor"}, {"path": "bulk"}] if name == "async_copy_tma" else [{}])
    if name != "async_copy_manual" or layout[0] <= 2
]


@pytest.fixture(scope="module")
def _copies():
    compile_all([*CONFIGURATIONS, *((name, {}) for name in COPIES)])


@functools.cache
def inputs(n):
    """Drawn once for all kernels: drawing takes longer than copying."""
    return {"x": np.random.default_rng(SEED).standard_normal(n, dtype=np.float32)}


def copied(gpu, name, parameters, n):
    """The prepared case, after one run that is right."""
    prepared = prepare(make_case(find_spec(name), parameters, {"n": n}), gpu)
    prepared.upload(inputs(n))
    prepared.poison()
    prepared.run()
    gpu.sync()
    outputs, overrun = prepared.outputs()
    checked = verify(prepared.case, inputs(n), outputs, SEED, overrun)
    assert checked.passed, f"n={n}: {checked.describe()}"
    return prepared


@pytest.mark.usefixtures("_copies")
@pytest.mark.parametrize(("name", "parameters"), CONFIGURATIONS, ids=str)
def test_every_element_is_doubled_exactly(name, parameters):
    with closing(Gpu.open()) as gpu:
        for size in SIZES:
            copied(gpu, name, parameters, size)


@pytest.mark.usefixtures("_copies")
@pytest.mark.parametrize("name", COPIES)
def test_a_copy_reaches_nine_tenths_of_a_device_copy(name):
    with closing(Gpu.open()) as gpu:
        prepared = copied(gpu, name, {}, 2**27)
        fraction = rates(prepared.case, gpu, time_launches(gpu, prepared.run)).fraction
    assert fraction is not None and fraction >= 0.9


# Roles of warps, clusters, persistent loops and barriers of the grid.

ROLES = pytest.mark.parametrize("roles", ["fused", "specialized", "pipelines"])


@ROLES
@pytest.mark.parametrize("slots", [1, 2, 3, 4])
def test_slots_of_specialized_warps(roles, slots):
    for tiles in (1, 131, 132, 133, 1000, 4096):
        verified("warp_specialized", {"roles": roles, "slots": slots, "work": 16}, {"n": 1024 * tiles}, seed=slots)
    for ctas in (2, 4):
        verified("warp_specialized", {"roles": roles, "slots": slots, "ctas": ctas}, {"n": 1024 * 3001}, seed=ctas)


@ROLES
def test_work_of_specialized_warps(roles):
    for work in (0, 96, 512):
        verified("warp_specialized", {"roles": roles, "work": work}, {"n": 1024 * 700}, seed=work)
    verified("warp_specialized", {"roles": roles})


def test_a_second_slot_pays_where_loading_takes_longer_than_computing():
    one, two = (p50_us("warp_specialized", {"slots": slots, "work": 0}) for slots in (1, 2))
    assert two < 0.9 * one


SHARES = ("none", "dsmem", "split", "multicast")
CLUSTERS = [
    *({"share": share, "cluster": cluster} for share in SHARES for cluster in (2, 4, 8)),
    *({"share": share, "cluster": 4, "stages": stages} for share in ("split", "multicast") for stages in (1, 2, 4, 6)),
    *({"share": share, "cluster": 8, "stages": stages} for share in ("none", "dsmem") for stages in (1, 6)),
    *({"share": share, "cluster": 4, "columns": 8} for share in SHARES),
]
PRODUCTS = [{"m": 1, "n": 64, "k": 4}, {"m": 300, "n": 128, "k": 36}, {"m": 2048, "n": 192, "k": 1024}]
MODES = [
    *({"mode": mode, "ctas": ctas, "threads": 128 * ctas} for mode in ("many", "grid") for ctas in (1, 2)),
    *({"mode": "persistent", "ctas": ctas, "threads": threads} for ctas in (1, 2, 3, 4) for threads in (128, 256)),
]
BATCHES = [(1, 1, 4), (3, 9, 4), (5, 100, 1000), (2, 257, 1024), (40, 64, 516)]


@pytest.fixture(scope="module")
def _structures():
    compile_all([*(("cluster_dsmem", one) for one in CLUSTERS), *(("persistent", one) for one in MODES)])


@pytest.mark.usefixtures("_structures")
@pytest.mark.parametrize("parameters", CLUSTERS, ids=str)
def test_cluster_dsmem(parameters):
    for shape in PRODUCTS:
        verified("cluster_dsmem", parameters, shape)


@pytest.mark.usefixtures("_structures")
@pytest.mark.parametrize("parameters", MODES, ids=str)
def test_persistent(parameters):
    for batches, rows, cols in BATCHES:
        verified("persistent", parameters, {"batches": batches, "rows": rows, "cols": cols})


def test_multicast_takes_no_longer_than_loads_of_every_cta_and_a_leader_that_sends_takes_longer():
    alone = p50_us("cluster_dsmem", {"share": "none"})
    assert p50_us("cluster_dsmem", {"share": "multicast"}) < 1.05 * alone
    assert p50_us("cluster_dsmem", {"share": "dsmem"}) > 1.5 * alone


def test_one_launch_takes_less_time_than_one_per_batch():
    many = p50_us("persistent", {"mode": "many"})
    assert p50_us("persistent", {"mode": "persistent"}) < many
    assert p50_us("persistent", {"mode": "grid"}) < many


@pytest.mark.parametrize("n", [4, 4100, 2**18])
@pytest.mark.parametrize("parameters", [{"mode": "many"}, *({"ctas": ctas} for ctas in (1, 2, 4, 8))], ids=str)
def test_every_step_of_the_grid_sees_all_of_the_one_before(parameters, n):
    for steps in (2, 64, 256):
        verified("grid_sync", {"steps": steps, **parameters}, {"n": n}, launches=2)
