"""README and docs show commands that exist and take their options, files that are there; and what
they show can be run where no GPU is."""

from __future__ import annotations

import argparse
import importlib.util
import io
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from functools import cache
from pathlib import Path

import click
import pytest
from typer.testing import CliRunner

from ncubble.cli import main

REPOSITORY = Path(__file__).parents[3]
IN_TEXT = re.compile(r"`((?:\.venv/bin/|git bisect run )?(?:ncubble -*[a-z]|python -m )[^`]*)`")
STARTS = ("ncubble ", "python -m benchmarks.")
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]*\d)")
READERS = {"report", "compare", "check", "trace", "streams", "program", "ablate"}
DOCUMENTS = [*sorted(REPOSITORY.glob("*.md")), *sorted((REPOSITORY / "docs").rglob("*.md"))]
REGRESSION = "recordings/h200-gate/wait_for_all_copies"
"""What a shown check is of that fails."""


@cache
def command_tree() -> click.Group:
    return main.command_line()  # type: ignore[no-any-return]


def code_lines(text: str) -> list[str]:
    """Lines of fenced and of indented blocks, comments and prompts left out, continued lines
    joined."""
    lines, fenced = [], False
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            lines.append(line.split("  #")[0].strip().removeprefix("$ "))
    return lines


def shown() -> dict[str, str]:
    """Every command of ours in blocks and in sentences, with the first page that shows it."""
    found: dict[str, str] = {}
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        in_text = [] if path.name == "CHANGELOG.md" else [" ".join(words.split()) for words in IN_TEXT.findall(text)]
        for part in (part for line in code_lines(text) + in_text for part in line.split(" && ")):
            command = part.removeprefix(".venv/bin/").removeprefix("git bisect run ").split(" # ")[0].strip()
            if command.startswith(STARTS) and "<-" not in command:  # the drawing of the rooms
                found.setdefault(command, path.name)
    return found


def runnable(command: str) -> bool:
    """Whether a command reads recordings alone, and so runs anywhere within seconds."""
    words = shlex.split(command)
    if words[0] == "python":
        short = command.endswith(("benchmarks.house", "benchmarks.probe.coarse"))
        return short or bool({"--show", "--list"} & set(words))
    paths = [word for word in words[2:] if "/" in word or "." in word]
    recorded = bool(paths) and all(word.startswith("recordings/") and "…" not in word for word in paths)
    return (words[1] in READERS and recorded) or words[1:] in (["kernels"], ["--help"]) or "--dry-run" in words


def unknown(line: str) -> str:
    """What in ``ncubble …`` does not exist: a command or an option; empty where all of it does."""
    words = shlex.split(line)[1:]
    command: object = command_tree()
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]  # type: ignore[attr-defined]
    if hasattr(command, "commands") and words and not words[0].startswith("-"):
        return f"command {words[0]}"
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}  # type: ignore[attr-defined]
    own = words[: words.index("--") if "--" in words else None]
    used = [word.split("=")[0] for word in own if word.startswith("-")]
    return next((f"option {word}" for word in used if word not in options | {"-h", "--help"}), "")


class ParsedError(Exception):
    """The command line of a benchmark was taken."""


def refused(command: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Why a benchmark does not take its command line; empty where it does."""
    module, *words = shlex.split(command)[2:]
    found = importlib.util.find_spec(module)
    if found is not None and found.submodule_search_locations:
        found = importlib.util.find_spec(f"{module}.__main__")
    if found is None or found.origin is None:
        return f"no module {module}"
    if "parse_args" not in Path(found.origin).read_text(encoding="utf-8"):
        return ""  # it takes nothing, or words in their order
    take = argparse.ArgumentParser.parse_args

    def only_parse(*given: object, **named: object) -> None:
        take(*given, **named)  # type: ignore[call-overload]
        raise ParsedError

    with monkeypatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", only_parse)
        patch.setattr(sys, "argv", [module, *words])
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except ParsedError:
            return ""
        except SystemExit as stopped:
            return f"ends with {stopped.code}"
    return "does not read its command line"


def test_readme_is_short(repository: Path) -> None:
    assert len((repository / "README.md").read_text().splitlines()) <= 150


def test_every_command_that_the_docs_show_exists() -> None:
    commands = {command: page for command, page in shown().items() if command.startswith("ncubble ")}
    assert commands
    assert {f"{page}: {command}": unknown(command) for command, page in commands.items() if unknown(command)} == {}


def test_every_benchmark_that_the_docs_show_takes_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = [command for command in shown() if command.startswith("python -m ")]
    assert len(commands) > 40
    wrong = {command: why for command in commands if (why := refused(command, monkeypatch))}
    assert wrong == {}


@cache
def ran(command: str) -> tuple[int, str]:
    """Exit code and output of a command in the repository."""
    words, told = shlex.split(command), io.StringIO()
    with chdir(REPOSITORY), redirect_stdout(told):
        if words[0] == "ncubble":
            done = CliRunner(env={"COLUMNS": "400", "FORCE_COLOR": None}).invoke(main.app, words[1:])
            return done.exit_code, done.output
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", words[2:])
            try:
                runpy.run_module(words[2], run_name="__main__", alter_sys=True)
            except SystemExit as ended:
                return int(ended.code or 0), told.getvalue()
    return 0, told.getvalue()


@pytest.mark.parametrize("command", sorted(filter(runnable, shown())))
def test_a_command_that_needs_no_gpu_runs_and_prints_commands_that_exist(command: str) -> None:
    code, output = ran(command)
    assert code == (REGRESSION in command or "missed" in output), output  # a benchmark ends with 1 then
    printed = re.findall(r"(?:^|: |`)(ncubble [a-z][^`\n]*)", output, re.MULTILINE)
    assert {line: unknown(line) for line in printed if unknown(line)} == {}


def beside(text: str) -> Iterator[tuple[str, list[str]]]:
    """Sentences that name commands on recordings, with the block that a colon announces."""
    blocks = re.split(r"\n\s*\n|\n(?=- )", text)
    for block, following in zip(blocks, [*blocks[1:], ""], strict=True):
        named = [" ".join(words.split()) for words in IN_TEXT.findall(block)]
        commands = [
            words
            for words in named
            if words.startswith(STARTS) and re.search("recordings/|--show", words) and runnable(words)
        ]
        if commands and not block.startswith("|"):
            announced = following if block.rstrip().endswith(":") and following.startswith(("```", "|")) else ""
            yield f"{block}\n{announced}", commands


def test_figures_beside_a_command_are_what_it_prints() -> None:
    wrong, compared = [], 0
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        tables = " ".join(re.findall(r"<!-- generated:.*?<!-- end", text, re.DOTALL))
        for passage, commands in beside(text.replace(tables, "")):
            known = NUMBER.findall(" ".join([tables, *(ran(command)[1] for command in commands)]))
            for figure in re.findall(r"(?<![\w.])-?\d+\.\d+(?![\w.])", re.sub(r"`[^`\n]*`", "", passage)):
                compared += 1
                digits = len(figure.partition(".")[2])
                if not any(f"{float(number):.{digits}f}" == figure for number in known):
                    wrong.append(f"{path.name}: {figure} is not printed by {commands}")
    assert compared > 20
    assert wrong == []


def test_every_make_target_that_the_docs_show_exists(repository: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (repository / "Makefile").read_text(), re.MULTILINE))
    shown = {
        target
        for path in DOCUMENTS
        for target in re.findall(r"(?:^ +|`)make ([a-z-]+)", path.read_text(), re.MULTILINE)
    }
    assert {"demo", "test"} <= shown <= targets


def test_every_local_link_leads_somewhere() -> None:
    broken = []
    for path in DOCUMENTS:
        links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", path.read_text())
        broken += [f"{path.name}: {link}" for link in links if not (path.parent / link).exists()]
    assert not broken, broken


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("ncubble --version", ""),
        ("ncubble no-such-command x", "command no-such-command"),
        ("ncubble --no-such-option", "option --no-such-option"),
    ],
)
def test_what_does_not_exist_is_found(line: str, wrong: str) -> None:
    assert unknown(line) == wrong


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("python -m benchmarks.claims --list", ""),
        ("python -m benchmarks.claims --no-such-option", "ends with 2"),
        ("python -m benchmarks.no_such_module", "no module benchmarks.no_such_module"),
    ],
)
def test_a_benchmark_that_does_not_take_its_options_is_found(
    command: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refused(command, monkeypatch) == why


def test_a_sentence_has_the_commands_that_stand_in_it_and_the_block_that_it_announces() -> None:
    command = "ncubble report recordings/h200/gemm_tma"
    text = f"It takes 3.1 (`{command}`):\n\n```\n4.2\n```\n\nOther 5.3.\n\n`ncubble report runs`: 6.4"
    assert [(re.findall(r"\d\.\d", passage), commands) for passage, commands in beside(text)] == [
        (["3.1", "4.2"], [command])
    ]
