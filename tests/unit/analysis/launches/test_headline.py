"""What many launches lose, in one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ncubble.analysis.launches.losses import Headline, LaunchColumns, headline


def row(name: str = "gemm", ns: float | None = 1e6, busy: float | None = 40.0, **changes: Any) -> dict[str, Any]:
    account = [["tensor_busy", busy], ["data_wait", 75.0 - (busy or 0.0)], ["issue", 25.0]] if busy is not None else []
    lost = ns * (100.0 - busy) / 100.0 if ns is not None and busy is not None else None
    known = {"name": name, "duration_ns": ns, "recoverable_ns": lost, "busy": busy, "unit": "tensor"}
    return {**known, "account": account, "measured": None, **changes}


def of(rows: list[dict[str, Any]]) -> Headline:
    columns = LaunchColumns.of_rows(rows)
    return headline(columns, np.arange(len(columns)))


def test_the_loss_is_shared_by_kernel_and_part() -> None:
    found = of([row("a", 3e6, 40.0), row("b", 1e6, 70.0)])
    assert (found.kernels, found.launches, found.time_ns) == (2, 2, 4e6)
    assert found.lost_pct == pytest.approx((1.8 + 0.3) / 4 * 100)
    assert found.losses == [("data_wait", "a", pytest.approx(100 * 3 * 0.35 / 2.1))]
    assert found.claim == "2 kernels, 52 % of 4.00 ms GPU time lost"
    assert found.place == "50 % of it to data wait in a"
    assert found.tensor == "Tensor-pipe kernels take 100 % of the time and keep the pipe busy for 48 % of their time."


def test_a_kernel_on_two_gpus_is_one_kernel_on_two_models() -> None:
    found = of([row("a", device="NVIDIA H200"), row("a", device="NVIDIA H100"), row("b", device="NVIDIA H100")])
    assert found.claim == "2 kernels on 2 GPU models, 60 % of 3.00 ms GPU time lost"
    assert of([row("a", device="NVIDIA H200"), row("a", device=None)]).claim.startswith("1 kernel, ")


def test_most_of_it_is_said_of_more_than_half_only() -> None:
    assert of([row("a", busy=20.0)]).place == "most of it (69 %) to data wait in a"
    assert not of([row("a", busy=40.0), row("b", busy=40.0)]).place.startswith("most")


def test_a_tensor_kernel_is_named_first_and_the_kernel_that_loses_most_beside_it() -> None:
    fma = row("fma", 9e6, 10.0, unit="fma")
    assert of([fma, row("a", 1e6, 40.0)]).place == "4 % of it to data wait in a, most (67 %) to data wait in fma"
    unsplit = row("a", account=[["tensor_busy", 40.0], ["idle", 60.0]])
    for other in (unsplit, row("a", 1e3, 40.0), row("a", busy=90.0, recoverable_ns=0.0)):
        assert [loss.kernel for loss in of([fma, other]).losses] == ["fma"]


def test_saturated_launches_lose_nothing_and_their_bubbles_are_not_named() -> None:
    found = of([row("a", busy=90.0, recoverable_ns=0.0), row("b", 1e3, 40.0)])
    assert [loss.kernel for loss in found.losses] == ["b"]
    alone = of([row("a", busy=90.0, recoverable_ns=0.0)])
    assert (alone.claim, alone.place) == ("1 kernel, no recoverable idle time in 1.00 ms of GPU time", "")


def test_what_was_not_judged_is_counted_and_not_called_lost() -> None:
    found = of([row("a", 1e6, 50.0), row("b", 3e6, None, unit=None), row("c", None, 50.0)])
    assert found.lost_pct == pytest.approx(50.0) and found.judged_ns == 1e6
    assert "2 launches are not judged (75 % of the time)" in found.doubt
    nothing = of([row(ns=None, busy=None)])
    assert nothing.claim == "1 kernel, lost time unknown" and nothing.place == nothing.tensor == ""
    assert nothing.doubt == "1 launch is not judged: counters or duration not collected."


def test_idle_time_that_no_sample_splits_is_no_cause() -> None:
    unsplit = [["tensor_busy", 40.0], ["idle", 50.0], ["tail", 10.0]]
    found = of([row("a", account=unsplit)])
    assert [loss[:2] for loss in found.losses] == [("tail", "a")] and found.unsplit_pct == pytest.approx(500 / 6)
    assert "83 % of the loss has no cause, because there are no warp samples." in found.doubt
    assert of([row("a", account=[["tensor_busy", 40.0], ["idle", 60.0]])]).place == ""


def test_a_measured_account_stands_in_place_of_the_estimate() -> None:
    measured = [["tensor_busy", 40.0], ["sync_wait", 60.0]]
    assert of([row("a", measured=measured)]).losses[0].part == "sync_wait"


def test_no_launch_at_all() -> None:
    found = of([])
    assert (found.claim, found.place, found.tensor, found.doubt) == ("No launch", "", "", "")


def test_only_the_chosen_launches_count() -> None:
    columns = LaunchColumns.of_rows([row("a", 1e6, 10.0), row("b", 1e6, 60.0)])
    assert headline(columns, np.array([1])).lost_pct == pytest.approx(40.0)
