"""Records a program's GPU activity while it runs: Python in its own interpreter, anything else by a
library."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling.processes import refuse_inside_profiler
from ncubble.profiling.recorders import injection
from ncubble.profiling.recorders.raw import HEAD, REFUSED
from ncubble.profiling.session import ProgramEnd, Session
from ncubble.text.remedies import extras_command

SOURCE = Path(injection.__file__).with_name("stream_injection.cpp")
RAW = "raw"
NVTX = "NVTX_INJECTION64_PATH"
RECORDERS = ("auto", "python", "library")
MOST = 1_000_000
"""Maximum number of records by default."""
_WITH_VALUE = ("--check-hash-based-pycs",)
_FLAGS_WITH_VALUE = re.compile(r"-[bBdEIOPqRsSuvx]*[XW]")
_ENDS_OPTIONS = re.compile(r"-([bBdEIOPqRsSuvx]*)([cm])(.*)", re.DOTALL)
"""Everything after ``-c`` and ``-m`` belongs to the program; both may end a group of flags and
start their value (``-uc...``)."""


@dataclass(frozen=True)
class StreamSettings:
    """``most``: records that are kept; ``recorder``: one of ``RECORDERS``. Raises UsageError for
    what is neither."""

    most: int = MOST
    recorder: str = "auto"

    def __post_init__(self) -> None:
        if self.recorder not in RECORDERS:
            raise UsageError(f"unknown recorder {self.recorder!r}", f"use one of: {', '.join(RECORDERS)}")
        if self.most < 1:
            raise UsageError(f"most={self.most} would keep nothing", "give a positive number")


def record(session: Session, settings: StreamSettings, more: Sequence[str] = ()) -> tuple[Path, ProgramEnd]:
    """Run the program, with ``more`` arguments, while its GPU activity is recorded. Returns the
    folder of its records, and how the program ended: what it had recorded until then is kept.

    Raises UsageError, and MeasurementError where nothing can be recorded.
    """
    refuse_inside_profiler(os.environ)
    folder = session.work / RAW
    folder.mkdir()
    argv, env = prepared([*session.subject.argv, *more], folder, settings)
    end = session.run(argv, env)
    refused = folder / REFUSED
    # Of several processes some may be refused: what the others recorded is kept, and the notes say
    # it.
    if refused.is_file() and all(path.stat().st_size <= HEAD.size for path in folder.glob("records-*.bin")):
        why = refused.read_text(encoding="utf-8", errors="replace")[:2000]
        raise MeasurementError(f"GPU activity cannot be recorded: {why}", _remedy(why))
    return folder, end


def _remedy(why: str) -> str:
    if "driver" in why:
        return "install the NVIDIA driver, and check that the GPU is visible here (ncubble doctor)"
    if "cannot be loaded" in why:
        return f"{extras_command('gpu')}, or use --recorder library"
    if "another client" in why:
        return "stop other profilers of this program (ncu, nsys, torch.profiler): CUPTI serves one at a time"
    return "check the driver and the version of CUPTI (see: ncubble doctor)"


def prepared(program: Sequence[str], folder: Path, settings: StreamSettings) -> tuple[list[str], dict[str, str]]:
    """The argv that records ``program`` into ``folder``, and what is added to its environment;
    raises as ``record`` does."""
    split = python_split(program) if is_our_python(program[0]) else None
    if settings.recorder == "python" and split is None:
        raise UsageError(
            "the program is not `python SCRIPT`, `python -m MODULE` or `python -c CODE` of this interpreter",
            f"start it by {sys.executable}, or use --recorder library",
        )
    has_library = importlib.util.find_spec("cupti") is not None
    if split is not None and settings.recorder != "library" and (has_library or settings.recorder == "python"):
        options, rest = split
        starter = [*options, "-m", "ncubble.profiling.recorders.start", str(folder), str(settings.most)]
        return [program[0], *starter, *rest], {}
    library = str(injection.injection(SOURCE).absolute())
    env = {"NCUBBLE_STREAMS_FOLDER": str(folder), "NCUBBLE_STREAMS_MOST": str(settings.most)}
    # NVTX asks for its library at its first call, which may come before the driver loads ours.
    return list(program), {**_nvtx(), **env, "CUDA_INJECTION64_PATH": library}


def _nvtx() -> dict[str, str]:
    """What makes NVTX call the CUPTI that our library is linked with, unless it was told of
    another."""
    try:
        return {} if NVTX in os.environ else {NVTX: str(injection.find_cupti().library)}
    except MeasurementError:
        return {}


def is_our_python(name: str) -> bool:
    """Whether a program is the interpreter that runs this: another one need not have ncubble and
    cupti-python."""
    path = shutil.which(name)
    if path is None:
        return False
    # Not the resolved file: all virtual environments link to one interpreter, and differ in what
    # they hold.
    ours = Path(sys.executable)
    return Path(path).parent.absolute() == ours.parent.absolute() and Path(path).resolve() == ours.resolve()


def python_split(program: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """The interpreter's own options, and what it runs (``SCRIPT …``, ``-m MODULE …``, ``-c CODE
    …``); else None.

    >>> python_split(["python", "-X", "dev", "-u", "train.py", "-x"])
    (['-X', 'dev', '-u'], ['train.py', '-x'])
    >>> python_split(["python", "-um", "train", "-x"])
    (['-u'], ['-m', 'train', '-x'])
    """
    options: list[str] = []
    rest = list(program[1:])
    while rest:
        first = rest[0]
        if match := _ENDS_OPTIONS.match(first):
            flags, which, attached = match.groups()
            what = [attached] if attached else rest[1:2]
            after = rest[1:] if attached else rest[2:]
            return ([*options, *([f"-{flags}"] if flags else [])], [f"-{which}", *what, *after]) if what else None
        if first in _WITH_VALUE or _FLAGS_WITH_VALUE.fullmatch(first):
            options, rest = options + rest[:2], rest[2:]
        elif first == "-" or first in ("-h", "-V", "-i", "--help", "--version"):
            return None
        elif first.startswith("-"):
            options, rest = [*options, first], rest[1:]
        else:
            return options, rest
    return None
