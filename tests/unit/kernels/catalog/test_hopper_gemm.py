"""Rungs 5 and 6 before there is a GPU: what is refused, what fits, how many CTAs run."""

from __future__ import annotations

import itertools

import pytest

from ncubble.errors import UsageError
from ncubble.kernels.build import build
from ncubble.kernels.catalog.hopper_gemm import GEMM_TMA, GEMM_WS, LARGEST_SMEM
from ncubble.kernels.spec.case import make_case

BOTH = pytest.mark.parametrize("spec", [GEMM_TMA, GEMM_WS], ids=lambda spec: spec.name)


@BOTH
@pytest.mark.parametrize(("shape", "array"), [({"k": 4100}, "'a'"), ({"n": 4092}, "'b'")])
def test_rows_that_tma_cannot_step_over_are_refused(spec, shape, array):
    with pytest.raises(UsageError, match="16") as refused:
        make_case(spec, {}, shape)
    assert array in refused.value.message
    assert "multiple of 8" in refused.value.remedy


@BOTH
@pytest.mark.parametrize("shape", [{"m": 1, "n": 8, "k": 8}, {"m": 4097, "n": 4104, "k": 4104}], ids=str)
def test_sizes_that_no_tile_divides_are_taken(spec, shape):
    make_case(spec, {}, shape)


@BOTH
def test_another_architecture_is_refused_before_compiling(spec):
    for arch in ("sm_80", "sm_100a"):
        with pytest.raises(UsageError, match=spec.name):
            build(make_case(spec), arch)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"schedule": "pingpong"}, "cannot hold 128 x 256"),
        ({"tile_m": 192, "form": "turned", "schedule": "pingpong"}, "cannot hold 192 x 256"),
        ({"tile_m": 192}, "would get 96 rows, which must be a multiple of 64"),
        ({"tile_m": 136, "tile_n": 192, "form": "turned"}, "would get 68 rows, which must be a multiple of 8"),
        ({"tile_m": 64, "tile_n": 192, "form": "turned"}, "product of 32 columns"),
        ({"stages": 5}, "no shared memory"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(parameters, words):
    with pytest.raises(UsageError, match=words):
        make_case(GEMM_WS, parameters)


def test_whatever_is_taken_fits_shared_memory_and_can_store():
    taken = 0
    names = [parameter.name for parameter in GEMM_WS.parameters]
    for values in itertools.product(*(parameter.choices for parameter in GEMM_WS.parameters)):
        try:
            case = make_case(GEMM_WS, dict(zip(names, values, strict=True)))
        except UsageError:
            continue
        taken += 1
        assert case.smem <= LARGEST_SMEM
        assert any(define in case.defines for define in ("BUFFERS=1", "BUFFERS=2", "BUFFERS=3", "BUFFERS=4"))
    assert taken > 100


@pytest.mark.parametrize(
    ("shape", "cluster", "ctas"),
    [
        ({"m": 2048, "n": 2048, "k": 64}, 2, 128),  # 64 pairs of tiles, one round
        ({"m": 8192, "n": 8192, "k": 64}, 2, 128),  # 1024 pairs: 16 rounds of 64, as with 66
        ({"m": 8192, "n": 8448, "k": 64}, 2, 132),  # 1056 pairs: 16 rounds of 66
        ({"m": 4096, "n": 4096, "k": 64}, 1, 128),
        ({"m": 1, "n": 8, "k": 64}, 2, 2),
        ({"m": 129, "n": 8, "k": 64}, 1, 2),
    ],
)
def test_no_more_ctas_run_than_shorten_the_work(shape, cluster, ctas):
    assert make_case(GEMM_WS, {"cluster": cluster}, shape).grid_on(132) == (ctas, 1, 1)


@pytest.mark.parametrize("sms", [1, 2, 7, 114, 132, 144])
@pytest.mark.parametrize("cluster", [1, 2])
def test_the_grid_is_whole_clusters_on_any_device(cluster, sms):
    case = make_case(GEMM_WS, {"cluster": cluster}, {"m": 3000, "n": 3000, "k": 64})
    ctas = case.grid_on(sms)[0]
    assert ctas % cluster == 0
    assert cluster <= ctas <= max(sms, cluster)
