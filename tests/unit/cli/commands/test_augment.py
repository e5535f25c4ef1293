"""`ncubble augment` at the command line: what it prints, writes and refuses."""

import json

import pytest

from benchmarks.streams import kineto_layout
from benchmarks.streams.kineto_layout import NVJET
from ncubble.analysis.streams import recording as records
from ncubble.cli import main as entry
from ncubble.recordings import LANES, RANKS


@pytest.fixture
def step(monkeypatch, tmp_path):
    """A folder to work in, with a trace of recorded kernels."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    text = kineto_layout.trace(kineto_layout.recorded(records.read(LANES / "streams-torch").rows))
    (tmp_path / "step.json").write_text(text)
    return tmp_path


def ncubble(*arguments):
    """The exit status of a command."""
    try:
        entry.main(["augment", *map(str, arguments)])
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_kernels_are_listed_by_time_with_what_they_are_matched_by(step, capsys):
    assert ncubble("step.json", RANKS / "rank0", "--limit", 2) == 0
    out = capsys.readouterr().out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert "nvjet_sm90" in out.splitlines()[1]
    assert "and 4 more" in out
    assert "matched           26" in out
    assert "no launch with this name" in out
    assert out.splitlines()[-1] == "step.ncubble.json"
    assert json.loads((step / "step.ncubble.json").read_text())["traceEvents"]


def test_two_ranks_are_told_apart_by_time(step, capsys):
    assert ncubble("step.json", RANKS, "--json", "--out", "o.json.gz") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["outcomes"]["matched by time"]["kernels"] == 26
    first = told["kernels"][0]
    assert first["name"] == NVJET and first["launch"].endswith("rank0#2")
    assert (step / "o.json.gz").read_bytes()[:2] == b"\x1f\x8b"


def test_nothing_matched_is_no_success(step, capsys):
    (step / "other.json").write_text(kineto_layout.trace([kineto_layout.kernel("void k<[red]>()", 1, 2)]))
    assert ncubble("other.json", RANKS / "rank0") == 3
    assert "not profiled" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["none.json", RANKS], 2, "none.json: no such file"),
        (["step.json", "nowhere"], 2, "nowhere: no such file"),
        ([".", RANKS], 2, "not a file"),
        (["step.json", RANKS, "--out", "step.json", "--force"], 2, "is the trace itself"),
        (["step.json", RANKS, "--out", "there.json"], 2, "there.json exists"),
        (["step.json", RANKS, "--out", "no/such.json"], 2, "no such directory"),
        (["step.json", RANKS, "--out", "."], 2, "is a directory"),
        (["step.json", RANKS, "--dashboard", "javascript:x"], 2, "not the address of a dashboard"),
        (["step.json", "empty"], 3, "no report found"),
        (["step.json", "damaged.ncu-rep"], 3, "damaged.ncu-rep"),
        (["cut.json", RANKS / "rank0"], 3, "cut.json: invalid JSON at character"),
    ],
)
def test_what_is_refused_leaves_nothing(step, capsys, arguments, status, said):
    (step / "there.json").write_text("mine")
    (step / "empty").mkdir()
    (step / "damaged.ncu-rep").write_bytes(b"NVR\0damaged")
    (step / "cut.json").write_text((step / "step.json").read_text()[:5000])
    before = sorted(path.name for path in step.iterdir())
    assert ncubble(*arguments) == status
    assert said in capsys.readouterr().err
    assert sorted(path.name for path in step.iterdir()) == before
    assert (step / "there.json").read_text() == "mine"


def test_a_report_that_cannot_be_read_is_named_and_the_others_count(step, capsys):
    (step / "damaged.ncu-rep").write_bytes(b"NVR\0damaged")
    assert ncubble("step.json", RANKS / "rank0", "damaged.ncu-rep") == 3
    printed = capsys.readouterr()
    assert "damaged.ncu-rep" in printed.err
    assert "matched           26" in printed.out
    assert (step / "step.ncubble.json").is_file()
