import math

import pytest

from ncubble.analysis.account.plausibility import disagreements

WHOLE = {"c.min": 2.0, "c.avg": 3.0, "c.max": 5.0, "c.sum": 30.0}
SHARE = {f"c.{name}.pct_of_peak_sustained_elapsed": 40.0 for name in ("min", "avg", "max", "sum")}


def test_rollups_that_agree_are_not_mentioned():
    assert list(disagreements(WHOLE | SHARE | {"launch__grid_size": 7.0, "other.avg": 1.0})) == []


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"c.avg": 6.0}, "c: an average of 6 between 2 and 5"),
        ({"c.min": 3.5}, "c: an average of 3 between 3.5 and 5"),
        ({"c.sum": 31.0}, "c: a sum of 31 and an average of 3"),
        ({"c.sum.pct_of_peak_sustained_elapsed": 41.0}, "c.pct_of_peak_sustained_elapsed: 41 % in total"),
        ({"c.max.pct_of_peak_sustained_elapsed": 34.0}, "an average of 40 between 40 and 34"),
    ],
)
def test_a_rollup_that_contradicts_the_others_is_told(changed, told):
    (said,) = disagreements(WHOLE | SHARE | changed)
    assert told in said


def test_values_that_are_missing_contradict_nothing():
    assert list(disagreements({"c.avg": math.nan, "c.max": 1.0, "d.min": 4.0, "d.max": 3.0})) == []


def test_shares_may_pass_their_extremes_by_what_units_differ():
    assert list(disagreements(SHARE | {"c.max.pct_of_peak_sustained_elapsed": 36.0})) == []
    active = {name.replace("elapsed", "active"): value for name, value in SHARE.items()}
    assert list(disagreements(active | {"c.max.pct_of_peak_sustained_active": 20.0})) == []
