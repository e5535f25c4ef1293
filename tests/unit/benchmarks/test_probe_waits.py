"""The waits of a trace as the account counts them (``benchmarks/probe/waits.py``), on a schedule
known by heart."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from ncubble.analysis.traces.probe import decode, parse_dumps
from tests.helpers.probe_dumps import dump, warp

COPIES = [(0, 100, "load", 0), (100, 300, "wait_data", 0), (300, 1000, "compute", 0)]
WAITS = [(0, 300, "wait_sync", 0), (300, 1000, "compute", 0)]


@pytest.fixture
def waits(repository: Path, monkeypatch: pytest.MonkeyPatch):
    return importlib.import_module("benchmarks.probe.waits").waits


def recorded(*regions):
    warps = [warp(each, 0, 1000, warp=number) for number, each in enumerate(regions)]
    return decode(parse_dumps(dump(warps), "here"))


def test_a_barrier_waits_for_what_the_other_warp_does(waits):
    found = waits(recorded(COPIES, WAITS), 70.0)
    assert found["copy"] == pytest.approx(10, abs=0.5), "100 of 1000 cycles: one loads, the other waits for it"
    assert found["data"] == pytest.approx(20, abs=0.5)
    assert found["sync"] == pytest.approx(0, abs=0.1)


def test_a_barrier_behind_which_nobody_copies_is_a_wait_for_others(waits):
    late = [(0, 300, "compute", 0), (300, 1000, "compute", 1)]
    found = waits(recorded(late, WAITS), 40.0)
    assert found["sync_most"] == pytest.approx(15, abs=0.5), "one of two warps for 300 of 1000 cycles"
    assert found["data"] == found["copy"] == 0


def test_products_that_outlive_their_region_keep_the_pipe_busy(waits):
    steps = [(0, 100, "compute", 0), (100, 500, "wait_data", 1), (500, 600, "compute", 1), (600, 1000, "wait_data", 2)]
    found = waits(recorded(*[steps] * 4), 80.0)
    assert found["data_played"] == pytest.approx(20, abs=1), "each product takes 400 of the 500 cycles to the next"
    assert found["data_least"] == pytest.approx(80, abs=1), "no warp computes meanwhile"
