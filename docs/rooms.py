"""The picture of rooms in architecture.md, from the import contracts and the imports that the code
really has.

``python docs/rooms.py`` prints it, ``python docs/rooms.py --write`` puts it between its markers in
architecture.md. Needs import-linter (extra ``dev``), with which grimp is installed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
GUIDE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- generated: rooms -->", "<!-- end: rooms -->"
PACKAGE = "ncubble"
ROOMS = ("cli", "api", "dashboard", "analysis", "profiling", "kernels")
_READ_IMPORTS = "import grimp; g = grimp.build_graph('ncubble', cache_dir=None)\n" + (
    "for m in sorted(g.modules): print(m, *sorted(g.find_modules_directly_imported_by(m)))"
)

Imports = Mapping[str, Sequence[str]]
"""Dotted name of each module, and of all modules that it imports, at its top or inside
functions."""


def read_imports() -> dict[str, list[str]]:
    """All imports within the package. In a process of its own, which imports nothing of the
    package."""
    answer = subprocess.run([sys.executable, "-c", _READ_IMPORTS], cwd=ROOT, capture_output=True, text=True, check=True)
    return {words[0]: words[1:] for words in map(str.split, answer.stdout.splitlines())}


def layers(settings: Mapping[str, Any]) -> dict[str, list[list[str]]]:
    """By room, its sub-rooms from the highest layer to the lowest."""
    contracts = [each for each in settings["tool"]["importlinter"]["contracts"] if each["type"] == "layers"]
    found = {}
    for contract in contracts:
        for container in contract.get("containers", []):
            found[container.removeprefix(f"{PACKAGE}.")] = [re.split(r"\s*[:|]\s*", row) for row in contract["layers"]]
    rooms = next(each for each in contracts if "containers" not in each)["layers"]
    base = [[name.removeprefix(f"{PACKAGE}.") for name in re.split(r"\s*[:|]\s*", row)] for row in rooms]
    found[PACKAGE] = [row for row in base if not set(row) & set(ROOMS)]
    return found


def imported(imports: Imports, module: str) -> list[str]:
    """What ``module`` and all below it import, itself left out."""
    inside = (targets for name, targets in imports.items() if below(name, module))
    return sorted({target for targets in inside for target in targets if not below(target, module)})


def below(name: str, module: str) -> bool:
    """Whether ``name`` is ``module`` or lies in it."""
    return name == module or name.startswith(f"{module}.")


def unlisted(imports: Imports, order: Mapping[str, Sequence[Sequence[str]]]) -> list[str]:
    """Sub-rooms that no contract names: packages right below a room."""
    packages = {name.rpartition(".")[0] for name in imports}
    return sorted(
        f"{PACKAGE}.{room}.{name}"
        for room in ROOMS
        for name in {
            name.split(".")[2] for name in packages if below(name, f"{PACKAGE}.{room}") and name.count(".") > 1
        }
        if not any(name in row for row in order.get(room, []))
    )


def picture(imports: Imports, order: Mapping[str, Sequence[Sequence[str]]]) -> str:
    """Rooms from the highest to the lowest, each with its sub-rooms, their layer, and the siblings
    they import."""
    lines = []
    for room in (*ROOMS, PACKAGE):
        path = PACKAGE if room == PACKAGE else f"{PACKAGE}.{room}"
        lines.append(f"{room:22}{_rooms_below(imports, room)}".rstrip())
        lines += _rows(imports, path, order.get(room, []))
    return "\n".join(lines)


def _rooms_below(imports: Imports, room: str) -> str:
    if room == PACKAGE:
        return ""
    targets = imported(imports, f"{PACKAGE}.{room}")
    names = [name for name in ROOMS if any(below(target, f"{PACKAGE}.{name}") for target in targets)]
    return f"-> {' '.join([*names, PACKAGE])}"


def _rows(imports: Imports, path: str, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    names = [name for row in rows for name in row]
    for height, row in zip(range(len(rows), 0, -1), rows, strict=True):
        for name in row:
            targets = imported(imports, f"{path}.{name}")
            siblings = [each for each in names if any(below(target, f"{path}.{each}") for target in targets)]
            yield f"  {height} {name:18}{'-> ' if siblings else ''}{' '.join(siblings)}".rstrip()


def block() -> str:
    """The generated block, without its markers."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    imports, order = read_imports(), layers(settings)
    if missing := unlisted(imports, order):
        raise SystemExit(f"no contract of [tool.importlinter] names {', '.join(missing)}")
    return f"```text\n{picture(imports, order)}\n```"


def replaced(text: str, content: str) -> str:
    """``text`` with ``content`` between its markers."""
    head, rest = text.split(BEGIN)
    return f"{head}{BEGIN}\n{content}\n{END}{rest.split(END)[1]}"


def main() -> None:
    """Prints the picture, or writes it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="update docs/architecture.md")
    content = block()
    if parser.parse_args().write:
        GUIDE.write_text(replaced(GUIDE.read_text(encoding="utf-8"), content), encoding="utf-8")
    else:
        sys.stdout.write(content + "\n")


if __name__ == "__main__":
    main()
