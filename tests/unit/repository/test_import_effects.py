"""Importing ncubble does nothing: no process, no connection, no file, no thread, no word, no
changed setting."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Python reports these to audit hooks; "open" only counts where it may write.
_IMPORT = """
import importlib, json, os, signal, sys, threading
PROCESSES = ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.posix_spawn")
SOCKETS = ("socket.connect", "socket.bind", "socket.getaddrinfo")
FILES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "tempfile.mkstemp", "tempfile.mkdtemp")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
effects = []

def hook(event, arguments):
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING
    if writes or event in PROCESSES + SOCKETS + FILES:
        effects.append(f"{event} {arguments!r}"[:200])

def state():
    handlers = {number: str(signal.getsignal(number)) for number in signal.valid_signals()}
    return dict(os.environ), os.getcwd(), os.umask(os.umask(0o22)), handlers, threading.active_count(), sys.path[:]

sys.modules["IPython"] = None  # where it is installed, dash imports what opens a socket
before, modules = state(), set(sys.modules)
sys.addaudithook(hook)
for name in sys.argv[1:]:
    importlib.import_module(name)
changed = [f"{old} became {new}" for old, new in zip(before, state()) if old != new]
foreign = {name.split(".")[0] for name in set(sys.modules) - modules} - set(sys.stdlib_module_names)
print(json.dumps({"effects": effects, "changed": changed, "foreign": sorted(foreign)}))
"""


def importing(folder: Path, *names: str) -> dict[str, Any]:
    """What importing ``names`` one after the other in a new process does. ``-B``: no cached
    bytecode."""
    command = [sys.executable, "-B", "-c", _IMPORT, *names]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""
    said: dict[str, Any] = json.loads(answer.stdout)  # which anything else on stdout would spoil
    return said


def test_the_package_alone_imports_nothing_but_the_standard_library(tmp_path: Path) -> None:
    assert importing(tmp_path, "ncubble") == {"effects": [], "changed": [], "foreign": ["ncubble"]}


def test_no_module_has_effects_when_it_is_imported(repository: Path, sources: list[Path], tmp_path: Path) -> None:
    paths = [path.relative_to(repository).with_suffix("") for path in sources]
    # Programs, and kernels in Python, which import numba and with it the driver.
    modules = [path.parts for path in paths if path.name != "__main__" and not path.name.startswith("numba_")]
    names = {
        ".".join(("ncubble", *(part for part in parts if part not in ("ncubble", "__init__")))) for parts in modules
    }
    assert len(names) > 80
    found = importing(tmp_path, *sorted(names))
    assert (found["effects"], found["changed"]) == ([], [])


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import pathlib; pathlib.Path('x').write_text('')", "open ('x'"),
        ("import subprocess; subprocess.run(['true'])", "subprocess.Popen"),
        ("import os; os.environ['X'] = '1'", "became"),
        ("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)", "became"),
    ],
)
def test_effects_are_seen(tmp_path: Path, code: str, said: str) -> None:
    (tmp_path / "guilty.py").write_text(f"{code}\n")
    found = importing(tmp_path, "guilty")
    assert said in json.dumps(found["effects"] + found["changed"])
