"""The reference in api.md, from the names, signatures and docstrings of ``ncubble``.

``python docs/api_reference.py`` prints it, ``python docs/api_reference.py --write`` puts it between
its markers in api.md.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ncubble

GUIDE = Path(__file__).resolve().parent / "api.md"
BEGIN, END = "<!-- generated: api -->", "<!-- end: api -->"


def block() -> str:
    """The generated block, without its markers: functions, then classes, each by name."""
    things = {name: getattr(ncubble, name) for name in ncubble.__all__}
    functions = [name for name, thing in things.items() if inspect.isfunction(thing)]
    return "\n".join(
        [
            *(line for name in functions for line in _function(f"ncubble.{name}", things[name], "###")),
            *(line for name, thing in things.items() if name not in functions for line in _class(name, thing)),
        ]
    ).rstrip()


def _function(title: str, function: Any, level: str) -> Iterator[str]:
    yield from (f"{level} {title}", "", "```python", signature(function), "```", "", text(function), "")


def signature(function: Any) -> str:
    """``name(first, *, second=3) -> Result``, a line for each argument where that is long, without
    types: editors show them."""
    found = inspect.signature(function)
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in found.parameters.values()]
    plain = [each for each in plain if each.name != "self"]
    result = str(found.return_annotation).strip("'\"")
    gives = "" if result == "None" else f" -> {result}"
    short = f"{function.__name__}{found.replace(parameters=plain, return_annotation=found.empty)}{gives}"
    if len(short) <= 88:
        return short
    keyword, lines = False, []
    for each in plain:
        if each.kind is each.KEYWORD_ONLY and not keyword and not any("*" in line for line in lines):
            lines.append("    *,")
        keyword = keyword or each.kind is each.KEYWORD_ONLY
        lines.append(f"    {each},")
    return "\n".join([f"{function.__name__}(", *lines, f"){gives}"])


def _class(name: str, thing: type) -> Iterator[str]:
    """A class with its whole docstring, and of each member the first sentence: ``help()`` has the
    rest."""
    yield from (f"### {name}", "", text(thing), "")
    for member, value in vars(thing).items():
        if member.startswith("_"):
            continue
        if isinstance(value, property):
            yield f"- `.{member}`: {_sentence(value.fget)}"
        elif inspect.isfunction(value):
            yield f"- `.{signature(value)}`: {_sentence(value)}"
    yield ""


def text(thing: Any) -> str:
    """A docstring as Markdown."""
    return re.sub(r"``([^`]+)``", r"`\1`", inspect.getdoc(thing) or "")


def _sentence(thing: Any) -> str:
    first = re.split(r"(?<=\.)\s", text(thing), maxsplit=1)[0]
    return first.replace("\n", " ")


def replaced(guide: str, content: str) -> str:
    """``guide`` with ``content`` between its markers."""
    head, rest = guide.split(BEGIN)
    return f"{head}{BEGIN}\n\n{content}\n\n{END}{rest.split(END)[1]}"


def main() -> None:
    """Prints the reference, or writes it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="update docs/api.md")
    if parser.parse_args().write:
        GUIDE.write_text(replaced(GUIDE.read_text(encoding="utf-8"), block()), encoding="utf-8")
    else:
        sys.stdout.write(block() + "\n")


if __name__ == "__main__":
    main()
