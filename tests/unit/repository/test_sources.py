"""Words that no file of the repository may hold."""

from __future__ import annotations

import re
from pathlib import Path

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
