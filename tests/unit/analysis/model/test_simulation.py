"""The simulated loop: what bounds it, on loops whose cycles can be reckoned by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncubble.analysis.model.simulation import (
    COMMIT,
    COPY,
    DRAIN,
    MEET,
    PRODUCT,
    WAIT,
    WORK,
    LoopStep,
    SimulatedLoop,
    simulate,
)

TILES = 200
STEPS = (
    LoopStep(WAIT), LoopStep(MEET), LoopStep(WORK, 20.0),
    LoopStep(PRODUCT, 100.0), LoopStep(DRAIN, 1), LoopStep(COPY), LoopStep(WORK, 30.0),
    LoopStep(COMMIT),
)  # fmt: skip
LOOP = SimulatedLoop(ctas=1, groups=1, tiles=TILES, steps=STEPS, ahead=1, fill=10.0)


def without(loop: SimulatedLoop, *kinds: str) -> SimulatedLoop:
    """The loop without its steps of these kinds."""
    return replace(loop, steps=tuple(step for step in loop.steps if step.kind not in kinds))


def near(cycles: float) -> object:
    """As many cycles, but for what the first and the last tile cost."""
    return pytest.approx(cycles, abs=2000.0 / TILES)


def test_a_product_in_flight_hides_the_work_of_its_warps() -> None:
    assert simulate(LOOP).cycle == near(100.0)


def test_products_that_are_awaited_hide_nothing() -> None:
    drained = replace(LOOP, steps=tuple(LoopStep(DRAIN, 0) if step.kind == DRAIN else step for step in STEPS))
    assert simulate(drained).cycle == near(20.0 + 100.0 + 30.0 + 10.0)


@pytest.mark.parametrize(
    ("ahead", "cycles"), [(1, 1050.0), (2, 525.0), (3, 350.0), (5, 210.0), (6, 175.0), (7, 150.0), (12, 100.0)]
)
def test_a_flight_is_shared_by_the_tiles_that_are_ahead(ahead: int, cycles: float) -> None:
    assert simulate(replace(LOOP, flight=1000.0, ahead=ahead)).cycle == near(cycles)


def test_waits_are_those_for_tiles() -> None:
    run = simulate(replace(LOOP, flight=1000.0))
    assert run.waited == near(run.cycle - 20.0 - 30.0)
    assert simulate(without(LOOP, WAIT)).waited == 0.0


def test_the_port_bounds_loops_that_fill_more_than_they_multiply() -> None:
    assert simulate(replace(LOOP, fill=300.0)).cycle >= 300.0
    assert simulate(replace(LOOP, fill=300.0, ctas=2)).cycle >= 600.0


def test_groups_that_meet_stand_still_together() -> None:
    drained = tuple(LoopStep(DRAIN, 0) if step.kind == DRAIN else step for step in STEPS)
    pair = replace(LOOP, groups=2, steps=drained)
    assert simulate(pair).cycle == near(20.0 + 2 * 100.0 + 30.0 + 5.0)
    assert simulate(without(pair, MEET)).cycle == near(2 * 100.0), "one multiplies while the other works"


def test_another_warp_copies_once_all_groups_have_left_a_buffer() -> None:
    roles = replace(
        LOOP,
        steps=STEPS[:5],
        groups=2,
        ahead=2,
        own_shares=False,
        pending=1,
    )
    assert simulate(roles).cycle == near(200.0)
    assert simulate(replace(roles, flight=1000.0)).cycle == pytest.approx(1010.0, rel=0.15), (
        "of two buffers, one is read"
    )
    assert simulate(replace(roles, flight=1000.0, ahead=8)).cycle == near(200.0)


@settings(max_examples=40, deadline=None)
@given(
    ctas=st.integers(1, 4), groups=st.integers(1, 3), ahead=st.integers(1, 4), fill=st.floats(0, 400),
    flight=st.floats(0, 2000), own_shares=st.booleans(),
)  # fmt: skip
def test_no_server_does_more_than_it_can_and_nothing_gets_slower_without_waits(
    ctas: int, groups: int, ahead: int, fill: float, flight: float, own_shares: bool
) -> None:
    loop = SimulatedLoop(ctas, groups, 12, STEPS, ahead, fill, flight, 100.0, own_shares)
    cycle = simulate(loop).cycle
    assert cycle >= ctas * max(groups * 100.0, fill) * (1 - 1e-9)
    assert simulate(without(loop, WAIT, MEET)).cycle <= cycle * (1 + 1e-9)


@pytest.mark.parametrize(
    "stuck",
    [
        replace(LOOP, ahead=0),  # the tile is awaited before it is copied
        replace(LOOP, steps=STEPS[:5], groups=2, ahead=2),  # nobody copies the second group's share
        replace(LOOP, steps=STEPS[:5], own_shares=False, pending=1),  # the only buffer is read until the next tile
    ],
)
def test_a_loop_in_which_a_group_waits_for_ever_takes_for_ever(stuck: SimulatedLoop) -> None:
    assert simulate(stuck) == (math.inf, math.inf)
