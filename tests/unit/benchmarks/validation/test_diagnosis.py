"""Scores of causes and gains: on fabricated verdicts, and on recorded runs with fabricated
labels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.blocks import fill
from benchmarks.validation import page
from benchmarks.validation.diagnosis import (
    diagnosis_notes,
    diagnosis_tables,
    gain_errors,
    judged,
    nsight,
    said,
    score_diagnosis,
    scores,
)
from ncubble.analysis.changes.change import Change
from ncubble.analysis.diagnosis.diagnose import launch_verdict
from ncubble.analysis.report.report import Report
from ncubble.errors import ReportError
from ncubble.profiling.runs import Run
from ncubble.recordings import ROOT


def row(cause: str, *expected: str, **more: Any) -> dict[str, Any]:
    blank = dict.fromkeys(("gain_pct", "predicted_gain_pct", "nsight_global_pct", "nsight_any_pct", "kind"))
    wanted = {"name": "launch", "set": "planted", "parts": list(expected), "kinds": more.pop("kinds", [])}
    return judged(wanted, {**blank, "cause": cause, "first": more.pop("first", cause), **more})


def test_any_admitted_part_is_right_and_what_was_said_instead_is_listed() -> None:
    rows = [row("tail", "tail", "ramp", first="slow_path"), row("issue", "tail"), row("none", "none")]
    found = scores(rows)
    assert (found["launches"], found["right"], found["first_right"]) == (3, 2, 1)
    assert found["top1_pct"] == pytest.approx(200 / 3)
    assert found["confused"] == [{"name": "launch", "expected": ["tail"], "said": "issue"}]
    assert found["targets"]["top1_pct"] == {"limit": 95.0, "at_least": True, "met": False}
    assert scores(rows[::2])["targets"]["top1_pct"]["met"]


def test_kinds_are_judged_where_a_pair_names_them() -> None:
    found = scores(
        [
            row("tail", "tail", kinds=["ctas"], kind="ctas"),
            row("tail", "tail", kinds=["ctas", "none"], kind="epilogue"),
            row("tail", "tail", kind="ctas"),
        ]
    )
    assert (found["kinds"], found["kinds_right"]) == (2, 1), "labels of foreign launches do not tell"


def test_what_was_not_planted_stands_beside_what_was() -> None:
    verdict = launch_verdict(Report.open(ROOT / "tensor_core_gemm" / "stages1").launch(0))
    path = Change(kind="path", part="slow_path", text="use wgmma")
    waits, blocked = (Change(kind="stages", part="data_wait", text="more", blocked=why) for why in ("", "no room"))
    for changes, parts, cause in (
        ([path, waits], ["data_wait"], "data_wait"),
        ([path, waits], ["slow_path"], "slow_path"),
        ([Change(kind="none"), path], ["data_wait"], "none"),
        ([Change(kind="none"), blocked], ["data_wait"], "none"),
        ([], ["data_wait"], "unknown"),
    ):
        assert said(replace(verdict, changes=changes), parts).cause == cause


def within(gain: float, off: float) -> dict[str, float]:
    return {"predicted_gain_pct": gain, "predicted_low_pct": gain - off, "predicted_high_pct": gain + off}


def test_errors_of_gains_count_silence_apart() -> None:
    rows = [
        row("tail", "tail", gain_pct=20.0, **within(26.0, 10.0), nsight_global_pct=50.0),
        row("tail", "tail", gain_pct=40.0, **within(30.0, 5.0)),
        row("tail", "tail", gain_pct=30.0),
        row("tail", "tail", gain_pct=-3.0, **within(50.0, 60.0)),
        row("none", "none"),
    ]
    found = gain_errors(rows, "predicted_gain_pct")
    assert found == {"measured": 3, "told": 2, "median_abs": 8.0, "worst_abs": 10.0, "silent_abs": 10.0}
    assert gain_errors(rows, "nsight_global_pct")["silent_abs"] == 30.0
    assert scores(rows)["targets"]["gain"]["met"] and scores(rows)["in_interval_pct"] == 50.0


def test_without_an_estimate_no_target_is_met() -> None:
    found = scores([row("tail", "tail", gain_pct=1.0)])
    assert found["in_interval_pct"] is None
    assert found["gains"]["ours"]["median_abs"] is None and not found["targets"]["gain"]["met"]


def test_the_largest_estimate_of_a_rule_counts() -> None:
    pairs = [(25.0, "global"), (75.0, "local"), (30.0, "global"), (float("nan"), ""), (None, "")]
    rules = [{"speedup_pct": pct, "speedup_kind": kind} for pct, kind in pairs]
    assert nsight(rules) == {"nsight_global_pct": 30.0, "nsight_any_pct": 75.0}
    assert nsight(rules[1:2]) == {"nsight_global_pct": None, "nsight_any_pct": 75.0}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Recorded runs with labels as ``--measure`` and the experiments write them."""
    folder = tmp_path_factory.mktemp("diagnosis")
    sick = {"run": str(ROOT / "gemm_tma" / "stages1"), "launch": 0}
    pair = {"name": "single_buffer", "parts": ["data_wait"], "kinds": [], "what": "more slots"}
    rules = [{"speedup_pct": 12.0, "speedup_kind": "global"}]
    pairs = [
        {
            **pair,
            "kinds": ["stages"],
            "sick": sick,
            "cured": sick,
            "sick_cycles": [1000.0, 1020.0],
            "cured_cycles": [600.0, 612.0],
        },
        {
            **pair,
            "name": "control",
            "sick": sick,
            "nsight": rules,
            "cured": None,
            "sick_cycles": [1.0],
            "cured_cycles": None,
        },
        {**pair, "name": "lost", "sick": {"run": "gone", "launch": 0}, "sick_cycles": [1.0]},
    ]
    (folder / "planted.json").write_text(json.dumps({"device": {"name": "GPU"}, "pairs": pairs}))
    (folder / "foreign").mkdir()
    triton = {"experiment": "gemm_s1", "report": str(ROOT / "triton_gemm" / "stages1"), "launch": 0}
    rules = [{"speedup_pct": 44.0, "speedup_kind": "global"}]
    gain = {"change": "stages2", "gain_pct": 34.0}
    experiments = [
        {**triton, "label": ["issue"], "gain": gain, "nsight": rules},
        {**triton, "experiment": "unlabelled", "label": [], "gain": None, "nsight": None},
    ]
    (folder / "foreign" / "labels.json").write_text(json.dumps({"experiments": experiments}))
    (folder / "second").mkdir()
    again = {**triton, "experiment": "gemm_again", "label": ["data_wait"], "gain": gain, "nsight": None}
    worse = {**again, "experiment": "gemm_worse", "gain": {"change": "stages1", "gain_pct": -36.5}}
    later = {"device": {"name": "GPU"}, "git": {"sha": "0123456789abcdef"}, "experiments": [again, worse]}
    (folder / "second" / "labels.json").write_text(json.dumps(later))
    return score_diagnosis(folder)


def test_recorded_launches_are_judged_by_their_labels(result: dict[str, Any]) -> None:
    single, control, triton, again, _ = result["launches"]
    assert single["right"] and single["kind_right"] and single["gain_pct"] == pytest.approx(40.0)
    assert 20.0 < single["share_pct"] < 60.0 and single["nsight_global_pct"] is not None
    assert control["gain_pct"] is None and control["nsight_global_pct"] == 12.0, "from the run with all sections"
    assert (again["set"], again["right"]) == ("second", True) and again["nsight_global_pct"] not in (None, 44.0)
    assert (triton["cause"], triton["right"], triton["kind_right"]) == ("data_wait", False, None)
    assert triton["nsight_global_pct"] == 44.0, "from the run with all sections, not from the base launch"
    assert list(result["unscored"]) == ["lost", "unlabelled"]


def test_its_tables_have_a_row_for_each_set_and_name_what_is_not_scored(result: dict[str, Any]) -> None:
    tables = {table.name: table for table in diagnosis_tables(result)}
    assert [line[-1] for line in tables["scores"].rows] == ["1 of 1", "–", "–"]
    assert {len(line) for line in tables["gains"].rows} == {len(tables["gains"].header)}
    assert [line[0] for line in tables["scores"].rows] == ["planted, fitted", "foreign, fitted", "foreign, unseen"]
    assert [line[2] for line in tables["gains"].rows if line[1] == "ours"] == ["1", "1", "1"], "one of two cures cures"
    notes = diagnosis_notes(result)
    assert "its experiment found no cause" in notes[4] and "gemm_worse" in notes[5] and "gained -36.5 %" in notes[5]


def test_every_set_names_the_commits_of_its_runs_and_not_that_of_its_labels(result: dict[str, Any]) -> None:
    commits = {name: told["commits"] for name, told in result["origins"].items()}
    assert commits == {name: [sha_of(run)] for name, run in {**SICK, "second": SICK["foreign"]}.items()}
    assert not {"git", "started"} & {*result, *result["origins"]["second"]}
    origin = page.blocks(result, [], diagnosis_notes(result))["diagnosis-origin"]
    assert origin.startswith("- planted, fitted: ") and "\n- foreign, unseen: Measured on GPU on " in origin
    assert f"on {started(SICK['planted'])}, by commit {commits['planted'][0][:12]}." in origin


SICK = {"planted": ROOT / "gemm_tma" / "stages1", "foreign": ROOT / "triton_gemm" / "stages1"}


def sha_of(run: Path) -> str:
    return str(Run.load(run).manifest.git["sha"])


def started(run: Path) -> str:
    return Run.load(run).manifest.started[:10]


def test_the_page_has_a_place_for_each_of_its_tables(result: dict[str, Any], repository: Path) -> None:
    text = (repository / "docs" / "validation" / page.PAGE).read_text()
    filled = fill(text, page.blocks(result, diagnosis_tables(result), diagnosis_notes(result)))
    assert all(f"| {' | '.join(table.rows[0])} |" in filled for table in diagnosis_tables(result))


@pytest.mark.parametrize(
    ("content", "message"), [(None, "contains neither"), ("{", "not JSON"), ("[]", "not a JSON object")]
)
def test_recordings_that_are_missing_or_damaged_are_named(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "planted.json").write_text(content)
    with pytest.raises(ReportError, match=message):
        score_diagnosis(tmp_path)
