"""The recorder inside a Python program, with CUPTI played: the program keeps what it has, and its
records are kept."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ncubble.analysis.streams.recording import read_raw
from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling.processes import refuse_inside_profiler
from ncubble.profiling.recorders.raw import KERNEL, REFUSED, RawWriter
from ncubble.profiling.recorders.start import STATUS
from ncubble.profiling.recorders.streams import StreamSettings, prepared, python_split, record
from ncubble.profiling.runs import read_manifest
from ncubble.profiling.session import Observer, Session
from ncubble.profiling.subject import Subject

PLAYED = Path(__file__).resolve().parents[3] / "data" / "played_cupti"


def start(
    folder: Path, *program: str, most: int = 1000, mode: str = "", stdin: str = "", cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a program under the starter."""
    folder.mkdir()
    env = {**os.environ, "PYTHONPATH": str(PLAYED), "PLAYED_CUPTI": mode}
    argv = [sys.executable, "-m", "ncubble.profiling.recorders.start", str(folder), str(most), *program]
    return subprocess.run(argv, env=env, capture_output=True, text=True, input=stdin, timeout=60, check=False, cwd=cwd)


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled: the programs use no CUDA."""
    monkeypatch.setattr("ncubble.profiling.recorders.injection.injection", lambda source: Path("/nowhere/streams.so"))


def script(folder: Path, text: str) -> str:
    """A script file."""
    path = folder / "program.py"
    path.write_text(text)
    return str(path)


def test_a_script_keeps_its_arguments_streams_folder_and_exit_status(tmp_path: Path) -> None:
    text = "import sys, os, helper\nprint(sys.argv[1:], sys.stdin.read(), os.getcwd(), __name__, helper.X)\nsys.exit(7)"
    (tmp_path / "helper.py").write_text("X = 11")
    path, elsewhere = script(tmp_path, text), tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = start(tmp_path / "raw", path, "a", "-x", stdin="given", cwd=elsewhere)
    assert (done.returncode, done.stdout) == (7, f"['a', '-x'] given {elsewhere} __main__ 11\n")
    recording = read_raw(tmp_path / "raw")
    assert recording.notes == ()
    kernels = recording.rows[recording.rows["kind"] == "kernel"]
    assert kernels["name"].tolist() == ["square(float*, int)"] * 2
    assert kernels["start_ns"].tolist() == [5_000, 105_000]


def test_a_script_sees_itself_as_under_the_interpreter(tmp_path: Path) -> None:
    told = "f.__annotations__, __file__, f.__code__.co_filename, __cached__, sys.argv"
    script(tmp_path, f"def f(x: int): ...\nimport sys\nprint({told})")
    plain = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert start(tmp_path / "raw", "program.py", cwd=tmp_path).stdout == plain.stdout
    assert "<class 'int'>" in plain.stdout


def test_a_module_and_code_run_as_by_the_interpreter(tmp_path: Path) -> None:
    (tmp_path / "there.py").write_text("import sys; print(__name__, sys.argv[1:])")
    done = start(tmp_path / "one", "-m", "there", "b", cwd=tmp_path)
    assert done.stdout == "__main__ ['b']\n"
    done = start(tmp_path / "two", "-c", "import sys; print(__name__, sys.argv)", "c", cwd=tmp_path)
    assert done.stdout == "__main__ ['-c', 'c']\n"


TERM = "os.kill(os.getpid(), signal.SIGTERM)"
ENDINGS = {
    "an exception, without our frames": ("def inner():\n    raise ValueError('mine')\ninner()", 1, "ValueError: mine"),
    "SIGTERM": (f"{TERM}\ntime.sleep(30)", -15, ""),
    "its own handler": (f"signal.signal(15, lambda n, f: sys.exit(9))\n{TERM}", 9, ""),
    "an exit handler that uses its names": ("name = 'kept'\natexit.register(lambda: print(name))", 0, "kept"),
    "a forked child, which writes nothing": ("if os.fork() == 0:\n    sys.exit(0)\nos.wait()", 0, ""),
}


@pytest.mark.parametrize(("text", "status", "said"), ENDINGS.values(), ids=ENDINGS)
def test_a_program_ends_as_it_would_and_is_recorded(tmp_path: Path, text: str, status: int, said: str) -> None:
    done = start(tmp_path / "raw", script(tmp_path, f"import atexit, os, signal, sys, time\n{text}\n"))
    assert done.returncode == status and said in done.stdout + done.stderr
    assert "recorders" not in done.stderr
    assert len(list((tmp_path / "raw").glob("records-*"))) == 1
    assert len(read_raw(tmp_path / "raw").rows) == 8


def test_a_killed_program_leaves_a_recording_that_says_what_is_missing(tmp_path: Path) -> None:
    done = start(tmp_path / "raw", script(tmp_path, "import os; os.kill(os.getpid(), 9)"))
    assert done.returncode == -9
    assert "without a final record" in read_raw(tmp_path / "raw").notes[0]


@pytest.mark.parametrize(
    ("mode", "note"),
    [
        ("dropped", "CUPTI dropped 7 records"),
        ("broken", "1 records could not be read"),
        ("few", "does not record MEMORY_POOL"),
        ("raises", "CUPTI reported at its end: CUPTI_ERROR_UNKNOWN"),
    ],
)
def test_what_cupti_did_not_give_is_said(tmp_path: Path, mode: str, note: str) -> None:
    assert start(tmp_path / "raw", "-c", "pass", mode=mode).returncode == 0
    assert any(note in told for told in read_raw(tmp_path / "raw").notes)


def test_records_after_the_limit_are_counted(tmp_path: Path) -> None:
    start(tmp_path / "raw", "-c", "pass", most=3)
    recording = read_raw(tmp_path / "raw")
    assert len(recording.rows) == 3
    assert "5 records exceeded the limit" in recording.notes[0]


def test_another_client_is_refused_before_the_program_starts(tmp_path: Path) -> None:
    done = start(tmp_path / "raw", "-c", "print('ran')", mode="occupied")
    assert (done.returncode, done.stdout) == (STATUS, "")
    assert "another client" in (tmp_path / "raw" / REFUSED).read_text()


PROGRAM = [sys.executable, "-c", "print('hello'); raise SystemExit(4)"]


@contextmanager
def recorded(out: Path, program: list[str], recorder: str = "python", **options: Any) -> Iterator[tuple[Session, Path]]:
    """The open session after a recording, and the folder of its records."""
    session = Session(Subject(program), out, **options)
    with session.open():
        raw, end = record(session, StreamSettings(recorder=recorder))
        if end.failure:
            session.fail(end.failure)
        yield session, raw


def test_output_is_passed_on_and_a_program_that_failed_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(PLAYED))
    said: list[str] = []
    hear = Observer(output=lambda stream, text: said.append(text))
    with recorded(tmp_path / "run", PROGRAM, observer=hear) as (session, raw):
        (end,) = raw.glob("end-*.json")
        assert json.loads(end.read_text())["kept"] == 8
    assert "".join(said) == "hello\n"
    manifest = read_manifest(tmp_path / "run" / "run.json")
    assert (manifest.outcome, manifest.notes) == ("failed", ["the program failed with exit status 4"])
    assert manifest.argv == ["python", *PROGRAM[1:]] and manifest.started <= manifest.ended
    assert not session.work.exists()


@pytest.mark.parametrize(
    ("mode", "says", "remedy"),
    [
        ("occupied", "another client of CUPTI", "stop other profilers"),
        ("driverless", "driver is not found", "install the NVIDIA driver"),
    ],
)
def test_a_refusal_is_told_with_its_remedy_and_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, says: str, remedy: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(PLAYED))
    monkeypatch.setenv("PLAYED_CUPTI", mode)
    said: list[str] = []
    hear = Observer(output=lambda stream, text: said.append(text))
    with pytest.raises(MeasurementError, match=says) as caught, recorded(tmp_path / "run", PROGRAM, observer=hear):
        pass
    assert remedy in caught.value.remedy
    assert not any(said) and not list(tmp_path.iterdir())


def test_what_one_process_recorded_is_kept_where_another_one_was_refused(tmp_path: Path, no_library: None) -> None:
    writer = RawWriter(tmp_path, 9, 10)
    writer.add((KERNEL, 0, 1, 7, 100, 200, 0, 0, 1, 0, writer.number("square"), 0, 0, 0, 1, 0))
    writer.close(dropped=0)
    (tmp_path / REFUSED).write_text("another client is active")
    copy = ["/bin/sh", "-c", f"cp {tmp_path}/* $NCUBBLE_STREAMS_FOLDER"]
    with recorded(tmp_path / "run", copy, "library") as (_, raw):
        assert "was not recorded: another client" in read_raw(raw).notes[-1]


@pytest.mark.parametrize(("mode", "why"), [(0o644, "Permission denied"), (0o755, "Exec format error")])
def test_what_cannot_be_started_is_said(tmp_path: Path, mode: int, why: str, no_library: None) -> None:
    path = tmp_path / "junk"
    path.write_text("junk")
    path.chmod(mode)
    with pytest.raises(UsageError, match=f"junk.*{why}"), recorded(tmp_path / "run", [str(path)], "library"):
        pass


def test_a_program_inside_of_another_profiler_is_refused() -> None:
    with pytest.raises(MeasurementError, match="CUDA_INJECTION64_PATH"):
        refuse_inside_profiler({"CUDA_INJECTION64_PATH": "/opt/nsight/libinjection.so"})
    with pytest.raises(MeasurementError, match="NV_COMPUTE_PROFILER_PERFWORKS_DIR"):
        refuse_inside_profiler({"NV_COMPUTE_PROFILER_PERFWORKS_DIR": "/opt/nsight/target"})
    refuse_inside_profiler({"PATH": "/usr/bin"})


@pytest.mark.parametrize(
    ("program", "split"),
    [
        (["python", "a.py", "-u"], ([], ["a.py", "-u"])),
        (["python", "-u", "-W", "error", "-m", "there", "x"], (["-u", "-W", "error"], ["-m", "there", "x"])),
        (["python", "-Xdev", "-c", "pass"], (["-Xdev"], ["-c", "pass"])),
        (["python", "-uBm", "there", "-c"], (["-uB"], ["-m", "there", "-c"])),
        (["python", "-cpass", "x"], ([], ["-c", "pass", "x"])),
        (["python", "-uX", "dev", "a.py"], (["-uX", "dev"], ["a.py"])),
        (["python", "-um"], None),
        (["python"], None),
        (["python", "-"], None),
        (["python", "-m"], None),
        (["python", "--version"], None),
    ],
)
def test_what_the_interpreter_runs_is_told_from_its_options(
    program: list[str], split: tuple[list[str], list[str]] | None
) -> None:
    assert python_split(program) == split


def test_nvtx_is_led_to_cupti_unless_something_else_is_asked_for(
    tmp_path: Path, no_library: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NVTX_INJECTION64_PATH", raising=False)
    _, env = prepared(["/bin/true"], tmp_path, StreamSettings())
    assert "/libcupti.so" in env.get("NVTX_INJECTION64_PATH", "/libcupti.so")
    monkeypatch.setenv("NVTX_INJECTION64_PATH", "/other.so")
    _, env = prepared(["/bin/true"], tmp_path, StreamSettings())
    assert "NVTX_INJECTION64_PATH" not in env


def test_programs_that_are_no_python_need_the_library(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not `python"):
        prepared(["/bin/true"], tmp_path, StreamSettings(recorder="python"))
    with pytest.raises(UsageError, match="unknown recorder 'nsys'"):
        StreamSettings(recorder="nsys")
    with pytest.raises(UsageError, match="most=0 would keep nothing"):
        StreamSettings(0)
