"""Words that no file may hold, and what modules may do: no relative imports, one home of the native
report reader, and only the command line exits. That rooms import one way is a contract of
import-linter (pyproject.toml, ``make lint``)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

# Folders of one machine, and hosts of package registries: neither says anything to a reader
# elsewhere.
PRIVATE = re.compile(r"(?<![\w.])/(?:work|farm|root)/|(?:pypi|npmjs|pythonhosted)\.(?:org|com)|/opt/py(?:pi)", re.ASCII)


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
