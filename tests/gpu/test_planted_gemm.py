"""GEMMs with planted diseases of the main loop on a real GPU: right in every variant, and slower
than their twins."""

from __future__ import annotations

import pytest

from benchmarks.validation.planted import PLANTED
from benchmarks.validation.planted.gemm import CONVERSIONS, DISEASES, STRENGTHS
from benchmarks.validation.planted.pairs import PAIRS
from ncubble.kernels.run.session import KernelRequest, execute

pytestmark = pytest.mark.gpu
RING = [name for name in DISEASES if name != "no_async"]


def verified(kernel, parameters, k):
    outcome = execute(KernelRequest(kernel, parameters, {"m": 384, "n": 768, "k": k}, PLANTED, seed=k, iterations=0))
    assert outcome.verification.passed, outcome.verification.describe()


@pytest.mark.parametrize(("stages", "tile_k"), [(2, 32), (4, 64)])
@pytest.mark.parametrize("disease", RING)
def test_a_disease_in_a_ring(disease, stages, tile_k):
    for k in (64, 448, 2048):  # one tile or two, tiles that end within the ring, many
        verified("planted_gemm", {"disease": disease, "stages": stages, "tile_k": tile_k}, k)


@pytest.mark.parametrize(("stages", "tile_k"), [(3, 64), (6, 32)])
def test_other_depths_without_a_disease(stages, tile_k):
    verified("planted_gemm", {"stages": stages, "tile_k": tile_k}, 448)


@pytest.mark.parametrize("tile_k", [32, 64])
@pytest.mark.parametrize("disease", ["none", "no_async"])
def test_one_buffer(disease, tile_k):
    for k in (64, 448):
        verified("planted_gemm", {"disease": disease, "stages": 1, "tile_k": tile_k}, k)


@pytest.mark.parametrize(("disease", "strength"), [(name, one) for name in STRENGTHS for one in STRENGTHS[name]])
def test_other_strengths(disease, strength):
    verified("planted_gemm", {"disease": disease, "strength": strength}, 512)


@pytest.mark.parametrize("disease", ["none", "dequant_issue"])
@pytest.mark.parametrize("stages", [2, 4, 5])
def test_bytes_are_converted_right(disease, stages):
    for k in (64, 448, 2048):
        verified("planted_dequant", {"disease": disease, "stages": stages}, k)


@pytest.mark.parametrize("strength", CONVERSIONS)
def test_bytes_are_converted_right_however_often(strength):
    verified("planted_dequant", {"disease": "dequant_issue", "strength": strength}, 448)


@pytest.mark.parametrize(
    "pair",
    [pair for pair in PAIRS if pair.sick.kernel in ("planted_gemm", "planted_dequant")],
    ids=lambda pair: pair.name,
)
def test_the_twin_is_faster(pair):
    sick, cured = (
        execute(KernelRequest(side.kernel, dict(side.parameters), dict(side.shape), PLANTED, seed=1))
        for side in (pair.sick, pair.cured)
    )
    for outcome in (sick, cured):
        assert outcome.verification.passed, outcome.verification.describe()
    assert cured.timing.p50_us < 0.9 * sick.timing.p50_us
