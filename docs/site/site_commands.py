"""The reference of commands, read from the typer app: a page for each command, and a list."""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import Any

from ncubble.cli import main

FOLDER = "reference/commands"


@cache
def command_pages() -> dict[str, str]:
    """Markdown by the address of the page: the list first, then commands in the order of
    ``ncubble --help``."""
    group = main.command_line()
    commands = dict(_leaves(group, ()))
    head = ["# Commands", "", "Generated from `ncubble --help`.", "", "| command |  |", "| -- | -- |"]
    rows = [f"| [ncubble {name}]({_file(name)}) | {_cell(_summary(command))} |" for name, command in commands.items()]
    index = {f"{FOLDER}/index.md": "\n".join([*head, *rows, ""])}
    return index | {f"{FOLDER}/{_file(name)}": _page(name, command) for name, command in commands.items()}


def _leaves(command: Any, path: tuple[str, ...]) -> list[tuple[str, Any]]:
    children = getattr(command, "commands", {})
    found = [pair for name, child in children.items() if not child.hidden for pair in _leaves(child, (*path, name))]
    return found or [(" ".join(path), command)]


def _file(name: str) -> str:
    return f"{name.replace(' ', '-')}.md"


def _help(command: Any) -> str:
    return inspect.cleandoc(command.help or "").split("\f")[0]


def _summary(command: Any) -> str:
    return " ".join(_help(command).split("\n\n")[0].split())


def _page(name: str, command: Any) -> str:
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    usage = " ".join(["ncubble", name, *(["[OPTIONS]"] if options else []), *map(_usage, arguments)])
    lines = [f"# ncubble {name}", "", *_text(_help(command)), "", "```text", usage, "```", ""]
    lines += _table("Arguments", [_argument(argument) for argument in arguments])
    lines += _table("Options", [_option(option) for option in options if not option.hidden])
    return "\n".join(lines)


def _text(text: str) -> list[str]:
    """Paragraphs of a help text; indented ones, and those after a form feed, are code."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        body = paragraph.replace("\b", "").strip("\n")
        code = "\b" in paragraph or body.startswith("    ")
        lines += ["```text", inspect.cleandoc(body), "```", ""] if code else [_escaped(body), ""]
    return lines[:-1]


def _usage(argument: Any) -> str:
    name = _metavar(argument)
    return (name if argument.required else f"[{name}]") + ("…" if argument.nargs == -1 else "")


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper()).strip("{}[]").removesuffix("...")


def _argument(argument: Any) -> tuple[str, str]:
    return f"`{_usage(argument)}`", _cell(argument.help or "")


def _option(option: Any) -> tuple[str, str]:
    value = "" if option.is_flag else f" {_metavar(option)}"
    spellings = [*option.opts[:-1], *(f"{name}{value}" for name in option.opts[-1:]), *option.secondary_opts]
    names = ", ".join(f"`{name}`" for name in spellings)
    default = option.default
    shown = default is not None and not callable(default) and default not in ((), [], "", False) and not option.is_flag
    suffix = f" Default: `{default}`." if shown else ""
    return _cell(names), _cell(f"{option.help or ''}{suffix}")


def _table(title: str, rows: list[tuple[str, str]]) -> list[str]:
    body = [f"| {name} | {text} |" for name, text in rows]
    return [f"## {title}", "", f"| {title[:-1].lower()} |  |", "| -- | -- |", *body, ""] if rows else []


def _cell(text: str) -> str:
    return _escaped(" ".join(text.split())).replace("|", "\\|")


def _escaped(text: str) -> str:
    """Text of a help, with what Markdown would take for markup outside of code spans escaped."""
    parts = text.split("`")
    return "`".join(part if at % 2 else re.sub(r"([*_<\[])", r"\\\1", part) for at, part in enumerate(parts))
