"""``ncubble advise``: the JSON, where the present depth comes from, and what a person sees."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ncubble.analysis.account import evidence as evidence_module
from ncubble.analysis.account.rings import rings_of
from ncubble.analysis.diagnosis.advise import Advice, advise, predict_sweep
from ncubble.analysis.report.report import Report
from ncubble.cli.advise import advise as command
from ncubble.errors import UsageError
from ncubble.recordings import ROOT

RUN = ROOT / "triton_gemm" / "stages3"


def _told(*arguments: str) -> str:
    """What the command prints."""
    import typer

    app = typer.Typer()
    app.command()(command)
    result = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"}).invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


@pytest.fixture(scope="module")
def advice() -> Advice:
    return advise(Report.open(RUN).launch(0))


def test_json_has_the_members_of_the_contract(advice: Advice) -> None:
    told = json.loads(_told(str(RUN), "--json"))
    assert list(told) == [
        "schema", "report", "launch", "label", "stages", "stages_from", "depths", "fixes", "notes",
    ]  # fmt: skip
    assert told == json.loads(json.dumps(advice.to_json()))
    assert (told["schema"], told["launch"], told["stages"], told["stages_from"]) == (1, 0, 3, "sass")
    assert list(told["depths"]) == [str(depth) for depth in range(1, 9)]
    for found in filter(None, told["depths"].values()):
        assert list(found) == ["tensor_elapsed_pct", "cycles", "low", "high"]
        assert found["low"] <= found["tensor_elapsed_pct"] <= found["high"]
    for fix in told["fixes"]:
        assert list(fix) == ["fix", "cause", "predicted_gain_pct", "low", "high"]


def test_the_present_depth_is_as_measured(advice: Advice) -> None:
    report = Report.open(RUN)
    present = advice.depths[3]
    assert present.cycles == report.launch(0).identity.cycles
    assert present.low == present.high == present.tensor_elapsed_pct
    assert predict_sweep(report.launch(0)) == advice.depths


def test_what_cannot_be_told_is_null_with_the_reason(advice: Advice) -> None:
    assert advice.depths[1] is None
    assert advice.depths[8] is None
    notes = "\n".join(advice.notes)
    assert "depth 1: not identified, because the compiler" in notes
    assert "depth 8: more shared memory than the 232448 B" in notes
    assert "leaves 1 instead of 2 CTAs per SM at depths 4, 5, 6 and 7" in notes


def test_a_given_depth_overrules(advice: Advice) -> None:
    told = advise(Report.open(RUN).launch(0), stages=2)
    assert (told.stages, told.stages_from) == (2, "given")
    assert told.depths[2].cycles == advice.depths[3].cycles


def test_where_nothing_tells_the_depth_it_asks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "bare.ncu-repz"
    shutil.copy(ROOT / "gemm_ws" / "default" / "report.ncu-repz", file)
    read = advise(Report.open(file).launch(0))
    assert (read.stages, read.stages_from) == (4, "sass")
    assert read.depths[5] is None  # its ring already takes all shared memory
    monkeypatch.setattr(
        evidence_module, "rings_of", lambda *given: [replace(ring, stages=None) for ring in rings_of(*given)]
    )
    told = advise(Report.open(file).launch(0))
    assert (told.stages, told.stages_from) == (None, None)
    assert not any(told.depths.values())
    assert "--stages" in told.notes[0]
    declared = advise(Report.open(ROOT / "gemm_ws" / "default").launch(0))
    assert (declared.stages, declared.stages_from) == (4, "manifest")
    given = advise(Report.open(file).launch(0), stages=4)
    assert given.depths == read.depths


def test_a_manifest_that_differs_from_the_code_is_named() -> None:
    """A GEMM of four buffers whose loop waits for all copies is as deep as two."""
    told = advise(Report.open(ROOT.parent / "h200-gate" / "wait_for_all_copies").launch(0))
    assert (told.stages, told.stages_from) == (2, "sass")
    assert any("the manifest says 4" in note for note in told.notes)


def test_kernels_that_memory_bounds_have_no_depth() -> None:
    told = advise(Report.open(ROOT / "softmax_online" / "default").launch(0))
    assert not any(told.depths.values())
    assert "dram is its busiest unit" in told.notes[0]


def test_fixes_gain_at_most_their_part(advice: Advice) -> None:
    assert advice.fixes
    assert all(0.0 <= fix.low <= fix.predicted_gain_pct <= fix.high <= 100.0 for fix in advice.fixes)


def test_text_for_a_person(advice: Advice) -> None:
    text = _told(str(RUN))
    assert max(map(len, text.splitlines())) <= 80
    assert "depth 3, from its code" in " ".join(text.split())
    row = next(line for line in text.splitlines() if line.strip().startswith("2 "))
    assert f"{advice.depths[2].tensor_elapsed_pct:.1f}" in row
    assert "see notes" in next(line for line in text.splitlines() if line.strip().startswith("8 "))


def test_several_launches_need_a_number() -> None:
    with pytest.raises(UsageError, match="5 launches, but advice is for one"):
        _told(str(RUN.parent))


def test_launches_that_are_not_there_are_refused() -> None:
    with pytest.raises(UsageError, match="no launch 7"):
        advise(Report.open(RUN).launch(7))
