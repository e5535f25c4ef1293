"""``ncubble.compare`` and ``ncubble.advise``: what they take, and their frames."""

from __future__ import annotations

import json
from typing import Any

import plotly.graph_objects as go
import pytest

import ncubble
from ncubble.errors import UsageError
from ncubble.recordings import ROOT

A, B = ROOT / "gemm_tma" / "stages1", ROOT / "gemm_tma" / "stages3"


def test_sides_are_paths_sets_or_launches() -> None:
    told = json.dumps(ncubble.compare(A, B).to_json())
    r = ncubble.load(A, B)
    for sides in ((str(A), [B]), (r[0], r[1]), (r[:1], r[1:])):
        found = ncubble.compare(*sides)  # type: ignore[arg-type]
        assert json.dumps(found.to_json()) == told and len(found) == 1


def test_rows_hold_every_value_of_every_side() -> None:
    found = ncubble.compare(A, B, ROOT / "gemm_tma" / "stages6")
    rows = found.rows.set_index(["section", "name", "side"])
    assert set(found.rows["side"]) == {"A", "B", "C"}
    accounts = [ncubble.load(path)[0].account for path in (A, B)]
    assert [rows.loc[("account", "data_wait", side), "mean"] for side in "AB"] == [
        account["data_wait"] for account in accounts
    ]
    assert rows.loc[("account", "data_wait", "B"), "difference"] == pytest.approx(
        accounts[1]["data_wait"] - accounts[0]["data_wait"]
    )
    assert rows.loc[("account", "data_wait", "A")].isna()["difference"]


def test_texts_say_what_changed() -> None:
    found = ncubble.compare(A, B)
    (sentence,) = found.sentences
    assert "data wait falls most" in sentence and sentence in repr(found)
    assert found.to_markdown().startswith("<!-- ncubble compare -->")
    assert len(found.unmatched) == 0


@pytest.mark.parametrize("count", [0, 1, 9])
def test_a_wrong_number_of_sides_is_refused(count: int) -> None:
    with pytest.raises(UsageError, match=f"^{count} side{'' if count == 1 else 's'}\n"):
        ncubble.compare(*[A] * count)


def test_nothing_in_common_is_refused() -> None:
    r = ncubble.load(A)
    with pytest.raises(UsageError, match="nothing to compare"):
        ncubble.compare(r, r[0:0])


def test_advice_has_frames_and_a_figure() -> None:
    advice = ncubble.advise(ncubble.load(ROOT / "gemm_tma" / "stages2")[0])
    assert advice.stages == 2 and advice.depths.index.tolist() == list(range(1, 9))
    now, better = advice.depths.loc[2], advice.depths.loc[3]
    assert now["low"] == now["high"] and better["cycles"] < now["cycles"]
    assert advice.fixes["predicted_gain_pct"].notna().any() and "data_wait" in set(advice.fixes["cause"])
    assert isinstance(advice.plot(), go.Figure)
    assert "depth 2" in repr(advice)


def test_a_depth_that_is_not_identified_is_missing_and_explained() -> None:
    advice = ncubble.advise(ROOT / "softmax_online" / "default")
    assert advice.depths.isna().all(axis=None) and any("not identified" in note for note in advice.notes)
    with pytest.raises(UsageError, match="no depth is identified"):
        advice.plot()


@pytest.mark.parametrize(
    ("options", "says"),
    [({}, "4 launches, but advice is for one"), ({"number": 9}, "number=9"), ({"number": 0, "stages": 0}, "stages=0")],
)
def test_advice_is_for_one_launch(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        ncubble.advise(ncubble.load(ROOT / "gemm_tma"), **options)
    assert ncubble.advise(ROOT / "gemm_tma", number=1).stages == 2
