"""`ncubble streams` at the command line, with CUPTI played: what it prints, keeps and refuses."""

import json
import signal
import sys
from pathlib import Path

import pytest
import typer

from ncubble.analysis.streams.recording import read_raw
from ncubble.analysis.traces.lanes import read_lanes
from ncubble.api.streaming import traced_subject
from ncubble.chips import Version
from ncubble.cli import main as entry
from ncubble.cli import terminal
from ncubble.errors import UsageError
from ncubble.profiling import session
from ncubble.profiling.driver import Device, DriverError
from tests.helpers.stream_frames import Script
from tests.helpers.trace_reader import ViewerTrace

PLAYED = Path(__file__).resolve().parents[2] / "data" / "played_cupti"


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder to work in, with CUPTI played for programs that start from here."""
    monkeypatch.setenv("PYTHONPATH", str(PLAYED))
    monkeypatch.setattr(session, "describe", lambda: Device("NVIDIA H200", Version(9, 0), "580.82", Version(13, 0)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ncubble(*arguments: str) -> int:
    """The exit status of a command."""
    try:
        entry.main(["streams", *arguments])
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def program(text: str) -> list[str]:
    """What follows the options for a Python program."""
    return ["--recorder", "python", "--", sys.executable, "-c", text]


def test_a_program_is_recorded_shown_and_shown_again(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ncubble("--out", "run", "--json", *program("print('hello')")) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert err == "hello\n"
    assert told["devices"][0]["causes"][0]["cause"] == "allocation"
    lanes = read_lanes(played / "run")
    assert lanes.kind == "streams"
    assert set(lanes.rows["tag"]) == {"square", "wait: allocation stall"}
    assert lanes.facts["devices"][0]["causes"] == told["devices"][0]["causes"]
    manifest = json.loads((played / "run" / "run.json").read_text())
    assert manifest["argv"][:2] == ["python", "-c"]
    assert ncubble("--out", "run", *program("pass")) == 2
    assert ncubble("run", "--perfetto", "trace.pftrace") == 0
    assert "the host was in cudaMalloc" in capsys.readouterr().out.replace("\n", " ")
    viewed = ViewerTrace(played / "trace.pftrace")
    drawn = {slice_[2:5] for slice_ in viewed.slices if slice_[1].startswith("SMs")}
    assert drawn == {
        *(("square", 5_000, 15_000), ("square", 105_000, 115_000)),
        ("wait: allocation stall", 15_000, 105_000),
    }
    assert ncubble("run", "--perfetto", "nowhere/trace.pftrace") == 2
    assert "cudaMalloc" in {slice_[2] for slice_ in viewed.slices}


def test_a_failed_program_is_kept_and_ends_with_3(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (played / "run").mkdir()
    assert ncubble("--out", "run", "--force", *program("raise SystemExit(5)")) == 3
    assert "exit status 5" in capsys.readouterr().err
    assert json.loads((played / "run" / "run.json").read_text())["outcome"] == "failed"
    assert ncubble("run") == 0
    assert "exit status 5" in capsys.readouterr().out
    assert ncubble("--out", "kernel", "--recorder", "python", "stream_pipeline") == 3, "it needs a GPU"
    assert json.loads((played / "kernel" / "run.json").read_text())["outcome"] == "failed"


@pytest.mark.parametrize(
    ("text", "says", "remedy"),
    [
        ("pass", "no GPU activity of the program was recorded", "docs/streams.md, Limits"),
        (
            "raise SystemExit(5)",
            "the program failed with exit status 5, and had not used the GPU until then",
            "make it run without ncubble first",
        ),
    ],
)
def test_nothing_is_kept_where_nothing_was_recorded(
    played: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, says: str, remedy: str
) -> None:
    monkeypatch.setenv("PLAYED_CUPTI", "raises")
    assert ncubble("--out", "run", *program(text)) == 3
    told = capsys.readouterr().err
    assert says in told and remedy in told
    assert not (played / "run").exists()


def test_without_a_gpu_the_program_does_not_run(
    played: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none() -> Device:
        raise DriverError("no NVIDIA driver")

    monkeypatch.setattr(session, "describe", none)
    assert ncubble("--out", "run", *program("open('ran', 'w')")) == 3
    assert "no usable NVIDIA GPU: no NVIDIA driver\n  remedy: run on a machine" in capsys.readouterr().err
    assert not (played / "ran").exists()


def test_a_run_without_work_is_said_to_have_none(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (played / "run").mkdir()
    read_raw(played).write(played / "run")
    assert ncubble("run", "--perfetto", "trace.pftrace") == 3
    assert "no recordable process of the program used CUDA" in capsys.readouterr().err
    script = Script()
    script.kernel(0, 10, 20)
    script.call("cuProfilerStart", 30, 31)
    script.recording().write(played / "run")
    assert ncubble("run") == 3
    assert "--whole" in capsys.readouterr().err
    assert ncubble("run", "--whole") == 0


def test_a_closed_terminal_ends_the_program_unless_nohup_said_otherwise() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with pytest.raises(typer.Exit) as ended, terminal.ended_by_signals():
            signal.raise_signal(signal.SIGHUP)
        assert ended.value.exit_code == 129
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with terminal.ended_by_signals():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_requests_that_cannot_be_are_refused(played: Path) -> None:
    assert ncubble() == 2
    assert ncubble("stream_pipeline", *program("pass")) == 2
    assert ncubble("-p", "stages=2", *program("pass")) == 2
    assert ncubble("--warps", *program("pass")) == 2


def test_warps_are_traced_by_the_trace_command_in_the_program_that_is_recorded() -> None:
    subject = traced_subject("warp_pipeline", ["streams=2", "n=1048576"])
    assert list(subject.argv)[list(subject.argv).index("trace") :] == [
        *("trace", "warp_pipeline", "-p", "streams=2", "-p", "n=1048576", "--no-cost"),
    ]
    assert subject.label == "warp_pipeline-streams2-n1048576"
    with pytest.raises(UsageError, match="has no probe"):
        traced_subject("softmax_online")
