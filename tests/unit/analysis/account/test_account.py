"""The account sums to 100, is honest about what it lacks, and the phases find planted ramps, gaps
and tails."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncubble.analysis.account.account import BubbleAccount, build, steady_weights
from ncubble.analysis.account.parts import STEADY
from ncubble.analysis.account.phases import phases
from ncubble.analysis.account.stalls import CLASSES
from ncubble.analysis.account.units import Busy

EMPTY = pd.DataFrame({"samples": pd.Series(dtype=float)})


def timeline(values, step=2000):
    return pd.Series(np.asarray(values, dtype=float), index=np.arange(len(values)) * step)


def test_an_account_that_does_not_sum_to_100_cannot_be_made():
    with pytest.raises(ValueError, match="not a bubble account"):
        BubbleAccount(0, "tensor", {"tensor_busy": 40.0, "idle": 59.0})
    with pytest.raises(ValueError, match="not a bubble account"):
        BubbleAccount(0, "tensor", {"tensor_busy": 120.0, "idle": -20.0})
    with pytest.raises(ValueError, match="unknown parts"):
        BubbleAccount(0, "tensor", {"tensor_busy": 40.0, "gremlins": 60.0})


def test_without_timeline_and_samples_the_parts_are_merged_and_named():
    found = build(3, Busy("tensor", 40.0, "tensor"), 0.9, None, EMPTY)
    assert dict(found.parts) == pytest.approx({"tensor_busy": 40.0, "unit_busy": 0.0, "no_cta": 10.0, "idle": 50.0})
    assert found.merged == {"no_cta": ("ramp", "tail"), "idle": ("wave_gap", *STEADY)}


def test_without_any_cycle_counter_all_idle_time_is_one_part():
    found = build(0, Busy("tensor", 25.0, "tensor"), math.nan, None, EMPTY)
    assert dict(found.parts) == {"tensor_busy": 25.0, "unit_busy": 0.0, "idle": 75.0}
    assert found.merged == {"idle": ("ramp", "tail", "wave_gap", *STEADY)}


def test_waits_on_the_mma_are_no_bubble_while_the_pipe_is_busy_and_issue_beyond_that():
    samples = pd.Series(dict.fromkeys(CLASSES, 0.0) | {"unit": 60.0, "data_wait": 40.0})
    assert steady_weights(samples, 60.0, 100.0) == dict.fromkeys(STEADY, 0.0) | {"data_wait": 40.0}
    assert steady_weights(samples, 20.0, 100.0)["issue"] == pytest.approx(40.0)


@settings(max_examples=200, deadline=None)
@given(
    pct=st.floats(0, 100),
    with_cta=st.one_of(st.just(math.nan), st.floats(0, 1)),
    levels=st.lists(st.floats(0, 100), max_size=80),
)
def test_every_account_sums_to_100_with_no_negative_part(pct, with_cta, levels):
    series = timeline(levels)
    found = build(0, Busy("tensor", pct, "tensor"), with_cta, phases(series, timeline([])), EMPTY)
    assert math.fsum(found.parts.values()) == pytest.approx(100.0, abs=1e-9)
    assert min(found.parts.values()) >= 0.0


def test_phases_find_a_planted_ramp_gap_and_tail():
    steady = [80.0] * 30
    found = phases(timeline([0.0] * 5 + steady + [10.0] * 4 + steady + [0.0] * 10 + [5.0]), timeline([]))
    total = 5 + 30 + 4 + 30 + 10 + 1
    assert found is not None
    assert found.steady == pytest.approx(80.0)
    assert found.wave_gap == pytest.approx(100 * 4 * 0.7 / total, rel=0.05)
    assert found.ramp == pytest.approx(100 * 5 * 0.8 / total, rel=0.05)
    assert found.tail == pytest.approx(100 * (10 * 0.8 + 0.75) / total, rel=0.05)
    assert len(found.dips) == 1


def test_samples_after_the_kernel_are_no_tail():
    active = timeline([100.0] * 40 + [0.0] * 40)
    found = phases(timeline([70.0] * 40 + [0.0] * 40), active)
    assert found is not None and found.tail == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("values", [[], [50.0] * 10, [0.0] * 60])
def test_too_short_or_idle_timelines_tell_nothing(values):
    assert phases(timeline(values), timeline([])) is None


def test_a_partial_last_wave_is_tail_though_the_unit_still_works():
    active = timeline([100.0] * 60 + [70.0] * 20)
    found = phases(timeline([80.0] * 60 + [56.0] * 20), active)
    assert found is not None
    assert found.tail == pytest.approx(100 * 20 * 0.3 / 80, rel=0.08) and found.wave_gap == 0.0
