"""A program whose Triton launches are tried: what is asked, and what is said where it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ncubble.errors import UsageError
from ncubble.profiling.ncu import Filters
from ncubble.profiling.recorders import triton, triton_hook
from ncubble.profiling.recorders.triton import LaunchLostError, TritonLaunch
from ncubble.profiling.session import Observer, Session
from ncubble.profiling.subject import Subject

HOOK = Path(triton_hook.__file__).parent
SPEAKS = """
import json, os, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(os.environ["NCUBBLE_TRY_SOCKET"])
file = line.makefile("rw")
def tell(**members):
    file.write(json.dumps(members) + "\\n")
    file.flush()
"""
PROGRAM = (
    SPEAKS
    + """
tell(launch={"kernel": os.environ["NCUBBLE_TRY_KERNEL"], "number": 0})
while (request := json.loads(file.readline()))["do"] != "end":
    tell(answer=request["value"] * 2)
print("results", os.environ["PYTHONPATH"].split(os.pathsep)[0])
"""
)


@pytest.fixture
def record(tmp_path: Path):
    def run(code: str, serve) -> tuple[triton.TritonRecording, list[str]]:
        texts: list[str] = []
        subject = Subject([sys.executable, "-c", code], "program")
        observer = Observer(output=lambda _, text: texts.append(text))
        session = Session(subject, tmp_path / "run", timeout_s=60.0, observer=observer)
        with session.open():
            return triton.record(session, Filters("gemm"), serve), texts

    return run


def test_a_launch_answers_and_its_program_goes_on(record) -> None:
    answers = []

    def serve(launch: TritonLaunch) -> None:
        answers.append((launch.facts["kernel"], launch.ask(do="double", value=21)["answer"]))

    recording, texts = record(PROGRAM, serve)
    assert answers == [("gemm", 42)]
    assert recording.served == 1
    assert recording.end.status == 0
    assert "".join(texts) == f"results {HOOK}\n"


def test_a_program_that_ends_meanwhile_is_said(record) -> None:
    dies = SPEAKS + 'tell(launch={"kernel": "gemm"})\nfile.readline()\nos._exit(124)'
    with pytest.raises(LaunchLostError, match="the program ended while a launch was tried"):
        record(dies, lambda launch: launch.ask(do="check"))


def test_a_launch_that_cannot_be_tried_says_why(record) -> None:
    recording, _ = record(SPEAKS + 'tell(refused="it is captured into a CUDA graph")', lambda launch: None)
    assert (recording.served, recording.refused) == (0, ["it is captured into a CUDA graph"])


def test_what_serve_raises_is_raised_and_the_program_goes_on(record) -> None:
    def serve(launch: TritonLaunch) -> None:
        raise UsageError("no", "yes")

    with pytest.raises(UsageError, match="no"):
        record(PROGRAM, serve)


JIT = """
from types import SimpleNamespace
class JITFunction:
    def __init__(self, name):
        self.fn = SimpleNamespace(__name__=name)
    def run(self, *args, grid, warmup, **kwargs):
        print("launched", self.fn.__name__)
"""
LAUNCHES = """
import triton.runtime.jit as jit
for name in ("nvshmem_put", "nvshmem_put", "one_shot_all_reduce_kernel"):
    jit.JITFunction(name).run(grid=1, warmup=False)
"""


def test_kernels_that_wait_are_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "triton" / "runtime").mkdir(parents=True)
    for name, text in {"__init__": "", "runtime/__init__": "", "runtime/jit": JIT}.items():
        (tmp_path / "triton" / f"{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    texts: list[str] = []
    observer = Observer(output=lambda _, text: texts.append(text))
    session = Session(Subject([sys.executable, "-c", LAUNCHES], "program"), tmp_path / "run", observer=observer)
    with session.open():
        refused = triton.record(session, Filters(), lambda launch: None).refused
    assert refused == ["nvshmem_put is left out (--without)", "one_shot_all_reduce_kernel is left out (--without)"]
    assert "".join(texts).count("launched") == 3


def test_a_program_without_triton_keeps_its_own_sitecustomize(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('own')\n")
    path = f"{HOOK}:{tmp_path}"
    done = subprocess.run(
        [sys.executable, "-c", "print('program')"],
        env={"PYTHONPATH": path, "NCUBBLE_TRY_SOCKET": "/nowhere"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "own\nprogram\n"
    assert done.stderr == ""
