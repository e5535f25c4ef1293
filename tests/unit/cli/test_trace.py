"""``ncubble trace``: folders that are shown and cut, programs with the probe, what is refused."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

import ncubble
from ncubble.analysis.traces.lanes import Lanes, read_lanes
from ncubble.analysis.traces.probe import traced_lanes
from ncubble.cli.command import WithProgram
from ncubble.cli.trace import trace
from ncubble.errors import MeasurementError, ReportError, UsageError
from ncubble.recordings import ROOT
from tests.helpers.probe_dumps import STEPS, dump, pipeline, warp
from tests.helpers.trace_reader import ViewerTrace


def command(*argv: str) -> str:
    """What ``ncubble trace`` prints; raises what it raises."""
    app = typer.Typer()
    app.command(cls=WithProgram)(trace)
    return CliRunner().invoke(app, argv, catch_exceptions=False).stdout


def test_a_stretch_of_a_trace_is_cut_and_its_numbers_are_its_own(tmp_path):
    found = pipeline()
    (tmp_path / "whole").mkdir()
    traced_lanes(found, {"argv": ["relay"]}).save(tmp_path / "whole")
    folder = str(tmp_path / "whole")
    cut = ncubble.trace(folder, section_us=(0.21, 0.4), out=tmp_path / "cut")
    assert cut.facts.cut_ns == (210, 400)
    assert cut.facts.span_ns == pytest.approx(190)
    assert cut.facts.busy_pct["compute"] == pytest.approx(100 * 180 / 190)
    kept = read_lanes(tmp_path / "cut")
    assert kept.facts == json.loads(json.dumps({**cut.lanes.facts}))
    assert (kept.rows["start_ns"].min(), kept.rows["end_ns"].max()) == (210, 400)
    with pytest.raises(UsageError, match="nothing lies between"):
        ncubble.trace(folder, section_us=(9, 10))
    with pytest.raises(UsageError, match="only shown"):
        command(folder, "--out", str(tmp_path / "copy"))


@pytest.mark.parametrize("told", [{}, {"span_ns": "x"}, {"span_ns": 1.0, "clock": None}, {"shares": 3}])
def test_a_folder_whose_numbers_are_damaged_is_refused(told, tmp_path):
    Lanes("warps", traced_lanes(pipeline(), {}).rows, told).save(tmp_path)
    with pytest.raises(ReportError, match="missing or damaged"):
        command(str(tmp_path))


def test_lanes_of_streams_are_no_trace(tmp_path):
    Lanes("streams", traced_lanes(pipeline(), {}).rows).save(tmp_path)
    for shows in ("dashboard", "streams"):  # the latter where there is activity to judge
        with pytest.raises(UsageError) as refused:
            command(str(tmp_path))
        assert refused.value.remedy.startswith(f"ncubble {shows}")
        (tmp_path / "activity.parquet").touch()
    (tmp_path / "none").mkdir()
    with pytest.raises(UsageError, match="holds no trace"):
        command(str(tmp_path / "none"))


def test_the_command_shows_a_folder_again(tmp_path):
    found = pipeline()
    traced_lanes(found, {"argv": ["relay"]}).save(tmp_path)
    text = command(str(tmp_path), "--perfetto", str(tmp_path / "t.json"))
    assert "copy in flight" in text
    assert "nothing was lost" in text
    assert {thread for _, thread, *_ in ViewerTrace(tmp_path / "t.json").slices} >= {"CTA 0 loader warp 0"}


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "name a catalog kernel"),
        (["softmax_online"], "has no probe"),
        (["gemm_ws", "--", "x"], "name a catalog kernel"),
        (["-p", "a=b", "--", "true"], "are for catalog kernels"),
        (["--", "no-such-program"], "no such program"),
        (["--", "/dev/null"], "cannot start '/dev/null'"),
        (["--timeout", "0", "--", "true"], "not a positive number"),
        (["tensor_core_gemm", "--perfetto", "nowhere/t.json"], "no file in a folder that exists"),
        (["--perfetto", ".", "--", "true"], "no file in a folder that exists"),
    ],
)
def test_what_cannot_be_traced_is_refused(argv, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=said):
        command(*argv)


def test_a_program_that_records_nothing_is_told_how(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MeasurementError) as refused:
        command("--", "true")
    assert "BUBBLE_PROBE" in refused.value.remedy


def test_a_program_that_runs_past_its_time_is_ended(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MeasurementError, match="exceeded --timeout"):
        command("--timeout", "0.2", "--", "sleep", "60")


def test_a_program_is_traced_by_what_it_wrote(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recorded").write_bytes(dump([warp(STEPS, 0, 1200)]))
    script = 'cp recorded "$NCUBBLE_TRACE"; test "$NCUBBLE_TRACE_SMS" = 7'
    told = json.loads(command("--sms", "7", "--out", "out", "--json", "--", "sh", "-c", script))
    assert told["warps"] == 1
    assert read_lanes(tmp_path / "out").rows["tag"].nunique() == 4


def test_shares_of_what_overlaps_stand_below_each_other(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = command(str(ROOT.parent / "h200-lanes/trace-gemm_ws")).splitlines()
    rows = [line for line in shown if " + " in line and line.endswith("%")]
    assert len(rows) > 5 and {len(line) for line in rows} == {len(rows[0])} and len(rows[0]) <= 80
