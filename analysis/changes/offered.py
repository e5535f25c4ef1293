"""What a launch of a Triton kernel may choose, by its source: constants, and the depth of loops."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ncubble.analysis.changes.change import ORDERS, kind_of_constant
from ncubble.analysis.report.report import Launch, once_per_launch

CONSTANT = "constexpr"
"""Word of the annotation that makes a parameter of a kernel a constant."""
DEEPEST = 3
"""Calls below the kernel in which a loop is looked for."""


@dataclass(frozen=True)
class Offered:
    """``names`` of constants by the kind of their change; ``loops``: whether it has a loop, which
    ``num_stages`` pipelines."""

    names: Mapping[str, str]
    loops: bool


@once_per_launch
def offered_by(launch: Launch) -> Offered | None:
    """What the kernel of a launch offers; None where its report has no source of it."""
    name = launch.identity.demangled
    for text in launch.report.files.values():
        function = _function(text, name)
        if function is not None:
            arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            constants = [one.arg for one in arguments if one.annotation and CONSTANT in ast.unparse(one.annotation)]
            kinds = {kind_of_constant(constant, ORDERS[-1]): constant for constant in reversed(constants)}
            return Offered(
                {kind: constant for kind, constant in kinds.items() if kind}, _loops(text, function, DEEPEST)
            )
    return None


def _function(text: str, name: str) -> ast.FunctionDef | None:
    """The function ``name`` of a file; only its own lines are parsed. None where there is none, or
    what stands there is no Python."""
    start = re.search(rf"^([ \t]*)def {re.escape(name)}\(", text, re.MULTILINE)
    if start is None:
        return None
    try:
        (function,) = ast.parse(textwrap.dedent("\n".join(_block(text[start.start() :], len(start[1]))))).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return function if isinstance(function, ast.FunctionDef) else None


def _block(text: str, indent: int) -> Iterator[str]:
    """The lines of a function that begins ``text``, until one that is indented as little. Its
    signature may end so."""
    for number, line in enumerate(text.splitlines()):
        if number and line.strip() and len(line) - len(line.lstrip()) <= indent and not line.lstrip().startswith(")"):
            return
        yield line


def _loops(text: str, function: ast.FunctionDef, deep: int) -> bool:
    """Whether a function has a loop, or one that it calls in the same file."""
    nodes = list(ast.walk(function))
    if any(isinstance(node, ast.For | ast.While) for node in nodes):
        return True
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    found = (_function(text, name) for name in sorted(called - {function.name})) if deep else ()
    return any(_loops(text, one, deep - 1) for one in found if one is not None)
