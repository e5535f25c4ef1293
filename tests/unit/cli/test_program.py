"""`ncubble program` at the command line, with CUPTI and ncu played: what it runs, keeps and says.

Both play a training: steps of two products whose launches are those of recordings/h200-ranks/rank0,
and a reduction that the report does not hold.
"""

import json
import sys
from pathlib import Path

import pytest

import ncubble as ncubble_library
from benchmarks.streams import kineto_layout
from benchmarks.streams.kineto_layout import NVJET
from ncubble.analysis.streams import recording as records
from ncubble.cli import main as entry
from ncubble.errors import UsageError
from ncubble.profiling import doctor, session
from ncubble.profiling.driver import Device, DriverError
from ncubble.profiling.failures import CounterPermission
from ncubble.recordings import LANES, PROGRAM, RANKS
from tests.helpers.fake_machine import install
from tests.helpers.recorded_programs import program_of
from tests.helpers.stream_frames import Script
from tests.helpers.trace_reader import ViewerTrace

DATA = Path(__file__).resolve().parents[2] / "data"
REPORT = Path(__file__).resolve().parents[3] / "recordings/h200-ranks/rank0/report.ncu-repz"
FIRST, SECOND = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_NTN"
SCRIPT = f"""
import os, sys
with open(os.environ["PLAYED_LAUNCHES"], "a") as file:
    for step in range(6):
        file.write("{FIRST}\\n{SECOND}\\n_Z6reducePf\\n")
print("trained")
"""


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder to work in, with CUPTI and ncu played for programs that start from here."""
    import zstandard

    install(monkeypatch, tmp_path, "played_ncu", " -SE")
    (tmp_path / "rank0.ncu-rep").write_bytes(zstandard.ZstdDecompressor().decompress(REPORT.read_bytes()))
    for name, value in {
        "PYTHONPATH": str(DATA / "played_cupti"),
        "PLAYED_CUPTI": "training",
        "PLAYED_LAUNCHES": str(tmp_path / "launches"),
        "PLAYED_REPORT": str(tmp_path / "rank0.ncu-rep"),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "nobody")
    monkeypatch.setattr(doctor, "counter_permission", lambda: CounterPermission(None, None, False))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ncubble(*arguments: str) -> int:
    """The exit status of a command."""
    try:
        entry.main(list(arguments))
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def training(*options: str, script: str = SCRIPT) -> int:
    """Records and profiles the training into ``run``."""
    return ncubble("program", "--out", "run", *options, "--recorder", "python", "--", sys.executable, "-c", script)


def test_a_training_is_recorded_profiled_and_accounted_for(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert training("--json") == 0
    told = json.loads(capsys.readouterr().out)
    (device,) = told["devices"]
    assert device["rule"] == "4 repetitions of 3 launches; 1 slower before them left out"
    assert device["span_us"] == 4000.0
    assert sum(part["pct"] for part in device["parts"]) == pytest.approx(100.0)
    assert [kernel["pct"] for kernel in device["kernels"]] == pytest.approx([34.0, 33.6, 3.0], abs=0.3)
    assert [kernel["launch"] for kernel in device["kernels"]] == ["run#0", "run#1", None]
    assert device["kernels"][0]["profiled_over_median"] == pytest.approx(1.0, abs=0.01)
    assert {one["range"] for one in device["ranges"]} == {"step", "step/mine@forward"}
    # Of the time of kernels, 95 % are asked for: the reduction need not be profiled.
    assert told["selected"] == {"kernels": 2, "invocation": 2, "pct": pytest.approx(95.7, abs=0.1)}
    assert told["failed"] is None
    assert told["recorded_s"] > 0 < told["profiled_s"]
    kept = sorted(path.name for path in (played / "run").iterdir())
    assert kept == ["activity.parquet", "lanes.parquet", "program.json", "report.ncu-repz", "run.json"]
    manifest = json.loads((played / "run" / "run.json").read_text())
    assert f"::regex:^({FIRST}|{SECOND})$:2" in manifest["ncu_argv"]
    assert "run/report" in manifest["ncu_argv"]


def test_its_directory_is_a_run_for_other_commands_too(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert training() == 0
    first = capsys.readouterr()
    assert "trained" in first.err
    assert ncubble("program", "run") == 0
    again = capsys.readouterr().out
    assert first.out == again
    assert all(len(line) <= 80 for line in again.splitlines())
    assert ncubble("report", "run") == 0
    assert "nvjet" in capsys.readouterr().out
    assert ncubble("streams", "run", "--whole", "--json") == 0
    assert json.loads(capsys.readouterr().out)["devices"][0]["kernels"] == 19
    assert training() == 2
    assert training("--force") == 0


def test_a_range_is_accounted_for_and_may_be_chosen_later(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert training("--nvtx", "step", "--json") == 0
    assert json.loads(capsys.readouterr().out)["devices"][0]["windows"] == 5
    assert ncubble("program", "run", "--nvtx", "mine@forward", "--json") == 0
    told = json.loads(capsys.readouterr().out)["devices"][0]
    assert told["rule"] == "6 ranges 'mine@forward'"
    assert ncubble("program", "run", "--nvtx", "backward") == 3
    assert "ranges that were recorded: 'step', 'mine@forward'" in capsys.readouterr().err
    assert ncubble("program", "run", "--json") == 0
    assert json.loads(capsys.readouterr().out)["devices"][0]["windows"] == 5


def test_a_range_that_never_came_costs_no_recording(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert training("--nvtx", "backward", "--json") == 3
    shown = capsys.readouterr()
    assert json.loads(shown.out)["devices"][0]["repeats"] == 4
    assert "no range is named 'backward'" in shown.err
    assert (played / "run" / "activity.parquet").is_file()


@pytest.mark.parametrize(
    ("lacks", "says"),
    [
        ("gpu", "no usable NVIDIA GPU: no NVIDIA driver"),
        ("ncu", "is not usable as ncu"),
        ("permission", "ERR_NVGPUCTRPERM: RmProfilingAdminOnly is 1"),
    ],
)
def test_nothing_runs_where_a_tool_is_known_to_be_missing(
    played: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lacks: str, says: str
) -> None:
    def none() -> Device:
        raise DriverError("no NVIDIA driver")

    if lacks == "gpu":
        monkeypatch.setattr(session, "describe", none)
    elif lacks == "ncu":
        monkeypatch.setenv("NCUBBLE_NCU", "/no/ncu")
    else:
        monkeypatch.setattr(doctor, "counter_permission", lambda: CounterPermission(True, False, True))
    assert training() == 3
    told = capsys.readouterr().err
    assert says in told
    assert ("--cover 0 shows the time between kernels" in told) is (lacks != "gpu")
    assert not (played / "launches").exists()
    assert training("--cover", "0", "--json") == (3 if lacks == "gpu" else 0)
    if lacks != "gpu":
        recorded = json.loads(capsys.readouterr().out)
        assert recorded["profiled_s"] is None
        assert recorded["devices"][0]["kinds"].keys() == {"between", "unprofiled"}
        assert (played / "launches").read_text().count(SECOND) == 6


@pytest.mark.parametrize("wrong", [("--cover", "101"), ("--recorder", "nsys"), ("--timeout", "0")])
def test_a_wrong_option_is_refused_before_the_program_runs(played: Path, wrong: tuple[str, str]) -> None:
    command = ["program", "--out", "run", *wrong, "--", sys.executable, "-c", SCRIPT]
    assert ncubble(*command) == 2
    assert not (played / "launches").exists()


def test_a_program_that_raises_after_its_kernels_is_shown_with_their_profile(
    played: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert training("--json", script=SCRIPT + "raise ValueError('Triton 9 is not supported')") == 3
    shown = capsys.readouterr()
    assert "exit status 1: " in shown.err and "ValueError: Triton 9 is not supported" in shown.err
    told = json.loads(shown.out)
    assert told["failed"].endswith("ValueError: Triton 9 is not supported")
    assert told["devices"][0]["profiled_pct"] > 90
    assert {"tensor", "between"} < told["devices"][0]["kinds"].keys()
    assert json.loads((played / "run" / "run.json").read_text())["outcome"] == "failed"
    assert ncubble("program", "run") == 0 and "ValueError" in capsys.readouterr().out


def test_kernels_are_left_out_and_named(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert training("--json", "--without", "nvjet.*_NNT") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["selected"]["kernels"] == 2 and f"left out: {FIRST}, 48.2 % of the time" in told["notes"][0]
    assert training("--without", "(") == 2


def test_a_program_that_fails_is_kept_as_far_as_it_came(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert training("--json", script="raise SystemExit(5)") == 3
    shown = capsys.readouterr()
    assert "exit status 5" in shown.err
    told = json.loads(shown.out)
    assert told["selected"]["kernels"] == 2 and told["devices"][0]["profiled_pct"] == 0
    assert {part["kind"] for part in told["devices"][0]["parts"]} == {"between", "unprofiled"}
    assert ncubble("program", "run") == 0


def test_without_counters_what_was_recorded_is_shown(
    played: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLAYED_FAILURE", "permission")
    assert training("--json") == 3
    shown = capsys.readouterr()
    assert "ERR_NVGPUCTRPERM" in shown.err
    assert json.loads(shown.out)["devices"][0]["profiled_pct"] == 0


def test_a_kernel_that_cannot_be_replayed_is_left_out(
    played: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLAYED_FAILURE", f"replay {FIRST}")
    assert training("--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert f"ncu cannot profile {FIRST}: its time is not profiled" in told["notes"]
    argv = json.loads((played / "run" / "run.json").read_text())["ncu_argv"]
    assert f"::regex:^({SECOND}|_Z6reducePf)$:2" in argv


def test_the_library_records_a_program_and_prints_nothing(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[str] = []
    argv = [sys.executable, "-c", SCRIPT]
    recorded = {"recorder": "python", "on_output": heard.append}
    shown = ncubble_library.program(argv, nvtx="step", out="run", **recorded)
    assert (shown.path.name, shown.failed, shown.matched) == ("run", "", True)
    assert len(shown.accounts[0].span.windows) == 5 and "trained" in heard
    streams = ncubble_library.streams(argv, out="streams", whole=True, **recorded)
    assert streams.accounts[0].kernels == 19
    assert capsys.readouterr() == ("", "")


def test_a_recorded_program_is_written_for_perfetto_with_what_ncu_measured(tmp_path: Path) -> None:
    told = ncubble_library.program(PROGRAM / "train")
    assert ncubble("program", str(PROGRAM / "train"), "--perfetto", str(tmp_path / "t.pftrace")) == 0
    viewed = ViewerTrace(tmp_path / "t.pftrace")
    kernel = next(one for one in told.accounts[0].kernels if "layer_norm" in one.kernel.name and one.verdict)
    scalars = kernel.match.profiled.launch.scalars
    sizes = [int(size) for size in (*kernel.kernel.grid.split(","), *kernel.kernel.block.split(","))]
    found = 0
    for where, stage in viewed.stages.items():
        grid, block = stage.launch.grid_size, stage.launch.workgroup_size
        if where[2] != kernel.kernel.function or [grid.x, grid.y, grid.z, block.x, block.y, block.z] != sizes:
            continue
        found += 1
        args = {one.name: one.int_value for one in stage.launch.args}
        assert args["registers_per_thread"] == scalars["launch__registers_per_thread"]
        assert args["shared_mem_static"] == scalars["launch__shared_mem_per_block_static"]
        for name in ("gpu__time_duration.sum", "sm__warps_active.avg.pct_of_peak_sustained_active"):
            own = [
                value for time, value in viewed.counters["GPU 0", name] if where[3] <= time < where[3] + stage.duration
            ]
            assert own == [scalars[name]], "Perfetto sums and averages what lies between start and end"
    assert found >= kernel.launches > 1
    assert viewed.processes == viewed.pids
    with pytest.raises(UsageError, match="nowhere"):
        ncubble_library.program(PROGRAM / "train").write_perfetto(tmp_path / "nowhere/t.pftrace")


def test_requests_that_cannot_be_are_refused(played: Path) -> None:
    assert ncubble("program") == 2
    assert ncubble("program", "nowhere") == 2
    assert ncubble("program", "--", "no-such-program") == 2
    assert ncubble("program", "--whole", "--nvtx", "step", "--", "true") == 2
    assert ncubble("program", "--report", "x", "--", "true") == 2
    assert ncubble("program", "--force", "nowhere") == 2
    assert ncubble("program", "--cover", "50", "nowhere") == 2


def test_rows_of_many_launches_fit_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    script = Script()
    for number in range(1500):
        script.kernel(10 * number, 10 * number + 5, 10 * number + 9)
    run = program_of(tmp_path / "run", script.recording())
    assert ncubble("program", str(run)) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("square")]
    assert row.rstrip().endswith("not profiled") and len(row) <= 80


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder to work in, with a trace of PyTorch's profiler of recorded kernels."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    rows = records.read(LANES / "streams-torch").rows
    (tmp_path / "step.json").write_text(kineto_layout.trace(kineto_layout.recorded(rows)))
    return tmp_path


def test_a_trace_of_the_profiler_is_accounted_for(step: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ncubble("program", "step.json") == 0
    shown = capsys.readouterr().out
    assert "lost between kernels" in shown and "profile next: ncubble profile --kernel" in shown
    assert ncubble("program", "step.json", "--whole", "--report", str(RANKS), "--out", "o.json.gz", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    first = told["devices"][0]["kernels"][0]
    assert (first["function"], first["launches"]) == (NVJET, 26) and first["launch"].endswith("rank0#2")
    assert told["file"] == "o.json.gz" and (step / "o.json.gz").read_bytes()[:2] == b"\x1f\x8b"


def test_perfetto_gets_the_geometry_and_metrics_of_a_traces_kernels(step: Path) -> None:
    assert ncubble("program", "step.json", "--whole", "--report", str(RANKS), "--perfetto", "step.pftrace") == 0
    viewed = ViewerTrace(step / "step.pftrace")
    stages = [stage for where, stage in viewed.stages.items() if where[2] == NVJET]
    assert len(stages) == 26
    events = json.loads((step / "step.json").read_text())["traceEvents"]
    traced = next(event["args"] for event in events if event["name"] == NVJET and event.get("cat") == "kernel")
    for stage in stages:
        told = {one.name: one.int_value for one in stage.launch.args}
        grid, block = stage.launch.grid_size, stage.launch.workgroup_size
        assert [grid.x, grid.y, grid.z, block.x, block.y, block.z] == [*traced["grid"], *traced["block"]]
        shared, registers = traced["shared memory"], traced["registers per thread"]
        assert (told["shared_mem"], told["registers_per_thread"]) == (shared, registers)
    starts = {where[3] for where in viewed.stages if where[2] == NVJET}
    busy = viewed.counters["GPU 0", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"]
    assert {time for time, value in busy if value > 0} == starts


def test_reports_of_other_programs_are_no_success(step: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (step / "other.json").write_text(kineto_layout.trace([kineto_layout.kernel("void k<[red]>()", 1, 2)]))
    before = sorted(step.iterdir())
    assert ncubble("program", "other.json", "--whole", "--report", str(RANKS / "rank0"), "--out", "new.json") == 3
    shown = capsys.readouterr().out
    assert "no launch with this name" in shown and "new.json is not written" in shown and shown.endswith("other.json\n")
    assert sorted(step.iterdir()) == before
    (step / "damaged.ncu-rep").write_bytes(b"NVR\0damaged")
    runs = ("--report", str(RANKS / "rank0"), "--report", "damaged.ncu-rep")
    assert ncubble("program", "step.json", *runs) == 0
    assert "a report cannot be read" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["none.json"], 2, "none.json: no such file"),
        (["step.json", "--report", "nowhere"], 2, "nowhere: no such file"),
        (["step.json", "--out", "step.json", "--force"], 2, "is the trace itself"),
        (["step.json", "--out", "there.json"], 2, "there.json exists"),
        (["step.json", "--out", "no/such.json"], 2, "no such directory"),
        (["step.json", "--out", "."], 2, "is a directory"),
        (["step.json", "--out", "new.json"], 2, "no accounts to write"),
        (["step.json", "--report", "empty"], 3, "no report found"),
        (["step.json", "--report", "damaged.ncu-rep"], 3, "damaged.ncu-rep"),
        (["cut.json"], 3, "cut.json: invalid JSON"),
        (["damaged.ncu-rep"], 3, "it is a report of Nsight Compute"),
    ],
)
def test_what_is_refused_of_a_trace_leaves_nothing(
    step: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, said: str
) -> None:
    (step / "there.json").write_text("mine")
    (step / "empty").mkdir()
    (step / "damaged.ncu-rep").write_bytes(b"NVR\0damaged")
    (step / "cut.json").write_text((step / "step.json").read_text()[:5000])
    before = sorted(path.name for path in step.iterdir())
    assert ncubble("program", *arguments) == status
    assert said in capsys.readouterr().err
    assert sorted(path.name for path in step.iterdir()) == before
    assert (step / "there.json").read_text() == "mine"
