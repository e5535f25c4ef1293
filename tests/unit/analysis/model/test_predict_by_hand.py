"""Predictions of pipelines so simple that the answer can be worked out on paper.

One CTA on an SM shares nothing: without waits its iteration takes its own work (``free``), or what
port, memory or pipe need. A tile of 6,400 B takes 100 cycles at the port.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ncubble.analysis.model import predict as model
from ncubble.analysis.model.pipeline import Pipeline, _sharing
from ncubble.analysis.model.predict import (
    MARGIN,
    NOISE,
    OTHER_MARGIN,
    Prediction,
    chosen_depth,
    ctas_at,
    predict,
    refusal,
    sure,
)
from ncubble.analysis.model.queueing import idle_flight
from ncubble.analysis.model.residency import Residency

EQUAL = 2 ** (1 / 24)
"""How much longer an iteration takes than either of two equal bounds."""
LONG = 1e9
"""Iterations, so many that the wait for the first tile does not count."""
# Half of an iteration of 1,000 cycles is a wait for data, which two stages do not hide.
WAITING = Pipeline(
    stages=2, stages_from="given", ctas=1.0, grid=1.0, iterations=LONG, cycle=1000.0, busy=250.0, shared=0.0,
    tile_B=6_400.0, waiting=0.5, copying=0.0, working=0.0, outside=0.0, roof=0.0, delay=0.0, asynchronous=False,
    plain=False, compiled=False, busy_pct=25.0, elapsed=1e6, measured_on="9.0", residency=None,
)  # fmt: skip
SINGLE = replace(WAITING, stages=1)
# Nobody waits: what a tile takes on its way is hidden.
FED = replace(WAITING, waiting=0.0, busy=500.0, busy_pct=50.0)
# Two CTAs, whose products take turns at the pipe; from depth 4 on shared memory holds one.
PAIR = replace(
    FED,
    ctas=2.0,
    grid=8.0,
    busy=400.0,
    busy_pct=80.0,
    residency=Residency(2, 2, 64_000.0, 32_000.0, 1024.0, 233_472.0, 232_448.0),
)


def told(now: Pipeline, stages: int) -> Prediction:
    found = predict(now, stages)
    assert found is not None
    assert found.tensor_elapsed_pct * found.cycles == pytest.approx(now.busy_pct * now.elapsed)
    return found


def cycle(now: Pipeline, stages: int) -> float:
    """Cycles of an iteration that are expected, for as many CTAs as now."""
    return told(now, stages).cycles / now.elapsed * now.cycle


@pytest.fixture(autouse=True)
def _no_margins(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "margin" not in request.node.name:
        for name in ("MARGIN", "OTHER_MARGIN"):
            monkeypatch.setattr(model, name, 0.0)


@pytest.mark.parametrize(("stages", "margin"), [(3, MARGIN), (4, OTHER_MARGIN), (1, OTHER_MARGIN)])
def test_a_margin_widens_both_sides(stages: int, margin: float, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = told(PAIR, stages)  # at a depth of 4 an SM holds one CTA less
    for name in ("MARGIN", "OTHER_MARGIN"):
        monkeypatch.setattr(model, name, 0.0)
    narrow = told(PAIR, stages)
    assert narrow.low - wide.low == pytest.approx(margin)
    assert wide.high == pytest.approx(min(100.0, narrow.high + margin))
    assert wide.tensor_elapsed_pct == narrow.tensor_elapsed_pct


def test_one_buffer_is_filled_and_computed_on_in_turn_and_two_at_one_time() -> None:
    # Of 1,000 cycles 500 are work and 100 the port's: the latency is 400, and a tile comes in 500.
    assert cycle(SINGLE, 2) == pytest.approx(500 * EQUAL)
    # Two tiles on their way meet at the port now and then: 506 cycles for two.
    assert cycle(SINGLE, 3) == pytest.approx(500, rel=1e-3)


def test_back_to_one_buffer_work_and_flight_add_up() -> None:
    assert cycle(WAITING, 1) == pytest.approx(500 + 1000)  # the tile takes the 1,000 that the cycle shows
    assert cycle(replace(WAITING, stages=3), 1) == pytest.approx(500 + 2000, rel=0.01)  # two were on their way


def test_depth_divides_a_flight_that_shows() -> None:
    third = cycle(replace(WAITING, waiting=0.7), 3)  # 300 of work, and 1,000 of flight (1,006 of two tiles) for two
    assert third == pytest.approx(1006 / 2, rel=3e-3)
    assert cycle(replace(WAITING, waiting=0.7, stages=3), 2) == pytest.approx(2000, rel=0.01)
    assert cycle(WAITING, 6) == pytest.approx(500, rel=1e-3)


def test_a_flight_that_does_not_show_is_the_chips_as_far_as_the_cycle_allows() -> None:
    deep = told(replace(FED, stages=4), 1)
    assert deep.cycles == pytest.approx(1e6 * (1000 + 860 + 100) / 1000)
    # Latencies from 500 to 1,200 cycles are possible.
    assert deep.low == pytest.approx(50 * 1000 / (1000 + 1200 + 100) / (1 + NOISE))
    assert deep.high == pytest.approx(50 * 1000 / (1000 + 500 + 100) * (1 + NOISE))
    # Where one tile is on its way, an iteration of 600 cycles hides no more than 500 and the port.
    short = replace(FED, cycle=600.0, busy=300.0)
    assert cycle(short, 1) == pytest.approx(600 + 500 + 100)
    assert told(short, 1).low == pytest.approx(50 * 600 / 1200 / (1 + NOISE))


def test_the_width_follows_what_is_not_known_of_wait_and_latency() -> None:
    found = told(SINGLE, 3)
    assert found.low == pytest.approx(25 * 1000 / (1000 - 0.75 * 500) / (1 + NOISE), rel=1e-3)
    assert found.high == pytest.approx(25 * 1000 / (1000 - 1.2 * 500) * (1 + NOISE), rel=3e-3)
    back = told(WAITING, 1)  # 10 % on a flight of 1,000
    assert back.low == pytest.approx(25 * 1000 / (625 + 1100) / (1 + NOISE), rel=1e-3)
    assert back.high == pytest.approx(25 * 1000 / (400 + 900) * (1 + NOISE), rel=1e-3)


def test_copies_that_are_issued_late_leave_the_latency_less_time() -> None:
    # Among the products, 60 % into the work of 500, less half of the 100 at the port: 250 late.
    assert cycle(replace(WAITING, delay=0.6), 1) == pytest.approx(500 + 750)
    # Issuing them takes 200, of which the port needs 100 anyway, and nothing comes after.
    assert cycle(replace(WAITING, copying=0.2), 1) == pytest.approx(500 + 800)
    assert cycle(replace(WAITING, copying=0.04), 1) == pytest.approx(500 + 900 + 60)
    assert cycle(replace(WAITING, waiting=0.7, delay=0.9), 3) == pytest.approx((780 + 4 + 220) / 2, rel=5e-3)


@pytest.mark.parametrize(
    ("changes", "least"),
    [
        ({"roof": 0.92 * 400}, 400.0),  # memory serves a plain copy at 92 % of its peak
        ({"tile_B": 64.0 * 400}, 400.0 * EQUAL),  # the port, by which work and flight are as long
        ({"busy": 400.0, "busy_pct": 40.0}, 400.0),  # the pipe
        ({"busy_pct": 60.0}, 600.0),  # the pipe, by what the launch counted: never above 100 %
        ({"waiting": 0.6}, 400.0),  # its own work
    ],
)
def test_an_iteration_takes_as_long_as_whatever_is_slowest(changes: dict[str, float], least: float) -> None:
    now = replace(WAITING, **{"waiting": 0.75, **changes})
    assert cycle(now, 9) == pytest.approx(least, rel=2e-3)


def test_more_depth_alone_slows_nothing_down_and_less_speeds_nothing_up() -> None:
    now = replace(FED, cycle=960.0, busy=480.0)  # a tile takes as long as the work
    assert [cycle(now, depth) for depth in (3, 6)] == pytest.approx([960.0, 960.0])
    assert cycle(replace(now, stages=4), 3) == pytest.approx(960.0)
    assert told(now, 3).low == pytest.approx(50 / (1 + NOISE))


def test_the_first_tile_and_what_stands_outside_the_loop_remain() -> None:
    # 500 of waits, 96 of them for the first of ten tiles: of the loop's 904, 500 are work.
    assert cycle(replace(WAITING, iterations=10.0), 9) == pytest.approx(500 + 96, rel=2e-3)
    assert cycle(replace(WAITING, outside=100.0), 9) == pytest.approx(400 + 100, rel=2e-3)
    assert cycle(replace(SINGLE, iterations=10.0), 9) == pytest.approx(500, rel=2e-3)  # all waits are alike
    # Of ends that cannot be as long as they seem, what the pipe leaves counts.
    assert cycle(replace(WAITING, waiting=0.0, outside=900.0), 9) == pytest.approx(1000)


def test_a_cta_that_is_lost_leaves_the_pipe_idle_by_how_much_nobody_knows() -> None:
    # An iteration of 1,000 beside another takes 800 alone (800 + 400 x 400 / 800), at best 500.
    found = told(PAIR, 4)
    assert found.cycles == pytest.approx(1e6 * (500 + 800) / 2 / 500, rel=1e-3)
    assert found.low == pytest.approx(80 * 500 / 800 / (1 + NOISE), rel=1e-3)
    assert found.high == pytest.approx(80 * (1 + NOISE), rel=1e-3)


def test_tiles_of_all_ctas_stand_before_the_port_and_do_not_count_as_latency() -> None:
    now = replace(PAIR, stages=3, cycle=1200.0, busy=50.0, busy_pct=50 / 6, tile_B=64.0 * 400, waiting=0.5)
    now = replace(now, residency=None)
    # Four tiles are on their way, for 2,400 cycles, and keep the port busy for two thirds of them.
    latency = idle_flight(2400.0, 400.0, 4.0)
    assert latency < 0.95 * (2400 - 400)
    assert cycle(now, 1) == pytest.approx(600 + latency + 400, rel=5e-3)


def test_products_that_run_by_themselves_keep_the_pipe_busy_without_the_other_cta() -> None:
    found = told(replace(PAIR, asynchronous=True), 4)
    assert found.cycles == pytest.approx(1e6 * (500 + 400) / 2 / 500, rel=1e-3)
    assert (found.low, found.high) == (pytest.approx(80 / (1 + NOISE), rel=1e-3), 100.0)


def test_as_many_ctas_as_now_share_the_pipe_as_now() -> None:
    for asynchronous in (False, True):
        found = told(replace(PAIR, asynchronous=asynchronous), 3)
        assert (found.low, found.high) == pytest.approx((80 / (1 + NOISE), 80 * (1 + NOISE)), rel=1e-6)


def test_ends_take_as_long_alone_or_half_as_long_for_half_of_the_ctas() -> None:
    found = told(replace(PAIR, asynchronous=True, outside=100.0), 4)
    # The loop of 900 becomes 450 to 400, the ends of 100 become 50 to 100, in the middle 100 / 1.5.
    assert found.cycles == pytest.approx(1e6 * (425 + 100 / 1.5) / 500, rel=1e-3)
    # At either end one gains what the other loses.
    assert found.low == pytest.approx(80 / (1 + NOISE), rel=1e-3)
    assert found.high == pytest.approx(found.tensor_elapsed_pct * (1 + NOISE), rel=1e-3)


def test_a_cta_more_does_no_more_work_in_a_cycle() -> None:
    alone = replace(
        PAIR,
        ctas=1.0,
        stages=4,
        cycle=500.0,
        busy=250.0,
        busy_pct=50.0,
        residency=Residency(4, 2, 128_000.0, 32_000.0, 1024.0, 233_472.0, 232_448.0),
    )
    assert ctas_at(alone, 2) == 2.0
    # Twice the work in 1,000 cycles, and tiles that come in 970.
    assert told(alone, 2).cycles == pytest.approx(1e6 * (1000**24 + 970**24) ** (1 / 24) / 1000, rel=5e-3)
    full = replace(alone, busy=500.0, busy_pct=95.0)
    assert told(full, 3).tensor_elapsed_pct == pytest.approx(95.0, rel=0.02)


def test_waits_for_products_of_wgmma_that_a_neighbour_runs_are_no_waits_for_data() -> None:
    now = replace(PAIR, asynchronous=True, waiting=0.6, working=0.1, residency=None)
    # Of the CTA's 400 cycles at the pipe, and 40 % more for its neighbour, samples show 100. What
    # warps do else hides 300 of the 460 that lack: 160 of the wait of 600 are for products.
    plain = replace(PAIR, waiting=0.44, working=0.1, residency=None)
    assert cycle(now, 9) == pytest.approx(cycle(plain, 9), rel=1e-6)
    assert cycle(now, 9) < 0.9 * 1000
    shown = replace(WAITING, asynchronous=True, working=0.25)  # samples show all that the pipe works
    assert cycle(shown, 3) == pytest.approx(cycle(WAITING, 3), rel=1e-6)


@pytest.mark.parametrize(
    ("predicted", "depth"),
    [
        ({2: 60.0, 3: 70.0, 4: 70.4}, 4),
        ({4: 70.0, 3: 70.0, 2: 60.0}, 3),
        ({2: 70.0, 3: 60.0}, 2),
        ({5: 40.0}, 5),
    ],
)
def test_the_shallowest_of_the_best_depths_is_chosen(predicted: dict[int, float], depth: int) -> None:
    assert chosen_depth(predicted) == depth


def test_a_known_depth_is_not_left_for_one_that_may_be_worse() -> None:
    present, shallower = Prediction(70.0, 1e6, 70.0, 70.0), Prediction(70.0, 1e6, 60.0, 75.0)
    assert sure(present) == 70.0 and sure(shallower) == pytest.approx(68.5)
    assert chosen_depth({2: sure(shallower), 3: sure(present)}) == 3
    better = Prediction(74.0, 1e6, 66.0, 80.0)
    assert chosen_depth({3: sure(present), 4: sure(better)}) == 4


def test_a_depth_that_cannot_be_told_is_refused_with_the_reason() -> None:
    assert refusal(PAIR, 7) == "" and predict(PAIR, 7) is not None
    assert refusal(PAIR, 8) == "more shared memory than the 232448 B that a CTA may have"
    compiled = replace(FED, compiled=True)
    assert "plain loads" in refusal(compiled, 1) and refusal(compiled, 3) == ""
    assert refusal(replace(compiled, stages=1), 2) == ""
    for chip, named in (("8.6", "8.6"), ("", "unknown"), ("77.7", "77.7")):
        elsewhere = replace(FED, stages=3, measured_on=chip)
        assert f"compute capability {named} was not measured" in refusal(elsewhere, 2)
        assert refusal(elsewhere, 4) == "" and refusal(replace(WAITING, stages=3, measured_on=chip), 2) == ""


def test_a_cycle_that_is_hardly_longer_than_without_waits_shows_no_latency() -> None:
    for waiting, shown in ((0.12, False), (0.14, True)):  # 1,000 / 880 is below 1.15, 1,000 / 860 is above
        now = replace(FED, stages=3, waiting=waiting, measured_on="8.6")
        assert (refusal(now, 2) == "") == shown


def test_as_many_ctas_are_resident_as_shared_memory_and_the_grid_allow() -> None:
    assert [ctas_at(PAIR, depth) for depth in (2, 3, 4, 7, 8)] == [2.0, 2.0, 1.0, 1.0, 1.0]
    assert ctas_at(replace(PAIR, grid=1.5), 3) == 1.5
    assert ctas_at(replace(PAIR, grid=0.5), 3) == 1.0
    assert ctas_at(replace(PAIR, residency=None), 9) == 2.0


@pytest.mark.parametrize(
    ("ctas", "limit", "sharing"),
    [(140 / 132, 2, 2.0), (140 / 132, 1, 1.0), (64 / 132, 2, 1.0), (2.0, 2, 2.0), (5.3, 2, 2.0)],
)
def test_where_all_ctas_run_at_once_the_fullest_sm_counts(ctas: float, limit: int, sharing: float) -> None:
    assert _sharing(ctas, limit) == sharing
