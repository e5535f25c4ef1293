"""What ``ncubble.load`` takes, and the launches that it returns: frames, choices, texts."""

from __future__ import annotations

import html.parser
import pickle
import shutil
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ncubble
from ncubble.errors import ReportError, UsageError
from ncubble.recordings import FULL, ROOT
from tests.helpers.hostile_report import SCRIPTS, hostile_runs

ONE = ROOT / "gemm_tma" / "stages2"
GEMMS = ROOT / "gemm_tma"


@pytest.fixture(scope="module")
def gemms() -> ncubble.ReportSet:
    return ncubble.load(GEMMS)


@pytest.fixture(scope="module")
def many() -> ncubble.ReportSet:
    return ncubble.load(GEMMS, FULL)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> ncubble.ReportSet:
    return ncubble.load(hostile_runs(tmp_path_factory.mktemp("hostile")))


def test_a_path_may_be_text_or_path_file_or_run_and_come_in_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(ROOT))
    ways: list[Any] = [str(ONE), ONE, ONE / "report.ncu-repz", [ONE], (str(ONE),), iter([ONE]), "~/gemm_tma/stages2"]
    for way in ways:
        assert [launch.kernel for launch in ncubble.load(way)] == ["gemm_tma"]
    assert len(ncubble.load(ONE, ROOT / "gemm_tma" / "stages3")) == 2 == len(ncubble.load([ONE, GEMMS / "stages3"]))


def test_a_pattern_stands_for_all_paths_that_match(tmp_path: Path) -> None:
    assert [launch.parameters["stages"] for launch in ncubble.load(GEMMS / "stages[12]")] == [1, 2]
    assert len(ncubble.load(f"{ROOT}/**/gemm_tma/stages*")) == 4
    shutil.copytree(ONE, tmp_path / "run[1]")
    assert len(ncubble.load(tmp_path / "run[1]")) == 1, "a path that exists is no pattern"
    with pytest.raises(UsageError, match=r"run\?: nothing matches"):
        ncubble.load(tmp_path / "run?")


@pytest.mark.parametrize("wrong", ["", "a\0b", b"x", 3, None, [None]])
def test_what_is_no_path_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="is not a path"):
        ncubble.load(wrong)


def test_no_path_no_report_and_no_file_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no path"):
        ncubble.load()
    with pytest.raises(UsageError, match="no report below"):
        ncubble.load(tmp_path)
    with pytest.raises(UsageError, match="no such file"):
        ncubble.load(tmp_path / "none.ncu-rep")


def test_a_damaged_report_is_never_passed_over_in_silence(tmp_path: Path) -> None:
    bad = [tmp_path / f"bad{number}.ncu-rep" for number in range(2)]
    for path in bad:
        path.write_bytes(b"not a report")
    shutil.copy(ONE / "report.ncu-repz", tmp_path / "good.ncu-repz")
    with pytest.raises(ReportError, match="2 reports could not be read") as refused:
        ncubble.load(tmp_path)
    assert "strict=False" in refused.value.remedy
    found = ncubble.load(tmp_path, strict=False)
    assert len(found) == 1 and [Path(error.report) for error in found.errors] == bad
    assert "2 not read" in repr(found)
    assert [error["report"] for error in found.to_json()["errors"]] == [str(path) for path in bad]
    with pytest.raises(ReportError):
        ncubble.load(bad[0], strict=False)


def test_counters_are_there_without_details(gemms: ncubble.ReportSet) -> None:
    found = ncubble.load(GEMMS, details=False)
    pd.testing.assert_frame_equal(found.metrics, gemms.metrics)
    pd.testing.assert_frame_equal(found.source, gemms.source)


def test_frames_name_report_and_launch_of_every_row(many: ncubble.ReportSet) -> None:
    known = {(launch.report, launch.number) for launch in many}
    for name in ("metrics", "timeline", "source", "rules"):
        frame = getattr(many, name)
        assert list(frame.columns[:2]) == ["report", "launch"]
        assert set(map(tuple, frame[["report", "launch"]].drop_duplicates().to_numpy())) <= known, name
    assert not many.source.isna().any()[["long_scoreboard", "samples"]].any()


def test_columns_have_units(many: ncubble.ReportSet) -> None:
    assert many.launches.attrs["units"]["duration_ns"] == "ns"
    assert many.source.query("samples > 0").attrs["units"]["long_scoreboard"] == "warp samples"
    assert set(many.launches.attrs["units"]) <= set(many.launches.columns)
    assert many[0].account.attrs["units"] == "% of elapsed SM cycles"


def test_rows_of_a_selection_are_those_of_its_launches(many: ncubble.ReportSet) -> None:
    part = many[[3, 0]]
    assert part.launches["label"].tolist() == [many[3].label, many[0].label]
    assert part.launches.index.tolist() == [0, 1] == part.accounts.index.tolist()
    assert set(part.metrics["report"].astype(str)) == {many[0].report, many[3].report}


def test_launches_are_chosen_like_rows(gemms: ncubble.ReportSet) -> None:
    labels = [launch.label for launch in gemms]
    assert [launch.label for launch in gemms[1:3]] == labels[1:3]
    assert gemms[-1].label == labels[-1]
    assert [launch.label for launch in gemms["stages=(1|6)"]] == ["gemm_tma stages=1", "gemm_tma stages=6"]
    frame = gemms.launches
    waiting = gemms[frame["cause"] == "data_wait"]
    assert [launch.verdict.cause for launch in waiting] == ["data_wait"] * len(waiting) != []
    slow = frame.sort_values("duration_ns", ascending=False).query("duration_ns > 2e5")
    assert [launch.label for launch in gemms[slow.index]] == slow["label"].tolist()
    assert [launch.label for launch in gemms[[False, True, False, False]]] == labels[1:2]


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        ("gemm(", "not a regular expression"),
        ("wgmma", "no kernel or label matches 'wgmma'"),
        ([0, 9], "no launch 9"),
        ([True], "a mask of 1 values for 4 launches"),
        ([0.5], "selects no launches"),
        ([[0]], "selects no launches"),
    ],
)
def test_a_wrong_choice_names_what_there_is(gemms: ncubble.ReportSet, chosen: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says.replace("(", r"\(")):
        gemms[chosen]
    with pytest.raises(IndexError, match="no launch 99: launches are 0 to 3"):
        gemms[99]


def test_an_empty_selection_says_so(gemms: ncubble.ReportSet) -> None:
    nothing = gemms[0:0]
    assert repr(nothing) == "0 launches of 0 reports"
    with pytest.raises(UsageError, match="no launch is chosen"):
        _ = nothing.launches


def test_what_a_user_writes_into_a_frame_stays_there(gemms: ncubble.ReportSet) -> None:
    for name in ("launches", "metrics", "source"):
        frame = getattr(gemms, name)
        before = frame.copy()
        frame.iloc[0, 1] = 77
        pd.testing.assert_frame_equal(getattr(gemms, name), before)
        own = getattr(gemms[0], name, None)
        if own is not None:
            own.iloc[0, 0] = 77
            pd.testing.assert_frame_equal(getattr(gemms, name), before)


def test_wide_and_parameters_have_a_row_per_launch(gemms: ncubble.ReportSet) -> None:
    wide = gemms.wide(["sm__cycles_elapsed.max", "no_such.counter"])
    assert list(gemms.wide("sm__cycles_elapsed.max").columns) == ["sm__cycles_elapsed.max"]
    assert wide["sm__cycles_elapsed.max"].tolist() == [launch.value("sm__cycles_elapsed.max") for launch in gemms]
    assert wide["no_such.counter"].isna().all()
    assert gemms.parameters["stages"].tolist() == [1, 2, 3, 6]


def test_launches_are_filtered_by_name_and_parameters(gemms: ncubble.ReportSet) -> None:
    assert [launch.parameters["stages"] for launch in gemms.filter("gemm", stages=3)] == [3]
    assert len(gemms.filter(stages=3, m=1)) == 0 and len(gemms.filter()) == 4
    with pytest.raises(UsageError, match="no launch has a parameter 'stage'") as refused:
        gemms.filter(stage=3)
    assert "stages" in refused.value.remedy


def test_the_tidy_frame_has_a_row_per_part_of_each_launch(gemms: ncubble.ReportSet) -> None:
    frame = gemms.tidy
    assert list(frame.columns[:7]) == ["number", "report", "launch", "label", "kernel", "device", "duration_ns"]
    sums = frame.groupby("stages")["pct"].sum()
    assert sums.index.tolist() == [1, 2, 3, 6] and sums.tolist() == pytest.approx([100.0] * 4)
    for number, launch in enumerate(gemms):
        own = frame[frame["number"] == number].set_index("part")["pct"]
        assert own[own > 0].to_dict() == {part: pct for part, pct in launch.account.items() if pct > 0}


def test_a_misspelt_counter_is_warned_of_with_the_nearest(gemms: ncubble.ReportSet) -> None:
    with pytest.warns(UserWarning, match=r"the metric 'sm__cycles_activ\.avg'; did you mean sm__cycles_active\.avg\?"):
        assert gemms.wide("sm__cycles_activ.avg").isna().all(axis=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gemms.wide(["sm__cycles_active.avg", "no__such_counter.sum"]).shape == (len(gemms), 2)


def test_texts_fit_a_terminal(many: ncubble.ReportSet) -> None:
    assert max(map(len, repr(many).splitlines())) <= 80
    assert "gemm_tma stages=1" in repr(many)


def test_names_are_no_markup_and_do_not_steer_the_terminal(hostile: ncubble.ReportSet) -> None:
    assert "<img src=x" in repr(hostile)
    compared = ncubble.compare(hostile[0], hostile[1])
    for thing in (hostile, hostile[0], hostile[0].verdict, compared):
        text = thing._repr_html_()
        assert not {"script", "img", "a", "u"} & tags(text), type(thing).__name__
        assert "\x1b" not in repr(thing)
    assert SCRIPTS[0] not in hostile._repr_html_()


def tags(text: str) -> set[str]:
    """The names of all elements of an HTML text."""
    found: set[str] = set()
    parser = html.parser.HTMLParser()
    parser.handle_starttag = lambda tag, _: found.add(tag)  # type: ignore[method-assign]
    parser.feed(text)
    return found


def test_launches_go_to_other_processes(gemms: ncubble.ReportSet, tmp_path: Path) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        (there,) = pool.map(_causes, [gemms])
    assert there == [launch.verdict.cause for launch in gemms]
    again = pickle.loads(pickle.dumps(gemms))  # noqa: S301 - its own
    assert len({id(launch.judged) for launch in again}) == len({id(launch.judged) for launch in gemms})
    pd.testing.assert_frame_equal(again.accounts, gemms.accounts)


def test_a_report_that_changed_since_it_was_pickled_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "report.ncu-repz"
    shutil.copy(ROOT / "gemm_tma/stages2/report.ncu-repz", place)
    kept = pickle.dumps(ncubble.load(place))
    shutil.copy(ROOT / "gemm_tma/stages3/report.ncu-repz", place)
    with pytest.raises(ReportError, match="has changed since it was pickled"):
        pickle.loads(kept)  # noqa: S301 - its own


def _causes(launches: ncubble.ReportSet) -> list[str]:
    return [launch.verdict.cause for launch in launches]


def _verdict_of(launch: ncubble.ReportLaunch) -> Any:
    return launch.verdict


def test_neither_reading_nor_another_process_changes_a_verdict() -> None:
    untouched = ncubble.load(GEMMS / "stages1")[0].verdict
    read = ncubble.load(GEMMS)
    launch = next(launch for launch in read if launch.label.endswith("stages=1"))
    assert len(read.launches) == len(read)
    assert launch.verdict == untouched
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(_verdict_of, launch).result() == untouched
