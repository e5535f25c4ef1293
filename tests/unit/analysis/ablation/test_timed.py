"""Shares by time: medians over rounds, intervals that hold what is true, and what makes them
doubtful."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ncubble.analysis.ablation.experiment import (
    OFF_CYCLES,
    doubts,
    measured_parts,
    median_and_interval,
    vanished_time,
    with_intervals,
)
from ncubble.analysis.ablation.result import (
    TIME,
    Ablation,
    MeasuredPart,
    MeasuredVariant,
    ablation_of,
)
from ncubble.errors import ReportError
from tests.helpers.ablations import ablation

ROUNDS = 21


def noisy(median_ns: float, seed: int, drift: Sequence[float]) -> list[float]:
    """Times of one variant under a drift that all variants share."""
    noise = np.random.default_rng(seed).normal(1.0, 0.002, ROUNDS)
    return [float(median_ns * each * (1.0 + off)) for each, off in zip(noise, drift, strict=True)]


DRIFT = np.linspace(0.0, 0.2, ROUNDS).tolist()
"""The GPU becomes a fifth slower while it is measured."""
WHOLE = noisy(100_000.0, 1, DRIFT)


def test_a_drift_of_the_gpu_does_not_enter_the_shares() -> None:
    found = vanished_time(MeasuredVariant("wait", "ok", 3, times_ns=noisy(70_000.0, 2, DRIFT)), WHOLE)
    assert found.gone_pct == pytest.approx(30.0, abs=0.3)
    low, high = found.interval or (0.0, 0.0)
    assert low < 30.0 < high and high - low < 0.6 and 0.0 < (found.se or 0.0) < 0.3


def test_one_slow_launch_does_not_move_the_median() -> None:
    times = noisy(70_000.0, 2, DRIFT)
    times[3] *= 5
    assert vanished_time(MeasuredVariant("wait", "ok", 3, times_ns=times), WHOLE).gone_pct == pytest.approx(30, abs=0.4)


def test_the_interval_of_a_median_is_the_same_each_time_and_holds_it() -> None:
    middle, interval, se = median_and_interval(WHOLE)
    assert interval[0] < middle < interval[1] and se > 1.0
    assert median_and_interval(WHOLE) == (middle, interval, se)
    assert median_and_interval([5.0] * 4) == (5.0, (5.0, 5.0), 0.0)


def test_parts_have_the_interval_of_their_share_and_not_of_one_variant() -> None:
    gone = {"wait": 30.0, "sync": 10.0, "wait_sync": 36.0}
    variants = [
        vanished_time(MeasuredVariant(name, "ok", 1, times_ns=noisy(1e5 * (1 - pct / 100), at, DRIFT)), WHOLE)
        for at, (name, pct) in enumerate(gone.items(), 5)
    ]

    def share(again: Sequence[MeasuredVariant]) -> list[MeasuredPart]:
        return measured_parts(again, {}, 0.0, ["wait", "sync"])[0]

    parts = {part.part: part for part in with_intervals(share(variants), variants, WHOLE, share)}
    assert parts["data_wait"].measured == pytest.approx((30 + 36 - 10) / 2, abs=0.3)
    for part in parts.values():
        low, high = part.interval or (0.0, 0.0)
        assert low <= part.measured <= high and high - low < 1.0 and part.se > 0
    assert parts["rest"].measured == pytest.approx(64.0, abs=0.4), "without counters the work stays in the rest"


@pytest.mark.parametrize(
    ("clock", "variant", "overhead", "late", "said"),
    [
        (1500.0, 1490.0, 2000.0, 0, []),
        (1500.0, 1560.0, None, 0, ["the SM clock, and with it the time, changes with the removed parts: wait +4.0 %"]),
        (None, None, None, 0, ["clock is not known"]),
        (1500.0, 1500.0, 9000.0, 0, ["takes 9.0 µs, 9 % of this one"]),
        (1500.0, 1500.0, None, 2, ["2 launches may have waited for the host"]),
    ],
)
def test_what_makes_times_doubtful_is_named(
    clock: float | None, variant: float | None, overhead: float | None, late: int, said: list[str]
) -> None:
    first, *found = doubts([MeasuredVariant("wait", "ok", 1, clock_mhz=variant)], clock, 1e5, overhead, late)
    assert first == OFF_CYCLES
    assert len(found) == len(said) and all(one in text for one, text in zip(said, found, strict=True))


def timed_ablation() -> Ablation:
    part = MeasuredPart("data_wait", None, 30.0, 0.1, 30.0, (29.8, 30.2))
    known = ablation([part, MeasuredPart("rest", None, 70.0, 0.1, None, (69.0, 71.0))])
    return Ablation(**{**vars(known), "cycles": None, "measure": TIME, "time_ns": 1e5, "interval_ns": (9e4, 11e4)})


def test_times_are_kept_as_such_and_never_stand_beside_a_report(tmp_path: Path) -> None:
    timed_ablation().save(tmp_path)
    assert (found := Ablation.load(tmp_path)) == timed_ablation() and found is not None and found.timed
    assert ablation_of(tmp_path, 0) is None, "accounts are in cycles"
    assert found.account({"tensor_busy": 50.0}) is None


def test_a_measure_that_is_none_is_refused(tmp_path: Path) -> None:
    timed_ablation().save(tmp_path)
    path = tmp_path / "ablation.json"
    path.write_text(path.read_text().replace('"measure": "time"', '"measure": "luck"'))
    with pytest.raises(ReportError, match="measure"):
        Ablation.load(tmp_path)
