"""The command line answers ``--help`` at once: nothing heavy is imported before a command needs
it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ncubble.cli.main import COMMANDS, PLACES, command_line
from ncubble.recordings import H100, REPEATS

HEAVY = ("pandas", "numpy", "pyarrow", "scipy", "plotly", "dash", "flask", "ncu_report", "numba", "cuda", "zstandard")

_INTERRUPT = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, *_):
        if name == instant:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
instant = sys.argv.pop(1)
from ncubble.cli.start import main
main()
"""

_SHOW = """
import json, sys
from ncubble.cli.main import main
codes = []
for words in json.loads(sys.argv[1]):
    try:
        main(words)
    except SystemExit as end:
        codes.append(end.code or 0)
sys.stderr.write(json.dumps({"codes": codes, "modules": sorted(sys.modules)}))
"""


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"COLUMNS": "120", "NO_COLOR": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def called(folder: Path, *commands: list[str]) -> tuple[str, set[str]]:
    """What commands print, one after the other in a new process, and the modules there after the
    last."""
    answer = python(folder, "-c", _SHOW, json.dumps(commands))
    seen = json.loads(answer.stderr.splitlines()[-1])
    assert seen["codes"] == [0] * len(commands), answer.stderr
    return answer.stdout, set(seen["modules"])


def walk(command: object, *words: str) -> list[list[str]]:
    """Words that ask for the help of every command below this one, groups with their members."""
    children = getattr(command, "commands", {})
    below = [line for name, child in children.items() for line in walk(child, *words, name)]
    return [[*words, "--help"], *below]


def test_no_help_imports_anything_heavy(tmp_path: Path) -> None:
    asked = walk(command_line())
    shown, modules = called(tmp_path, *asked)
    assert shown.count("Usage: ") == len(asked) > 20
    assert set(HEAVY) & {name.split(".")[0] for name in modules} == set()


@pytest.mark.parametrize("form", [[], ["--json"], ["--sort", "lost"]])
def test_a_report_that_was_read_before_is_shown_without_what_reads_and_without_other_commands(
    form: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path))
    asked = ["report", str(H100 / "softmax_online"), *form]
    (first, reading), (again, modules) = called(tmp_path, asked), called(tmp_path, asked)
    assert first == again and "softmax_online" in again and "pandas" in reading
    assert set(HEAVY) & {name.split(".")[0] for name in modules} == set()
    assert {name for name in modules if name.endswith((".sweep", ".export", ".profile"))} & _commands() == set()


def _commands() -> set[str]:
    names = [name for summaries in COMMANDS.values() for name in summaries]
    return {f"ncubble.cli.{PLACES.get(name, name).split(':')[0]}" for name in names}


def test_the_list_of_commands_imports_none_of_them(tmp_path: Path) -> None:
    _, modules = called(tmp_path, ["--help"])
    rooms = {name for name in modules if name.startswith("ncubble.") and not name.startswith("ncubble.cli")}
    assert rooms == {"ncubble.errors"} and _commands() & modules == set()


def test_version_is_the_package_version(tmp_path: Path) -> None:
    import ncubble

    answer = python(tmp_path, "-c", "from ncubble.cli.main import main; main(['--version'])")
    assert answer.stdout.strip() == f"ncubble {ncubble.__version__}"


@pytest.mark.parametrize("arguments", [["--no-such-option"], ["no-such-command"]])
def test_wrong_usage_exits_with_2_and_says_what_is_wrong(arguments: list[str], tmp_path: Path) -> None:
    answer = python(tmp_path, "-c", "import sys; from ncubble.cli.main import main; main(sys.argv[1:])", *arguments)
    assert answer.returncode == 2
    assert arguments[0] in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_crash_is_not_taken_for_a_regression(tmp_path: Path) -> None:
    crash = "import ncubble.analysis.gate.baseline_file as file; file.load_store = lambda path: 1 / 0"
    code = f"{crash}; from ncubble.cli.main import main; main(['baseline'])"
    answer = python(tmp_path, "-c", code)
    assert answer.returncode == 3
    assert "ZeroDivisionError" in answer.stderr and "unexpected error" in answer.stderr
    assert answer.stdout == ""


@pytest.mark.parametrize("imported", ["ncubble.cli.main", "typer", "ncubble.api.checking", "pandas"])
def test_an_interrupt_is_told_in_one_sentence_during_imports_and_within_a_command(
    imported: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path))
    report = REPEATS / "tensor_core_gemm" / "stages1"
    answer = python(tmp_path, "-c", _INTERRUPT, imported, "check", str(report), "--allow-new", "--rule", "cycles <= 1")
    assert (answer.returncode, answer.stderr) == (130, "ncubble: interrupted\n")
