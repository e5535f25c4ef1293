"""The command line answers ``--help`` at once: nothing heavy is imported before a command needs
it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ncubble.cli.main import COMMANDS, command_line
from ncubble.recordings import ROOT

HEAVY = ("pandas", "numpy", "pyarrow", "scipy", "plotly", "dash", "flask", "ncu_report", "numba", "cuda", "zstandard")

_HELP = """
import json, sys
from ncubble.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    code = end.code
sys.stderr.write(json.dumps({"code": code or 0, "modules": sorted({name.split(".")[0] for name in sys.modules})}))
"""
_SHOW = _HELP.replace('{name.split(".")[0] for name in sys.modules}', "sys.modules")


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"COLUMNS": "120", "NO_COLOR": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def commands() -> list[str]:
    """Every command, groups with their members."""
    return sorted(walk(command_line()))


def walk(command: object, prefix: str = "") -> list[str]:
    found = []
    for name, child in getattr(command, "commands", {}).items():
        found += [f"{prefix}{name}", *walk(child, f"{prefix}{name} ")]
    return found


@pytest.mark.parametrize("command", ["", *commands()])
def test_help_imports_nothing_heavy(command: str, tmp_path: Path) -> None:
    answer = python(tmp_path, "-c", _HELP, *command.split(), "--help")
    seen = json.loads(answer.stderr.splitlines()[-1])
    assert seen["code"] == 0
    assert "Usage" in answer.stdout
    assert set(HEAVY) & set(seen["modules"]) == set()


@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]])
def test_a_report_that_was_read_before_is_shown_without_what_reads_and_without_other_commands(
    form: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path))
    asked = ["-c", _SHOW, "report", str(ROOT / "softmax_online"), *form]
    first, again = python(tmp_path, *asked), python(tmp_path, *asked)
    assert first.stdout == again.stdout and "softmax_online" in again.stdout
    modules = json.loads(again.stderr.splitlines()[-1])["modules"]
    assert set(HEAVY) & {name.split(".")[0] for name in modules} == set()
    assert {name for name in modules if name.startswith("ncubble.cli.commands.sweep")} == set()
    assert "pandas" in first.stderr


def test_the_list_of_commands_imports_none_of_them(tmp_path: Path) -> None:
    answer = python(tmp_path, "-c", _SHOW, "--help")
    modules = json.loads(answer.stderr.splitlines()[-1])["modules"]
    rooms = {name for name in modules if name.startswith("ncubble.") and not name.startswith("ncubble.cli")}
    assert rooms == {"ncubble.errors"}
    known = {row.where.split(":")[0] or name for name, row in COMMANDS.items()}
    assert known & {name.removeprefix("ncubble.cli.") for name in modules} == set()


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
    code = f"{crash}; from ncubble.cli.main import main; main(['baseline', 'show'])"
    answer = python(tmp_path, "-c", code)
    assert answer.returncode == 3
    assert "ZeroDivisionError" in answer.stderr and "unexpected error" in answer.stderr
    assert answer.stdout == ""
