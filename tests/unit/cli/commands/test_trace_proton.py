"""`ncubble trace` of a trace that Triton's Proton wrote: a run directory like its own."""

import json

import pytest

from ncubble.analysis.traces.lanes import LaneRun, read_lanes
from ncubble.analysis.traces.run import read_warps
from ncubble.dashboard.pages.addresses import TimelinesAddress
from ncubble.dashboard.pages.timelines.layout import shown
from ncubble.errors import ReportError, UsageError
from tests.helpers.perfetto_reader import PerfettoTrace
from tests.helpers.proton_trace import kernel, scope, text
from tests.unit.cli.commands.test_trace import command


@pytest.fixture
def traced(tmp_path, monkeypatch):
    """A folder with a trace of two warps."""
    monkeypatch.chdir(tmp_path)
    scopes = [scope("kernel", 0, 100), scope("load", 10, 30, line=1), scope("wait_data", 0, 80, warp=1)]
    (tmp_path / "gemm.chrome_trace").write_text(text(scopes))
    return tmp_path


def test_it_becomes_a_folder_that_is_shown_again(traced):
    told = command("gemm.chrome_trace", "--out", "run", "--perfetto", "t.pftrace")
    assert "gemm.chrome_trace: matmul_kernel" in told
    assert "2 warps on 1 SM" in told
    assert "records neither dropped events" in told and "nothing was lost" not in told
    assert command("run") in told
    kind, lanes = read_lanes(LaneRun(traced / "run"))
    assert kind == "warps" and len(lanes) == 4
    assert len(PerfettoTrace(traced / "t.pftrace").slices) == 4
    drawn = str(shown(LaneRun(traced / "run"), TimelinesAddress()))
    assert "times within a CTA are cycles" in drawn
    assert json.loads(command("run", "--json"))["source"] == "Proton"
    with pytest.raises(ReportError, match="are not the regions of the probe"):
        read_warps(LaneRun(traced / "run"))
    assert "a section of the trace" in command("run", "--from", "0.02", "--to", "0.05")


def test_kernels_of_a_program_are_lanes_of_streams(traced):
    (traced / "p.chrome_trace").write_text(text([kernel("a", 0, 5), kernel("b", 3, 4, cat="scope", tid=1)]))
    told = command("p.chrome_trace", "--out", "streams", "--perfetto", "t.json")
    assert "Proton: kernels 1, intervals of scopes 1" in told
    assert read_lanes(LaneRun(traced / "streams"))[0] == "streams"
    assert json.loads((traced / "t.json").read_text())["traceEvents"]
    assert json.loads(command("p.chrome_trace", "--out", "again", "--json"))["intervals"] == 2
    with pytest.raises(UsageError) as refused:
        command("streams")
    assert refused.value.remedy == "ncubble dashboard streams"


def test_scopes_of_the_host_are_no_work_of_the_gpu(traced):
    (traced / "host.chrome_trace").write_text(text([kernel("step", 0, 5, cat="scope", tid=1)]))
    told = command("host.chrome_trace", "--out", "host")
    assert "kernels 0, intervals of scopes 1" in told and "no GPU work is in it" in told
    drawn = str(shown(LaneRun(traced / "host"), TimelinesAddress()))
    assert "No GPU work is in these 5.00 µs." in drawn
    assert "Work by group" not in drawn and "Nothing runs" not in drawn
    (traced / "both.chrome_trace").write_text(text([kernel("a", 0, 5), kernel("b", 0, 9, cat="scope", tid=1)]))
    assert "no GPU work" not in command("both.chrome_trace", "--out", "both")
    drawn = str(shown(LaneRun(traced / "both"), TimelinesAddress()))
    assert "Nothing runs for 44.4 % of 9.00 µs." in drawn, "what the host does is no overlap"


def test_what_it_cannot_read_leaves_nothing(traced):
    (traced / "p.hatchet").write_text("[]")
    with pytest.raises(ReportError, match="Hatchet"):
        command("p.hatchet", "--out", "run")
    with pytest.raises(UsageError, match="need a recorded folder"):
        command("gemm.chrome_trace", "--from", "1")
    (traced / "mine").mkdir()
    (traced / "mine" / "file").write_text("mine")
    with pytest.raises(UsageError):
        command("gemm.chrome_trace", "--out", "mine")
    assert sorted(path.name for path in traced.iterdir()) == ["gemm.chrome_trace", "mine", "p.hatchet"]
