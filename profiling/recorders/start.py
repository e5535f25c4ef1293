"""``python -m ncubble.profiling.recorders.start FOLDER MOST (SCRIPT | -m MODULE | -c CODE) …``:
runs a Python program as the interpreter itself would, and records its GPU activity into FOLDER.

The program keeps its arguments, working directory, standard streams and exit status. What it leaves
on SIGTERM or by an exception is recorded; ``os._exit`` and SIGKILL lose what CUPTI had not handed
over.
"""

from __future__ import annotations

import atexit
import os
import runpy
import signal
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ncubble.profiling.recorders.raw import REFUSED

STATUS = 125
"""Exit code if the program was not started: ``REFUSED`` in FOLDER states why nothing could be
recorded."""


class NoScriptError(Exception):
    """The script cannot be read; its message is the interpreter's."""


def main() -> int:
    """Records and runs; returns the exit status, or raises as the program does."""
    folder, most, *program = sys.argv[1:]
    from ncubble.profiling.recorders.cupti import ActivityRecorder, OccupiedError

    try:
        recorder = ActivityRecorder(Path(folder), int(most))
    except OccupiedError as error:
        (Path(folder) / REFUSED).write_text(str(error), encoding="utf-8")
        return STATUS
    end_with_process(recorder.close)
    sys.excepthook = without_our_frames
    try:
        run_program(program)
    except NoScriptError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def end_with_process(close: Callable[[], None]) -> None:
    """Calls ``close`` after all exit handlers of the program, and on SIGTERM, which ends the
    process as before."""
    atexit.register(close)

    def ended(number: int, frame: Any) -> None:
        signal.signal(number, signal.SIG_DFL)
        close()
        os.kill(os.getpid(), number)

    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, ended)


def run_program(program: list[str]) -> None:
    """Runs what ``python`` would run with these arguments, as ``__main__``."""
    first, rest = program[0], program[1:]
    if first == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        if not sys.flags.safe_path:
            sys.path[0] = ""
        _execute(rest[0], "<string>", None)
    elif Path(first).is_dir() or first.endswith((".zip", ".pyz")):
        sys.argv = program
        runpy.run_path(first, run_name="__main__")
    else:
        sys.argv = program
        if not sys.flags.safe_path:
            sys.path[0] = str(Path(first).resolve().parent)
        _execute(_source(first), os.path.abspath(first), os.path.abspath(first))  # noqa: PTH100 - links stay as they are


def _source(path: str) -> bytes:
    """The script's text; raises NoScriptError where there is none."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        message = f"{sys.executable}: can't open file {os.path.abspath(path)!r}: {error}"  # noqa: PTH100
        raise NoScriptError(message) from error


def _execute(source: str | bytes, name: str, file: str | None) -> None:
    """Runs code in a fresh ``__main__`` that outlives the call: threads and exit handlers may still
    use it."""
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = __builtins__
    if file is not None:
        module.__file__ = file
        module.__dict__["__cached__"] = None
    sys.modules["__main__"] = module
    # dont_inherit: else the __future__ imports of this file would hold in the program, too.
    exec(compile(source, name, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - the user's program


def without_our_frames(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
    """Prints an exception of the program as the interpreter would, from the program's own first
    frame on."""
    ours = (__file__, runpy.__file__, "<frozen runpy>")
    while trace is not None and trace.tb_frame.f_code.co_filename in ours:
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


if __name__ == "__main__":
    sys.exit(main())
