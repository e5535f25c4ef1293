"""Limits of size that keep files readable, and words that no file of the repository may hold."""

from __future__ import annotations

import ast
import re
from pathlib import Path

FILE_LINES = 300
FUNCTION_LINES = 60

# Folders of one machine, and hosts of package registries: neither says anything to a reader
# elsewhere.
PRIVATE = re.compile(r"(?<![\w.])/(?:work|farm|root)/|(?:pypi|npmjs|pythonhosted)\.(?:org|com)|/opt/py(?:pi)", re.ASCII)


def long_functions(source: str) -> list[tuple[str, int]]:
    """Name and number of lines of every function above the limit, decorators not counted."""
    functions = (
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    sizes = ((node.name, (node.end_lineno or node.lineno) - node.lineno + 1) for node in functions)
    return [(name, size) for name, size in sizes if size > FUNCTION_LINES]


def test_no_product_file_is_long(repository: Path, sources: list[Path]) -> None:
    lengths = {str(path.relative_to(repository)): len(path.read_text().splitlines()) for path in sources}
    assert {name: length for name, length in lengths.items() if length > FILE_LINES} == {}


def test_no_product_function_is_long(repository: Path, sources: list[Path]) -> None:
    found = {str(path.relative_to(repository)): long_functions(path.read_text()) for path in sources}
    assert {name: functions for name, functions in found.items() if functions} == {}


def test_nine_functions_in_ten_are_under_40_lines(sources: list[Path]) -> None:
    nodes = [node for path in sources for node in ast.walk(ast.parse(path.read_text()))]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    sizes = sorted((node.end_lineno or node.lineno) - node.lineno + 1 for node in functions)
    assert sizes[len(sizes) * 9 // 10] < 40


def test_no_file_names_one_machine_or_a_registry(repository: Path, tracked: list[Path]) -> None:
    found = []
    for path in tracked:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(repository)}:{row}" for row, line in enumerate(lines, 1) if PRIVATE.search(line)]
    assert not found, "\n".join(found)


def test_private_paths_are_recognized() -> None:
    for text in ("/wo" + "rk/main", 'file = "/ro' + 'ot/x"', "https://py" + "pi.org/simple"):
        assert PRIVATE.search(text), text
    for text in ("network/work/x", "https://host/work/item", "the work/life", "$HOME/work"):
        assert not PRIVATE.search(text), text


def test_a_long_function_is_recognized() -> None:
    body = "\n".join("    x = 1" for _ in range(FUNCTION_LINES))
    assert long_functions(f"def f():\n{body}\n") == [("f", FUNCTION_LINES + 1)]
    assert long_functions(f"def f():\n{body[:-10]}\n") == []
