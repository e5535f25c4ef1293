"""The size of the house: code lines of each room, uses of ``Any``, commands with their options, words of the docs.

    python -m benchmarks.house            # prints all of them
    python -m benchmarks.house --write    # lowers the ceilings in ceilings.toml to what is there today

A code line holds something besides comments and docstrings; lines are formatted at 120 columns. Links do not count.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CEILINGS = ROOT / "ceilings.toml"
PRODUCT = ("ncubble", "kernels", "profiling", "analysis", "dashboard", "api", "cli")
ROOMS = (*PRODUCT, "tests", "benchmarks")
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def tracked(*patterns: str) -> list[Path]:
    """Files that git tracks or would, without links."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    names = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    paths = [ROOT / name for name in sorted(set(names)) if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def code_lines(source: str) -> int:
    """Number of lines with code, docstrings left out."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - set(_docstring_lines(ast.parse(source))))


def _docstring_lines(tree: ast.AST) -> Iterator[int]:
    """Lines of all statements that are a string and nothing else."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def rooms() -> dict[str, int]:
    """Code lines of each room, and of all rooms of the product together."""
    counted: Counter[str] = Counter()
    for path in tracked("*.py"):
        counted[path.relative_to(ROOT).parts[0]] += code_lines(path.read_text(encoding="utf-8"))
    sizes = {room: counted[room] for room in ROOMS}
    return {**sizes, "product": sum(sizes[room] for room in PRODUCT)}


def ceilings() -> dict[str, int]:
    """The most code lines that each room may have."""
    return dict(tomllib.loads(CEILINGS.read_text(encoding="utf-8"))["code_lines"])


def any_count() -> int:
    """Uses of ``typing.Any`` in the product, imports left out."""
    paths = (path for path in tracked("*.py") if path.relative_to(ROOT).parts[0] in PRODUCT)
    names = (node for path in paths for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in names)


def commands() -> dict[str, int]:
    """Commands of ``ncubble`` by their full names, each with the number of its options (``--help`` left out)."""
    from ncubble.cli.main import command_line

    def walk(command: object, name: str) -> Iterator[tuple[str, int]]:
        if below := getattr(command, "commands", None):
            for word, inner in below.items():
                yield from walk(inner, f"{name} {word}".strip())
        elif not getattr(command, "hidden", False):
            options = (param for param in getattr(command, "params", ()) if param.param_type_name == "option")
            yield name, sum(not param.hidden and "--help" not in param.opts for param in options)

    return dict(walk(command_line(), ""))


def docs_words() -> int:
    """Words of all pages below docs/."""
    return sum(len(path.read_text(encoding="utf-8").split()) for path in tracked("docs/*.md"))


def main(argv: list[str]) -> int:
    """Print all sizes; with ``--write``, lower the ceilings."""
    sizes, limits = rooms(), ceilings()
    if argv == ["--write"]:
        text = CEILINGS.read_text(encoding="utf-8")
        for room, size in sizes.items():
            text = re.sub(rf"^{room} = \d+", f"{room} = {min(size, limits[room])}", text, flags=re.MULTILINE)
        CEILINGS.write_text(text, encoding="utf-8")
        return 0
    for room, size in sizes.items():
        print(f"{size:7,} code lines of at most {limits[room]:7,}  {room}")
    options = commands()
    print(f"{any_count():7,} uses of Any in the product")
    print(f"{len(options):7,} commands with {sum(options.values())} options; check has {options['check']}")
    print(f"{docs_words():7,} words of docs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
