"""SARIF, read by a second implementation of the format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sarif_pydantic

from ncubble.analysis.gate.annotations import sarif
from ncubble.cli.main import main
from ncubble.recordings import ROOT
from ncubble.text.markup import Finding, sarif_text
from tests.helpers.gate_frames import gemm, groups, recorded, report


def read(text: str) -> Any:
    """The one run of a document. What the format does not know would be missing from the copy."""
    found = sarif_pydantic.Sarif.model_validate_json(text)
    copy = json.loads(found.model_dump_json(by_alias=True, exclude_none=True, exclude_unset=True))
    assert copy == json.loads(text)
    (run,) = found.runs
    return run


def test_findings_have_their_rule_level_and_place() -> None:
    finding = Finding("issue", "warning", "a\x1b[2J\nb", "void k<int>()", "a b/ü.cu", 7)
    run = read(sarif_text([finding, Finding("tail", "note", "c", "k")], {"data_wait": "…", "issue": "…", "tail": "…"}))
    first, second = run.results
    assert [rule.id for rule in run.tool.driver.rules] == ["issue", "tail"]
    assert (first.rule_id, first.rule_index, first.level.value) == ("issue", 0, "warning")
    place = first.locations[0].physical_location
    assert (place.artifact_location.uri, place.region.start_line) == ("a%20b/%C3%BC.cu", 7)
    assert first.message.text == "a\N{REPLACEMENT CHARACTER}[2J b"
    assert second.locations[0].physical_location is None


def test_an_empty_document_is_valid() -> None:
    assert read(sarif_text([], {"issue": "…"})).results == []


def test_a_regression_is_an_error_and_a_kernel_without_baseline_a_warning() -> None:
    from ncubble.analysis.gate.check import check
    from ncubble.analysis.gate.verdicts import CheckOptions

    known = recorded(report(kernel=gemm(3)))
    reports = [report([40.0 + 0.01 * i for i in range(5)], kernel=gemm(3)), report(kernel=gemm(4), key="4" * 16)]
    run = read(sarif(check(groups(*reports), known, CheckOptions())))
    found = {result.rule_id: result for result in run.results}
    assert found["regression"].level.value == "error" and "43 -> 40.02" in found["regression"].message.text
    assert found["not-judged"].level.value == "warning"


def written(tmp_path: Path, *arguments: str) -> Any:
    file = tmp_path / "out.sarif"
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--sarif", str(file)])
    assert not ended.value.code or ended.value.code == 1
    return read(file.read_text())


def test_a_check_writes_the_line_that_moved(tmp_path: Path, repository: Path) -> None:
    regressed = str(repository / "recordings" / "h200-gate" / "wait_for_all_copies")
    run = written(tmp_path, "check", regressed, "--baseline", str(repository / "baselines"), "--no-history")
    (result,) = run.results
    place = result.locations[0].physical_location
    assert (place.artifact_location.uri, place.region.start_line) == ("kernels/cuda/gemm_mma_swizzled.cu", 191)


def test_other_files_are_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    with pytest.raises(SystemExit) as ended:
        main(["check", str(ROOT / "gemm_ws"), "--sarif", str(file)])
    assert ended.value.code == 2 and file.read_text() == "mine"
    assert "was not written by ncubble" in capsys.readouterr().err
