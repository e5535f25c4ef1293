"""Runs in an exported file by name: it goes to others, whom the folders of the machine that wrote
it do not concern."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from dash.development.base_component import Component

from ncubble.text.markdown import escape

NAMED = 2
"""Parts at the end of a path that name a run."""
Rename = Callable[[str], str]


def renamer(paths: Iterable[str]) -> Rename:
    """What puts the last parts of each of ``paths`` in place of the whole of it, wherever that
    stands in a text."""
    names = {path: "/".join(Path(path).parts[-NAMED:]) for path in paths if len(Path(path).parts) > NAMED}
    names |= {escape(path): escape(name) for path, name in names.items()}  # as Markdown to be copied has them
    if not names:
        return str
    # The longest first: one run may lie below another.
    found = re.compile("|".join(re.escape(path) for path in sorted(names, key=len, reverse=True)))
    return lambda text: found.sub(lambda match: names[match[0]], text)


def renamed(tree: Any, rename: Rename) -> Any:
    """The tree, whose texts, titles and values of text fields are changed in place."""
    if isinstance(tree, str):
        return rename(tree)
    if isinstance(tree, list | tuple):
        return [renamed(one, rename) for one in tree]
    if isinstance(tree, Component):
        for name in ("children", "title", "value", "aria-label"):
            if (value := getattr(tree, name, None)) is not None:
                setattr(tree, name, renamed(value, rename))
    return tree
