"""What removing a part gives, from its share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncubble.analysis.changes.change import gain_of

SHARE = st.floats(0.0, 100.0)


@given(SHARE, SHARE)
def test_a_gain_lies_between_its_bounds_and_never_beyond_idle_time(pct: float, idle: float) -> None:
    pct = min(pct, idle)
    gain = gain_of(pct, idle)
    assert 0.0 <= gain.low <= gain.expected <= gain.high <= idle + 1e-9


@given(SHARE, SHARE, SHARE)
def test_a_larger_share_of_the_same_idle_time_gains_more(one: float, other: float, idle: float) -> None:
    small, large = sorted((min(one, idle), min(other, idle)))
    assert gain_of(small, idle).expected <= gain_of(large, idle).expected + 1e-9


def test_a_part_that_is_all_idle_time_gains_just_that() -> None:
    assert gain_of(40.0, 40.0).expected == pytest.approx(40.0)
