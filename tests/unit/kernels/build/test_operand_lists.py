"""The operand lists of wgmma name every register of D once, in order, for every size."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from ncubble.kernels.build import HEADERS

SIZES = range(32, 129, 4)


def test_every_list_names_each_register_once_and_in_order() -> None:
    if not (compiler := shutil.which("g++")):
        pytest.skip("needs g++")
    texts = [(HEADERS / name).read_text(encoding="utf-8") for name in ("wgmma_operands.cuh", "wgmma_sizes.cuh")]
    lists = re.findall(r"^#define NCUBBLE_[DF]\d+\b(?:[^\n]*\\\n)*[^\n]*$", "\n".join(texts), re.MULTILINE)
    uses = [f"{size} D {{ NCUBBLE_D{size} }}\n{size} F {{ NCUBBLE_F{size}(d) }}" for size in SIZES]
    done = subprocess.run(
        [compiler, "-E", "-P", "-xc++", "-"],
        input="\n".join([*lists, *uses]),
        text=True,
        capture_output=True,
        check=True,
    )
    rows = re.findall(r"(\d+) ([DF]) \{(.*?)\}", done.stdout, re.DOTALL)
    found = {(int(size), kind): text for size, kind, text in rows}
    for size in SIZES:
        names = "".join(re.findall(r'"([^"]*)"', found[size, "D"]))
        assert names == ", ".join(f"%{register}" for register in range(size))
        places = re.findall(r'"\+f"\(d\[([()\d+ ]+)\]\)', found[size, "F"])
        assert [sum(map(int, re.findall(r"\d+", place))) for place in places] == list(range(size))
