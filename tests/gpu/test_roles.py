"""Warp specialization on a real GPU: right with every number of slots, tiles and CTAs."""

from __future__ import annotations

import pytest

from ncubble.kernels.run.session import KernelRequest, execute

pytestmark = pytest.mark.gpu
ROLES = ["fused", "specialized"]


def verified(parameters, tiles, seed):
    outcome = execute(KernelRequest("warp_specialized", parameters, {"n": 1024 * tiles}, seed=seed, iterations=0))
    assert outcome.verification.passed, outcome.verification.describe()


@pytest.mark.parametrize("tiles", [1, 131, 132, 133, 1000, 4096])
@pytest.mark.parametrize("slots", [1, 2, 3, 4])
@pytest.mark.parametrize("roles", ROLES)
def test_slots(roles, slots, tiles):
    verified({"roles": roles, "slots": slots, "work": 16}, tiles, slots)


@pytest.mark.parametrize("work", [0, 96, 512])
@pytest.mark.parametrize("roles", ROLES)
def test_work(roles, work):
    verified({"roles": roles, "work": work}, 700, work)


@pytest.mark.parametrize("ctas", [2, 4])
@pytest.mark.parametrize("slots", [1, 4])
@pytest.mark.parametrize("roles", ROLES)
def test_ctas(roles, slots, ctas):
    verified({"roles": roles, "slots": slots, "ctas": ctas}, 3001, ctas)


@pytest.mark.parametrize("roles", ROLES)
def test_the_default_shape(roles):
    verified({"roles": roles}, 2**15, None)


def time_of(slots, work):
    request = KernelRequest("warp_specialized", {"slots": slots, "work": work}, seed=0)
    return execute(request).timing.p50_us


def test_a_second_slot_pays_where_loading_takes_longer_than_computing():
    assert time_of(2, 0) < 0.9 * time_of(1, 0)
