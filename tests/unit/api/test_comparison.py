"""``ncubble.compare`` and predictions of other depths: what they take, and their frames."""

from __future__ import annotations

import json

import plotly.graph_objects as go
import pytest

import ncubble
from ncubble.errors import UsageError
from ncubble.recordings import H100, ROOT

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
    with pytest.raises(UsageError, match=f"^{count} side{' is' if count == 1 else 's are'} named\n"):
        ncubble.compare(*[A] * count)


def test_nothing_in_common_is_refused() -> None:
    r = ncubble.load(A)
    with pytest.raises(UsageError, match="nothing to compare"):
        ncubble.compare(r, r[0:0])


def test_depths_are_a_frame_and_a_figure() -> None:
    launch = ncubble.load(ROOT / "gemm_tma" / "stages2")[0]
    depths = launch.depths
    assert depths.attrs["stages"] == 2 and depths.index.tolist() == list(range(1, 9))
    now, better = depths.loc[2], depths.loc[3]
    assert now["low"] == now["high"] and better["cycles"] < now["cycles"]
    assert isinstance(launch.plot_depths(), go.Figure)


def test_a_depth_that_is_not_identified_is_missing_and_explained() -> None:
    launch = ncubble.load(H100 / "softmax_online" / "default")[0]
    depths = launch.depths
    assert depths.isna().all(axis=None) and any("not identified" in note for note in depths.attrs["notes"])
    with pytest.raises(UsageError, match="no depth is identified"):
        launch.plot_depths()


@pytest.mark.parametrize("stages", [0, 65])
def test_a_present_depth_out_of_range_is_refused(stages: int) -> None:
    with pytest.raises(UsageError, match=f"stages={stages}"):
        ncubble.load(ROOT / "gemm_tma" / "stages2")[0].predict_depths(stages)
