"""Predictions of pipelines so simple that the answer can be worked out on paper.

One CTA of one group on an SM shares nothing. A tile of 8,000 B takes 100 cycles at the port, and
flies for 600 to 850 (``chips.toml``).
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from ncubble.analysis.model.pipeline import LoopSteps, Pipeline, Residency, sharing
from ncubble.analysis.model.predict import (
    MARGIN,
    OTHER_MARGIN,
    Prediction,
    at_depth,
    chosen_depth,
    ctas_at,
    loop_of,
    margin_of,
    predict,
    refusal,
)
from ncubble.analysis.model.simulation import COMMIT, COPY, DRAIN, PRODUCT, WAIT, WORK, LoopStep, simulate

LONG = 1000
"""Iterations, so many that the first tile does not count."""
# Of an iteration of 1,200 cycles 250 are products and 250 other work; then the next tile is copied
# into the buffer that is free by now, and awaited for 700: 100 at the port, and 600 of flight.
WAITING = Pipeline(
    stages=2, stages_from="given", ctas=1.0, warps=4.0, grid=1.0, iterations=LONG, cycle=1200.0, busy=250.0,
    tile_B=8_000.0, waiting=7 / 12, copying=0.0, outside=0.0, memory=0.0, delay=1.0, asynchronous=False,
    plain=False, compiled=False, busy_pct=250 / 12, elapsed=1200.0 * LONG, measured_on="9.0", residency=None,
)  # fmt: skip
FED = replace(WAITING, delay=0.0, cycle=500.0, waiting=0.0, busy_pct=50.0, elapsed=500.0 * LONG)
PAIR = replace(
    FED,
    ctas=2.0,
    grid=8.0,
    busy=200.0,
    busy_pct=80.0,
    elapsed=4 * 500.0 * LONG,
    residency=Residency(2, 2, 64_000.0, 32_000.0, 1024.0, 233_472.0, 232_448.0),
)
# Products of wgmma run by themselves, and another warp copies.
ROLES = replace(FED, asynchronous=True, cycle=400.0, busy=400.0, busy_pct=100.0, elapsed=400.0 * LONG)


def told(now: Pipeline, stages: int) -> Prediction:
    found = predict(now, stages)
    assert found is not None
    assert found.tensor_elapsed_pct * found.cycles == pytest.approx(now.busy_pct * now.elapsed)
    return found


def cycle(now: Pipeline, stages: int) -> float:
    """Cycles of an iteration that are expected, for as many CTAs as now."""
    return told(now, stages).cycles / now.elapsed * now.cycle


def test_a_ring_of_two_copies_when_it_has_multiplied_and_a_third_buffer_hides_the_flight() -> None:
    assert cycle(WAITING, 3) == pytest.approx(600, rel=0.02)  # 1,200 from one copy to the wait for it, for two tiles
    assert cycle(WAITING, 4) == pytest.approx(500, rel=0.02)  # work alone


@pytest.mark.parametrize(("stages", "cycles"), [(1, 500.0 + 700.0), (2, 700.0)])
def test_what_no_wait_shows_takes_the_shortest_usual_flight_at_fewer_stages(stages: int, cycles: float) -> None:
    assert cycle(replace(FED, stages=4, delay=0.0), stages) == pytest.approx(cycles, rel=0.02)


def test_depth_gains_nothing_where_nobody_waits() -> None:
    for stages in (3, 5, 8):
        assert told(FED, stages).tensor_elapsed_pct == pytest.approx(50.0, rel=0.01)


def test_more_cannot_be_had_than_the_memory_has() -> None:
    # L2 is at 90 % of what it reaches: cycles can shrink by a tenth.
    assert told(replace(WAITING, memory=0.9), 8).cycles == pytest.approx(0.9 * WAITING.elapsed)
    assert told(replace(WAITING, memory=1.3), 8).cycles == pytest.approx(WAITING.elapsed)


def test_without_a_second_buffer_work_and_flight_add_up() -> None:
    deep = replace(FED, stages=4)
    assert simulate(at_depth(replace(loop_of(deep), flight=600.0), deep, 1, 1.0)).cycle == pytest.approx(1200, rel=0.02)


def test_products_that_run_by_themselves_hide_the_work_of_their_warps() -> None:
    deep = replace(ROLES, stages=4)
    assert simulate(loop_of(deep)).cycle == pytest.approx(400.0, rel=0.02)
    assert cycle(deep, 2) == pytest.approx(700.0, rel=0.02), "of two buffers one is read, the other takes 100 and 600"


@pytest.mark.parametrize("present", [1, 2, 3, 5])
def test_a_ring_at_a_depth_is_the_same_wherever_it_is_seen_from(present: int) -> None:
    now = replace(ROLES, stages=present)
    seen = {
        stages: simulate(replace(at_depth(loop_of(now), now, stages, 1.0), flight=600.0)).cycle
        for stages in range(1, 9)
    }
    assert seen[1] == pytest.approx(400.0 + 700.0, rel=0.02) and seen[2] == pytest.approx(700.0, rel=0.02)
    assert all(seen[stages] == pytest.approx(400.0, rel=0.02) for stages in range(3, 9))


CODE = (
    LoopStep(WAIT), LoopStep(WORK, 0.1), LoopStep(PRODUCT, 0.5), LoopStep(DRAIN),
    LoopStep(PRODUCT, 0.5), LoopStep(COPY), LoopStep(COMMIT),
)  # fmt: skip


@pytest.mark.parametrize("present", [1, 2, 4])
@pytest.mark.parametrize("copies", [True, False])
def test_every_depth_of_a_loop_that_is_read_from_its_code_ends(present: int, copies: bool) -> None:
    steps = tuple(step for step in CODE if copies or step.kind not in (COPY, COMMIT))
    code = LoopSteps(steps, 2, max(1, present - copies), min(1, present - 1), copies, 0.0)
    now = replace(ROLES, stages=present, code=code, waiting=0.3, busy=200.0, busy_pct=50.0)
    cycles = [told(now, stages).cycles for stages in range(1, 9)]
    assert all(math.isfinite(one) for one in cycles)
    assert all(later <= earlier for earlier, later in pairwise(cycles))


def test_an_only_buffer_is_not_filled_while_a_product_reads_it() -> None:
    code = LoopSteps(CODE, 1, 1, 1, True, 0.0)
    now = replace(ROLES, stages=2, code=code, busy=400.0, cycle=1000.0)
    alone = simulate(replace(at_depth(loop_of(now), now, 1, 1.0), flight=600.0))
    assert alone.cycle == pytest.approx(100 + 400 + 700, rel=0.02)


def test_a_cta_less_takes_its_share_of_the_work_with_it_and_hides_less() -> None:
    alone = told(PAIR, 4)
    assert ctas_at(PAIR, 4) == 1.0
    assert PAIR.elapsed < alone.cycles < 2 * PAIR.elapsed


def test_margins_widen_both_sides_and_stay_among_the_possible() -> None:
    assert (margin_of(PAIR, 3), margin_of(PAIR, 4), margin_of(PAIR, 1)) == (MARGIN, OTHER_MARGIN, OTHER_MARGIN)
    found = told(WAITING, 3)
    assert (found.low, found.high) == pytest.approx(
        (found.tensor_elapsed_pct - MARGIN, found.tensor_elapsed_pct + MARGIN)
    )
    little = replace(WAITING, busy=10.0, busy_pct=10 / 12)
    assert 0.0 < told(little, 3).low <= told(little, 3).tensor_elapsed_pct
    assert told(replace(ROLES, stages=4), 6).high == 100.0


@pytest.mark.parametrize(
    ("predicted", "depth"),
    [
        ({2: 60.0, 3: 69.6, 4: 70.0}, 3),
        ({2: 60.0, 3: 69.2, 4: 70.0}, 4),
        ({2: 70.0, 3: 60.0}, 2),
        ({5: 40.0}, 5),
    ],
)
def test_the_shallowest_of_nearly_equal_depths_is_chosen(predicted: dict[int, float], depth: int) -> None:
    assert chosen_depth(predicted) == depth


def test_a_depth_that_cannot_be_told_is_refused_with_the_reason() -> None:
    assert refusal(PAIR, 7) == "" and predict(PAIR, 7) is not None
    assert predict(PAIR, 8) is None
    assert refusal(PAIR, 8) == "more shared memory than the 227 KiB that a CTA may have"
    compiled = replace(FED, compiled=True)
    assert "plain loads" in refusal(compiled, 1) and refusal(compiled, 3) == ""
    assert refusal(replace(compiled, stages=1), 2) == ""
    assert "registers" in refusal(replace(FED, plain=True, stages=1), 2)
    for chip, named in (("8.6", "8.6"), ("", "unknown"), ("77.7", "77.7")):
        elsewhere = replace(FED, stages=3, measured_on=chip)
        assert f"compute capability {named} was not measured" in refusal(elsewhere, 2)
        assert refusal(elsewhere, 4) == ""


def test_as_many_ctas_are_resident_as_shared_memory_and_the_grid_allow() -> None:
    assert PAIR.residency and [PAIR.residency.ctas(depth) for depth in (1, 2, 3, 4, 7, 8)] == [2, 2, 2, 1, 1, 0]
    assert [ctas_at(PAIR, depth) for depth in (2, 3, 4, 7, 8)] == [2.0, 2.0, 1.0, 1.0, 1.0]
    assert ctas_at(replace(PAIR, grid=1.5), 3) == 2.0, "the fullest SM counts"
    assert ctas_at(replace(PAIR, grid=0.5), 3) == 1.0
    assert ctas_at(replace(PAIR, residency=None), 9) == 2.0


@pytest.mark.parametrize(
    ("ctas", "limit", "shared"),
    [(140 / 132, 2, 2.0), (140 / 132, 1, 1.0), (64 / 132, 2, 1.0), (2.0, 2, 2.0), (5.3, 2, 2.0)],
)
def test_where_all_ctas_run_at_once_the_fullest_sm_counts(ctas: float, limit: int, shared: float) -> None:
    assert sharing(ctas, limit) == shared
