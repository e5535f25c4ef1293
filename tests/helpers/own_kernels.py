"""The kernels that docs/own-kernels.md shows, as files."""

from __future__ import annotations

import re
from pathlib import Path

NAMES = ("scale.cu", "scale.py", "tiles.py", "scale_tiles.py")


def write_own_kernels(folder: Path) -> Path:
    """Writes the code blocks of the page into ``folder``, and returns it."""
    text = (Path(__file__).parents[2] / "docs" / "own-kernels.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:cuda|python)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for name, block in zip(NAMES, blocks, strict=True):
        assert name in text
        (folder / name).write_text(block, encoding="utf-8")
    return folder
