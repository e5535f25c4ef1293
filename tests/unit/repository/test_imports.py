"""No relative imports, one home of the native report reader, and only the command line exits.

That rooms import one way is a contract of import-linter (pyproject.toml, ``make lint``).
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest


def imported_modules(tree: ast.AST) -> set[str]:
    """Dotted names that a file imports, at its top or inside functions, relative ones left out."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def exits(tree: ast.Module) -> list[int]:
    """Lines that end the process, the ``if __name__ == "__main__"`` block left out."""
    lines = []
    for top in tree.body:
        if isinstance(top, ast.If) and "__name__" in ast.unparse(top.test):
            continue
        for node in ast.walk(top):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called in {"sys.exit", "exit", "quit", "os._exit", "SystemExit"}:
                lines.append(node.lineno)
    return lines


def test_no_relative_imports(repository: Path, sources: list[Path]) -> None:
    wrong = [
        f"{path.relative_to(repository)}:{node.lineno}"
        for path in sources
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not wrong, wrong


def test_only_the_worker_imports_the_native_report_reader(repository: Path, sources: list[Path]) -> None:
    readers = {
        str(path.relative_to(repository))
        for path in sources
        if any(name.split(".")[0] == "ncu_report" for name in imported_modules(ast.parse(path.read_text())))
    }
    assert readers == {"analysis/report/native.py"}


def test_only_the_command_line_and_programs_exit(repository: Path, sources: list[Path]) -> None:
    wrong = []
    for path in sources:
        relative = path.relative_to(repository)
        if relative.parts[0] == "cli" or path.name == "__main__.py":
            continue
        wrong += [f"{relative}:{line}" for line in exits(ast.parse(path.read_text()))]
    assert not wrong, wrong


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("import sys\nsys.exit(3)", [2]),
        ("def f():\n    raise SystemExit(1)", [2]),
        ('if __name__ == "__main__":\n    raise SystemExit(1)', []),
        ("raise ValueError", []),
    ],
)
def test_exits_are_seen_outside_of_main_blocks(code: str, lines: list[int]) -> None:
    assert exits(ast.parse(code)) == lines
