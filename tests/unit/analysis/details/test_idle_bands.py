"""Idle bands and warp states over time."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from ncubble.analysis.details.tracks import idle_bands


def test_missing_ctas_count_as_tail_and_not_as_steady_waits() -> None:
    times = np.arange(0, 100) * 1000.0
    busy = pd.Series(np.where(times < 80_000, 80.0, 0.0), index=times)
    active = pd.Series(np.where(times < 80_000, 100.0, 0.0), index=times)
    phases = SimpleNamespace(start_ns=0, ramp_end_ns=0, tail_start_ns=79_000, end_ns=99_000, dips=(), steady=80.0)
    bands = idle_bands(busy, active, phases, {"data_wait": 20.0})
    assert bands["tail"][-1] == 100.0 and bands["data_wait"][-1] == 0.0
    assert bands["data_wait"][10] == pytest.approx(20.0)


def test_an_account_without_steady_parts_leaves_the_rest_to_other() -> None:
    times = np.arange(0, 30) * 1000.0
    phases = SimpleNamespace(start_ns=0, ramp_end_ns=0, tail_start_ns=29_000, end_ns=29_000, dips=(), steady=70.0)
    assert list(idle_bands(pd.Series(70.0, index=times), None, phases, {"tensor_busy": 70.0})) == ["other"]
