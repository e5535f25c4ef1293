"""Reports read one launch at a time say what whole reports say."""

from __future__ import annotations

from functools import cache
from typing import Any

import pandas as pd
import pytest

from ncubble.analysis.account.account import account
from ncubble.analysis.diagnosis.advise import advise
from ncubble.analysis.report.report import Report, open_reports
from ncubble.dashboard.data.lean import KEPT, LeanReport
from ncubble.dashboard.pages.kernel.advised import advice_of
from ncubble.recordings import ROOT


@cache
def whole() -> Report:
    """The recording with the most launches."""
    return max(open_reports([ROOT])[0], key=lambda report: (len(report.launches), len(report.source)))


def launches() -> list[int]:
    return [int(launch) for launch in whole().launches["launch"]]


def test_code_and_samples_of_one_launch_are_those_of_the_whole() -> None:
    lean = LeanReport.of(whole())
    for launch in launches():
        pd.testing.assert_frame_equal(lean.source_of(launch), whole().source_of(launch))
        mine, theirs = (one.timeline_of(launch).reset_index(drop=True) for one in (lean, whole()))
        pd.testing.assert_frame_equal(mine, theirs, check_categorical=False)
    assert "source" not in vars(lean) and "timeline" not in vars(lean)


def test_a_frame_is_read_once_and_the_oldest_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    lean, read = LeanReport.of(whole()), list[int]()

    def alone(launch: int) -> Any:
        read.append(launch)
        return pd.DataFrame({"pc": [launch]})

    monkeypatch.setattr(lean, "_source_alone", alone)
    for launch in (0, 0, *range(2 * KEPT + 1), 0):
        assert lean.source_of(launch)["pc"].tolist() == [launch]
    assert read == [*range(2 * KEPT + 1), 0]
    assert lean.held_B >= 8 * 2 * KEPT


def test_what_is_no_report_stays_as_it_is() -> None:
    other = object()
    assert LeanReport.of(other) is other
    lean = LeanReport.of(whole())
    assert LeanReport.of(lean) is lean


def test_advice_with_an_account_at_hand_is_that_of_the_command() -> None:
    for report in open_reports([ROOT])[0][:4]:
        told = advise(report, 0)
        found = advice_of(report, 0, account(report, 0))
        assert found == {name: told[name] for name in found}
