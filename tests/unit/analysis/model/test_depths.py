"""``ncubble report --depths``: its JSON, where the present depth comes from, what a person sees."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ncubble.analysis.account import evidence as evidence_module
from ncubble.analysis.account.rings import rings_of
from ncubble.analysis.model.depths import Depths, depths_of, predict_all
from ncubble.analysis.model.pipeline import pipeline_of
from ncubble.analysis.report.report import Report
from ncubble.cli.main import main
from ncubble.errors import UsageError
from ncubble.recordings import H100, ROOT

RUN = ROOT / "triton_gemm" / "stages3"


def _printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["report", *arguments])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def known() -> Depths:
    return depths_of(Report.open(RUN).launch(0))


def test_json_has_the_members_of_the_contract(known: Depths, capsys: pytest.CaptureFixture[str]) -> None:
    (launch,) = json.loads(_printed(capsys, str(RUN), "--depths", "--json"))["launches"]
    told = launch["depths"]
    assert list(told) == ["stages", "stages_from", "predicted", "notes"]
    assert told == json.loads(json.dumps(known.to_json()))
    assert (told["stages"], told["stages_from"]) == (3, "sass")
    assert list(told["predicted"]) == [str(depth) for depth in range(1, 9)]
    for found in filter(None, told["predicted"].values()):
        assert list(found) == ["tensor_elapsed_pct", "cycles", "low", "high"]
        assert found["low"] <= found["tensor_elapsed_pct"] <= found["high"]


def test_the_present_depth_is_as_measured(known: Depths) -> None:
    report = Report.open(RUN)
    present = known.predicted[3]
    assert present.cycles == report.launch(0).identity.cycles
    assert present.low == present.high == present.tensor_elapsed_pct
    assert predict_all(pipeline_of(report.launch(0))) == known.predicted


def test_what_cannot_be_told_is_null_with_the_reason(known: Depths) -> None:
    assert known.predicted[1] is None
    assert known.predicted[8] is None
    notes = "\n".join(known.notes)
    assert "depth 1: not identified, because the compiler" in notes
    assert "depth 8: more shared memory than the 227 KiB" in notes
    assert "leaves 1 instead of 2 CTAs per SM at depths 4, 5, 6 and 7" in notes


def test_a_given_depth_overrules(known: Depths) -> None:
    told = depths_of(Report.open(RUN).launch(0), stages=2)
    assert (told.stages, told.stages_from) == (2, "given")
    assert told.predicted[2].cycles == known.predicted[3].cycles


def test_where_nothing_tells_the_depth_it_asks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "bare.ncu-repz"
    shutil.copy(ROOT / "gemm_ws" / "default" / "report.ncu-repz", file)
    read = depths_of(Report.open(file).launch(0))
    assert (read.stages, read.stages_from) == (4, "sass")
    assert read.predicted[5] is None  # its ring already takes all shared memory
    monkeypatch.setattr(
        evidence_module, "rings_of", lambda *given: [replace(ring, stages=None) for ring in rings_of(*given)]
    )
    told = depths_of(Report.open(file).launch(0))
    assert (told.stages, told.stages_from) == (None, None)
    assert not any(told.predicted.values())
    assert "--stages" in told.notes[0]
    declared = depths_of(Report.open(ROOT / "gemm_ws" / "default").launch(0))
    assert (declared.stages, declared.stages_from) == (4, "manifest")
    given = depths_of(Report.open(file).launch(0), stages=4)
    assert given.predicted == read.predicted


def test_a_manifest_that_differs_from_the_code_is_named() -> None:
    """A GEMM of four buffers whose loop waits for all copies is as deep as two."""
    told = depths_of(Report.open(ROOT.parent / "h200-gate" / "wait_for_all_copies").launch(0))
    assert (told.stages, told.stages_from) == (2, "sass")
    assert any("the manifest says 4" in note for note in told.notes)


def test_kernels_that_memory_bounds_have_no_depth() -> None:
    told = depths_of(Report.open(H100 / "softmax_online" / "default").launch(0))
    assert not any(told.predicted.values())
    assert "dram is its busiest unit" in told.notes[0]


def test_text_for_a_person(known: Depths, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = _printed(capsys, str(RUN), "--depths")
    assert max(map(len, text.splitlines())) <= 80
    assert "now 3, from its code" in text
    row = next(line for line in text.splitlines() if line.strip().startswith("2 "))
    assert f"{known.predicted[2].tensor_elapsed_pct:.1f}" in row
    assert "see notes" in next(line for line in text.splitlines() if line.strip().startswith("8 "))


def test_the_depths_of_every_launch_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert _printed(capsys, str(RUN.parent), "--depths").count("other depths") == 5
    told = json.loads(_printed(capsys, str(RUN), "--depths", "--stages", "2", "--json", "--brief"))["launches"][0]
    assert told["depths"]["stages"] == 2 and set(told["depths"]["busy_from_to_cycles"]["3"]) != {None}


def test_a_present_depth_needs_depths(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["report", str(RUN), "--stages", "2"])
    assert "--stages without --depths" in capsys.readouterr().err


def test_launches_that_are_not_there_are_refused() -> None:
    with pytest.raises(UsageError, match="no launch 7"):
        depths_of(Report.open(RUN).launch(7))
