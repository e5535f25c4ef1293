"""The four copies on a real GPU: exact over parameters and sizes, and as fast as a device copy."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from ncubble.kernels.build import build
from ncubble.kernels.case import make_case
from ncubble.kernels.device import Gpu
from ncubble.kernels.registry import find_spec
from ncubble.kernels.session import Request, execute

pytestmark = pytest.mark.gpu
SIZES = (3, 4096, 3 * 16384 + 7, 20_000_003)  # the last is several chunks per CTA
# Every value of every parameter, not every combination: (stages, threads, items, ctas, work).
LAYOUTS = [
    (1, 128, 1, 1, 0),
    (2, 256, 2, 4, 16),
    (1, 512, 8, 2, 64),
    (2, 512, 4, 8, 256),
    (3, 128, 8, 3, 0),
    (4, 256, 4, 6, 0),
    (3, 256, 1, 16, 16),
    (4, 512, 2, 32, 0),
    (2, 128, 4, 64, 0),
]
NAMES = ("async_copy_manual", "async_copy_pipeline", "async_copy_coop", "async_copy_tma")


def configurations():
    names = ("stages", "threads", "items", "ctas", "work")
    for name in NAMES:
        for layout in LAYOUTS:
            if name == "async_copy_manual" and layout[0] > 2:
                continue
            for path in ("tensor", "bulk") if name == "async_copy_tma" else ("",):
                yield name, dict(zip(names, layout, strict=True)) | ({"path": path} if path else {})


CONFIGURATIONS = list(configurations())


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    """All of them at once: one after the other they would take longer than the tests."""
    gpu = Gpu.open()
    arch = gpu.arch
    gpu.close()
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda item: build(make_case(find_spec(item[0]), item[1]), arch), CONFIGURATIONS))


@pytest.mark.parametrize(("name", "parameters"), CONFIGURATIONS, ids=lambda value: str(value).replace(" ", ""))
def test_every_element_is_doubled_exactly(name, parameters):
    for size in SIZES:
        outcome = execute(Request(name, parameters, {"n": size}, iterations=0))
        assert outcome.verification.passed, f"n={size}: {outcome.verification.describe()}"


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_reaches_nine_tenths_of_a_device_copy(name):
    outcome = execute(Request(name, {}, {"n": 2**27}))
    assert outcome.verification.passed
    assert outcome.rates.fraction >= 0.9
