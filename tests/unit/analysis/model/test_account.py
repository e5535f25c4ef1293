"""The account by the simulated loop, on recorded launches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncubble.analysis.account.account import account as sampled_account
from ncubble.analysis.account.account import judged_account
from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.model import calibration
from ncubble.analysis.model.account import LOOP, _joined, _without_negative, account, loop_model
from ncubble.analysis.model.simulation import COMMIT, COPY, DRAIN, MEET, PRODUCT, WAIT, WORK
from ncubble.analysis.report.launch import Launch
from ncubble.analysis.report.report import Report
from ncubble.recordings import ROOT

SHARE = st.floats(0.0, 100.0)


def launch(*run: str) -> Launch:
    return Report.open(Path(ROOT, *run)).launch(0)


@pytest.mark.parametrize("stages", [1, 2, 3, 6])
def test_a_fitted_loop_takes_the_measured_cycles(stages: int) -> None:
    model = loop_model(launch("gemm_tma", f"stages{stages}"))
    assert model is not None
    row = launch("gemm_tma", f"stages{stages}").identity
    ctas = math.prod(int(extent) for extent in row.grid.split(","))
    rounds = math.ceil(ctas / 132 / model.loop.ctas)
    assert model.cycle * 64 * rounds == pytest.approx(row.cycles, rel=0.05)  # K of 4096 in steps of 64


def test_waits_of_a_shallow_ring_vanish_without_them_and_those_of_a_deep_one_are_few() -> None:
    gone = {}
    for stages in (1, 6):
        model = loop_model(launch("gemm_tma", f"stages{stages}"))
        assert model is not None
        gone[stages] = model.gone_pct({"data_wait"})
        assert model.gone_pct({"copy_cost"}) >= gone[stages] - 1.0, "without copies, nothing is waited for"
    assert gone[1] > 25.0 and gone[6] < 10.0


def test_simulated_parts_replace_sampled_ones_and_the_account_stays_whole() -> None:
    recorded = launch("gemm_tma", "stages2")
    account_by_model, sampled = account(recorded), sampled_account(recorded)
    assert account_by_model is not None and sampled is not None
    assert set(account_by_model.alone) == set(LOOP)
    assert math.fsum(account_by_model.parts.values()) == pytest.approx(100.0)
    assert account_by_model.parts["tensor_busy"] == pytest.approx(sampled.parts["tensor_busy"])
    assert account_by_model.parts["data_wait"] + account_by_model.parts["copy_cost"] > 25.0


@pytest.mark.parametrize(
    "run", [("tensor_core_gemm", "stages2"), ("softmax_online", "default"), ("tiled_matmul", "default")]
)
def test_launches_without_wgmma_keep_the_account_of_their_samples(run: tuple[str, str]) -> None:
    recorded = launch(*run)
    assert loop_model(recorded) is None and account(recorded) == sampled_account(recorded)


@pytest.mark.parametrize("run", [("gemm_tma", "stages2"), ("softmax_online", "default")])
def test_the_account_that_a_verdict_says_needs_no_simulation(
    run: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = account(launch(*run))
    assert known is not None and known.weights is not None
    monkeypatch.setattr(calibration, "simulate", lambda *_: 1 / 0)
    plain, weighed = (judged_account(launch(*run), known.parts, each) for each in (False, True))
    assert plain is not None and weighed is not None
    assert plain.weights is None and known.weights.equals(weighed.weights)
    for judged in (plain, weighed):
        same = ("launch", "unit", "parts", "missing", "phases")
        assert [getattr(judged, name) for name in same] == [getattr(known, name) for name in same]
    assert judged_account(launch(*run), None, weighed=True) is None


@given(st.dictionaries(st.sampled_from(LOOP), st.floats(-20.0, 60.0), min_size=1))
def test_no_share_is_negative_and_their_sum_is_kept_where_it_can_be(shares: Mapping[str, float]) -> None:
    kept = _without_negative(shares)
    assert all(share >= 0.0 for share in kept.values())
    assert math.fsum(kept.values()) >= math.fsum(shares.values()) - 1e-9


@given(st.lists(SHARE, min_size=4, max_size=4), st.floats(0.0, 99.0), SHARE, SHARE)
def test_parts_sum_to_100_whatever_is_simulated(simulated: list[float], busy: float, tail: float, issue: float) -> None:
    room = 100.0 - busy
    sampled = {"tensor_busy": busy, "unit_busy": 0.0, "tail": room * tail / 100, "issue": 0.0, "other": 0.0}
    sampled["issue"] = (room - sampled["tail"]) * issue / 100
    sampled["other"] = room - sampled["tail"] - sampled["issue"]
    parts = _joined({part: sampled.get(part, 0.0) for part in PARTS}, dict(zip(LOOP, simulated, strict=True)))
    assert math.fsum(parts.values()) == pytest.approx(100.0)
    assert parts["tensor_busy"] == pytest.approx(busy, abs=1e-6) and min(parts.values()) >= -1e-9


def test_the_steps_of_a_loop_are_read_from_its_code() -> None:
    model = loop_model(launch("triton_gemm", "stages3"))
    assert model is not None
    kinds = [step.kind for step in model.loop.steps if step.kind != WORK]
    assert kinds == [WAIT, MEET, PRODUCT, DRAIN, MEET, COPY, COMMIT]
    assert (model.loop.groups, model.loop.ahead, model.loop.pending, model.loop.own_shares) == (2, 2, 1, True)
    assert sum(step.amount for step in model.loop.steps if step.kind == DRAIN) == 1


def test_without_the_peak_of_l2_nothing_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Report.open(Path(ROOT, "gemm_tma", "stages3")).launch(0)
    known = type(recorded).value
    monkeypatch.setattr(
        type(recorded),
        "value",
        lambda self, name: math.nan if name.startswith("lts__t_sectors.") else known(self, name),
    )
    assert loop_model(recorded) is None
