"""README and docs show commands that exist, options that these commands have, and files that are
there."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import click
import pytest

from ncubble.cli import main


@cache
def command_tree() -> click.Group:
    command = main.command_line()
    assert isinstance(command, click.Group) or hasattr(command, "commands")
    return command  # type: ignore[return-value]


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


def unknown(line: str) -> str:
    """What in ``ncubble …`` does not exist: a command or an option; empty where all of it does."""
    words = shlex.split(line)[1:]
    command: object = command_tree()
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]  # type: ignore[attr-defined]
    if hasattr(command, "commands") and words and not words[0].startswith("-"):
        return f"command {words[0]}"
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}  # type: ignore[attr-defined]
    used = [
        word.split("=")[0] for word in words[: words.index("--") if "--" in words else None] if word.startswith("-")
    ]
    wrong = [word for word in used if word not in options | {"-h", "--help"}]
    return f"option {wrong[0]}" if wrong else ""


def documents(root: Path) -> list[Path]:
    docs = root / "docs"
    return [*sorted(root.glob("*.md")), *sorted(docs.rglob("*.md"))]


def test_readme_is_short(repository: Path) -> None:
    assert len((repository / "README.md").read_text().splitlines()) <= 150


def test_every_command_that_the_docs_show_exists(repository: Path) -> None:
    shown = [
        (path.name, line)
        for path in documents(repository)
        for line in code_lines(path.read_text())
        if line.startswith("ncubble ") and "<-" not in line  # the drawing of the rooms
    ]
    assert shown
    assert {f"{name}: {line}": unknown(line) for name, line in shown if unknown(line)} == {}


def test_every_make_target_that_the_docs_show_exists(repository: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (repository / "Makefile").read_text(), re.MULTILINE))
    shown = {
        target
        for path in documents(repository)
        for target in re.findall(r"(?:^ +|`)make ([a-z-]+)", path.read_text(), re.MULTILINE)
    }
    assert {"demo", "test"} <= shown <= targets


def test_every_local_link_leads_somewhere(repository: Path) -> None:
    broken = []
    for path in documents(repository):
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
