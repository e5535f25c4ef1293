"""cluster_dsmem and persistent on a real GPU: right over parameters and shapes, and the ways rank
as they should."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from ncubble.kernels.build import build
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.session import KernelRequest, execute
from ncubble.kernels.spec.case import make_case

pytestmark = pytest.mark.gpu
SHARES = ("none", "dsmem", "split", "multicast")
CLUSTERS = [
    *({"share": share, "cluster": cluster} for share in SHARES for cluster in (2, 4, 8)),
    *({"share": share, "cluster": 4, "stages": stages} for share in ("split", "multicast") for stages in (1, 2, 4, 6)),
    *({"share": share, "cluster": 8, "stages": stages} for share in ("none", "dsmem") for stages in (1, 6)),
    *({"share": share, "cluster": 4, "columns": 8} for share in SHARES),
]
PRODUCTS = [{"m": 1, "n": 64, "k": 4}, {"m": 300, "n": 128, "k": 36}, {"m": 2048, "n": 192, "k": 1024}]
MODES = [
    {"mode": mode, "ctas": ctas, "threads": threads}
    for mode, ctas, threads in (("many", 1, 128), ("many", 2, 256), ("grid", 1, 128), ("grid", 2, 256))
] + [{"mode": "persistent", "ctas": ctas, "threads": threads} for ctas in (1, 2, 3, 4) for threads in (128, 256)]
BATCHES = [(1, 1, 4), (3, 9, 4), (5, 100, 1000), (2, 257, 1024), (40, 64, 516)]


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    """All of them at once: one after the other they would take longer than the tests."""
    gpu = Gpu.open()
    arch = gpu.arch
    gpu.close()
    cases = [make_case(find_spec("cluster_dsmem"), parameters) for parameters in CLUSTERS]
    cases += [make_case(find_spec("persistent"), parameters) for parameters in MODES]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda case: build(case, arch), cases))


def text(value):
    return str(value).replace(" ", "")


@pytest.mark.parametrize("parameters", CLUSTERS, ids=text)
def test_cluster_dsmem(parameters):
    for shape in PRODUCTS:
        outcome = execute(KernelRequest("cluster_dsmem", parameters, shape, iterations=0))
        assert outcome.verification.passed, f"{shape}: {outcome.verification.describe()}"


@pytest.mark.parametrize("parameters", MODES, ids=text)
def test_persistent(parameters):
    for batches, rows, cols in BATCHES:
        shape = {"batches": batches, "rows": rows, "cols": cols}
        outcome = execute(KernelRequest("persistent", parameters, shape, iterations=0))
        assert outcome.verification.passed, f"{shape}: {outcome.verification.describe()}"


def time_of(name, parameters):
    outcome = execute(KernelRequest(name, parameters))
    assert outcome.verification.passed
    return outcome.timing.p50_us


def test_multicast_takes_no_longer_than_loads_of_every_cta_and_a_leader_that_sends_takes_longer():
    alone = time_of("cluster_dsmem", {"share": "none"})
    assert time_of("cluster_dsmem", {"share": "multicast"}) < 1.05 * alone
    assert time_of("cluster_dsmem", {"share": "dsmem"}) > 1.5 * alone


def test_one_launch_takes_less_time_than_one_per_batch():
    many = time_of("persistent", {"mode": "many"})
    assert time_of("persistent", {"mode": "persistent"}) < many
    assert time_of("persistent", {"mode": "grid"}) < many


@pytest.mark.parametrize("n", [4, 4100, 2**18])
@pytest.mark.parametrize("parameters", [{"mode": "many"}, *({"ctas": ctas} for ctas in (1, 2, 4, 8))], ids=str)
def test_every_step_of_the_grid_sees_all_of_the_one_before(parameters, n):
    for steps in (2, 64, 256):
        request = KernelRequest("grid_sync", {"steps": steps, **parameters}, {"n": n}, iterations=0, launches=2)
        assert execute(request).verification.passed
