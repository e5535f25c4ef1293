"""The four copies on a real GPU: exact over parameters and sizes, and as fast as a device copy."""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ncubble.kernels.build import build
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.bench import rates, time_launches
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.launch import prepare
from ncubble.kernels.run.verify import verify
from ncubble.kernels.spec.case import make_case

pytestmark = pytest.mark.gpu
SEED = 20
SIZES = (3, 1021, 4096, 3 * 16384 + 7, 4_000_002)  # n % 4 of every kind; with the last, CTAs of small grids loop
LARGE = 2**27
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


@pytest.fixture(autouse=True)
def gpu():
    gpu = Gpu.open()
    yield gpu
    gpu.close()


@functools.cache
def _compile_all(arch):
    """All of them at once: one after the other they would take longer than the tests."""
    todo = [*CONFIGURATIONS, *((name, {}) for name in NAMES)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda item: build(make_case(find_spec(item[0]), item[1]), arch), todo))


@functools.cache
def inputs(n):
    """Drawn once for all kernels: drawing takes longer than copying."""
    return {"x": np.random.default_rng(SEED).standard_normal(n, dtype=np.float32)}


def verified(gpu, name, parameters, n):
    """The prepared case, after one run that is right."""
    _compile_all(gpu.arch)
    prepared = prepare(make_case(find_spec(name), parameters, {"n": n}), gpu)
    prepared.upload(inputs(n))
    prepared.poison()
    prepared.run()
    gpu.sync()
    outputs, overrun = prepared.outputs()
    checked = verify(prepared.case, inputs(n), outputs, SEED, overrun)
    assert checked.passed, f"n={n}: {checked.describe()}"
    return prepared


@pytest.mark.parametrize(("name", "parameters"), CONFIGURATIONS, ids=lambda value: str(value).replace(" ", ""))
def test_every_element_is_doubled_exactly(gpu, name, parameters):
    for size in SIZES:
        verified(gpu, name, parameters, size)


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_reaches_nine_tenths_of_a_device_copy(gpu, name):
    prepared = verified(gpu, name, {}, LARGE)
    fraction = rates(prepared.case, gpu, time_launches(gpu, prepared.run)).fraction
    assert fraction is not None and fraction >= 0.9
