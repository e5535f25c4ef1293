"""One spelling of every option in all commands; old names work, with a note; completion."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ncubble.cli import command as conventions
from ncubble.cli import main
from ncubble.cli.command import HouseCommand, unwrapped
from ncubble.cli.main import COMMANDS, PLACES, WITH_PROGRAM

NAMES = [name for summaries in COMMANDS.values() for name in summaries]
VALUES = {
    "-p": "KEY=VALUE",
    "--catalog": "DIR",
    "--limit": "N",
    "--rule": "RULE",
    "--against": "REV",
    "--markdown": "FILE",
    "--sarif": "FILE",
    "--junit": "FILE",
    "--perfetto": "FILE",
    "--kernel": "REGEX",
    "--nvtx": "RANGE",
    "--set": "SET",
    "--ncu": "NAME=VALUE",
    "--without": "REGEX",
    "--timeout": "S",
}
"""What each option takes where it has a value."""
FLAGS = {"--json", "--force", "--details", "--library", "--dry-run", "--no-config", "--github", "--whole"}
REPEATABLE = {"-p", "--set", "--ncu", "--rule"}


def commands(command: Any, name: str = "ncubble") -> Iterator[tuple[str, Any]]:
    for child, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, f"{name} {child}")
    if not hasattr(command, "commands"):
        yield name, command


@pytest.fixture(scope="module")
def known() -> dict[str, Any]:
    return dict(commands(main.command_line()))


def options(command: Any) -> Iterator[tuple[str, Any]]:
    for param in command.params:
        if param.param_type_name == "option":
            for name in param.opts:
                yield name, param


def test_every_command_follows_the_conventions(known: dict[str, Any]) -> None:
    assert len(known) >= 20
    assert [name for name, command in known.items() if not isinstance(command, HouseCommand)] == []


def test_the_list_of_commands_has_a_sentence_for_each_below_a_heading(known: dict[str, Any]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from ncubble.cli.main import main; main()", "--help"],
        env={**os.environ, "COLUMNS": "80", "TERMINAL_WIDTH": "80"},
        capture_output=True,
        text=True,
        check=True,
    )
    shown = done.stdout
    places = [shown.index(f"─ {panel} ─") for panel in COMMANDS]
    assert places == sorted(places)
    assert [name for name in NAMES if f"│ {name} " not in shown] == []
    assert "Exit code" not in shown
    assert shown.count("\n") < 100


def test_the_list_of_commands_says_what_the_help_of_each_begins_with() -> None:
    commands = main.command_line().commands
    for panel, summaries in COMMANDS.items():
        for name, summary in summaries.items():
            found = commands[name].short_help or commands[name].help
            assert (found, commands[name].rich_help_panel) == (summary, panel), f"COMMANDS in cli/main.py: {name}"
    assert {*PLACES, *WITH_PROGRAM} <= set(NAMES)


def test_arguments_are_words_in_capitals_and_brackets_mean_optional(known: dict[str, Any]) -> None:
    lines = {name: " ".join(command.collect_usage_pieces(None)) for name, command in known.items()}
    assert lines["ncubble report"] == "[OPTIONS] PATH…"
    assert lines["ncubble verify"] == "[OPTIONS] [NAME]"
    assert lines["ncubble program"] == "[OPTIONS] [DIR|TRACE] [-- CMD…]"
    assert lines["ncubble check"] == "[OPTIONS] [PATH…] [-- CMD…]"
    assert [line for line in lines.values() if "{" in line or line != line.upper()] == []


def test_an_option_takes_the_same_in_all_commands(known: dict[str, Any]) -> None:
    wrong = []
    for name, command in known.items():
        for option, param in options(command):
            if param.is_flag:
                ok = option in FLAGS or option not in VALUES
            else:
                ok = option not in FLAGS and VALUES.get(option, param.metavar) == param.metavar
            ok = ok and (option not in REPEATABLE or param.is_flag or param.multiple)
            if not ok:
                wrong.append(f"{name} {option} {param.metavar or 'flag'}")
    assert wrong == []


def test_no_option_is_a_flag_here_and_takes_a_value_there(known: dict[str, Any]) -> None:
    kinds: dict[str, dict[bool, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, command in known.items():
        for option, param in options(command):
            kinds[option][bool(param.is_flag)].append(name)
    both = {option: dict(uses) for option, uses in kinds.items() if len(uses) > 1}
    assert set(both) <= {"--gpu", "--report", "--repeat"}


def test_help_has_no_words_of_the_parser_and_fits_80_columns(known: dict[str, Any]) -> None:
    for name in known:
        words = name.split()[1:]
        done = run(*words, "--help", COLUMNS="80") if words[0] in ("check", "report") else None
        text = done.stdout if done else ""
        assert not any(word in text for word in ("<bool>", "<int", "<path>", "<list", "<str>")), name
        assert max(map(len, text.splitlines()), default=0) <= 80, name
        for _, param in options(known[name]):
            assert param.metavar is not None, f"{name} {param.opts}: say what it takes"


def run(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    program = "import sys; sys.argv[0] = 'ncubble'; from ncubble.cli.main import main; main()"
    env = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-P", "-c", program, *argv], env=env, capture_output=True, text=True, check=False
    )


def test_help_has_no_line_breaks_of_the_source_and_no_values_of_flags(known: dict[str, Any]) -> None:
    assert unwrapped("""One\n    line.\n\n    Two\n    lines: a\n    sentence.\n    Another.""") == (
        "One line.\n\nTwo lines: a sentence.\nAnother."
    )
    assert "saves too little time, or moves a counter" in known["ncubble verify"].help
    assert "<bool>" not in run("--help").stdout


def test_the_shell_completes_commands_options_and_kernels() -> None:
    for words, wanted in (
        ("ncubble che", "check"),
        ("ncubble check --bis", "--bisect-exit"),
        ("ncubble bench gemm_w", "gemm_ws"),
    ):
        number = str(len(words.split()) - 1)
        done = run(_NCUBBLE_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=number)
        assert wanted in done.stdout.split(), (words, done.stdout, done.stderr)
    program = "import sys; sys.argv[0] = 'ncubble'; from ncubble.cli.main import main; main()"
    # The shell is found among the parents of the process; the second command keeps bash there.
    inner = f'"{sys.executable}" -P -c "{program}" --show-completion; true'
    shown = subprocess.run(["bash", "-c", inner], capture_output=True, text=True, check=False)
    assert "complete" in shown.stdout


@pytest.mark.parametrize("argv", [["--help"], ["report", "nowhere"], ["report", "--help"]], ids=" ".join)
def test_what_takes_long_to_import_is_not_imported_for_what_is_not_shown(argv: list[str], tmp_path: Path) -> None:
    program = (
        "import sys\nfrom ncubble.cli.main import main\ntry:\n    main()\n"
        "finally:\n    print(*sys.modules, file=sys.stderr)"
    )
    argv = [sys.executable, "-c", program, *argv]
    ended = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, check=False)
    heavy = {"pydantic", "pandas", "numpy"}
    assert not heavy & set(ended.stderr.split()), ended.stderr


@pytest.mark.parametrize("unreadable", [False, True])
def test_paths_and_texts_are_taken_as_typer_takes_them(
    unreadable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").touch()
    if unreadable:
        monkeypatch.setattr(os, "access", lambda path, mode: mode != os.R_OK)
    said = []
    for given in (lambda: None, lambda: monkeypatch.setattr(conventions, "_AsGiven", lambda: None)):
        given()
        with pytest.raises(SystemExit) as ended:
            main.main(["report", str(tmp_path / "a"), str(tmp_path / "b"), "--kernel", "x"])
        said.append((ended.value.code, *capsys.readouterr()))
    assert said[0] == said[1]
    assert ("not readable" in re.sub(r"[│\s]+", " ", said[0][2])) == unreadable  # a long path breaks the line anywhere
