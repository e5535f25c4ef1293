"""A report that reads one launch at a time says what the whole report says."""

from __future__ import annotations

from functools import cache
from typing import Any

import pandas as pd
import pytest

from ncubble.analysis.report import frames
from ncubble.analysis.report.report import KEPT, Report, open_reports
from ncubble.recordings import ROOT


@cache
def whole() -> Report:
    """The recording with the most launches."""
    return max(open_reports([ROOT])[0], key=lambda report: (len(report.launches), len(report.source)))


@pytest.fixture
def lean() -> Report:
    report = Report.open(whole().path)
    report.read_one_at_a_time()
    return report


def test_code_and_samples_of_one_launch_are_those_of_the_whole(lean: Report) -> None:
    for launch, theirs in zip(lean, whole(), strict=True):
        pd.testing.assert_frame_equal(launch.source, theirs.source)
        series = (one.timeline.reset_index(drop=True) for one in (launch, theirs))
        pd.testing.assert_frame_equal(*series, check_categorical=False)
    assert "source" not in vars(lean) and "timeline" not in vars(lean)


def test_what_was_read_before_is_let_go(lean: Report) -> None:
    assert len(lean.metrics) and len(lean.source) and lean.launch(0).scalars
    assert lean.held_B > 0
    lean.read_one_at_a_time()
    assert lean.held_B == 0


def test_a_frame_is_read_once_and_the_oldest_is_let_go(lean: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[int]()

    def table(name: str, launch: int) -> Any:
        read.append(launch)
        return pd.DataFrame({"pc": [launch]})

    monkeypatch.setattr(lean, "_table", table)
    monkeypatch.setattr(frames, "source", lambda code, samples: code)
    for number in (0, 0, *range(KEPT + 1), 0):
        assert lean.source_of(number)["pc"].tolist() == [number]
    assert read[::2] == [*range(KEPT + 1), 0]
    assert lean.held_B >= 8 * KEPT
