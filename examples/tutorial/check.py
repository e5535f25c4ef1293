"""Which exercises of the tutorial are done, as far as that can be seen without a GPU.

    python examples/tutorial/check.py                # all of them
    python examples/tutorial/check.py ex2_cp_async   # one

Each source is compiled (nvcc and g++), and its machine code searched for what the exercise brings
in. Whether the result is right says ``ncubble verify NAME --catalog examples/tutorial``, on a GPU.
Exit code 0 if all that were asked for are done.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from ncubble.errors import NcubbleError
from ncubble.kernels.build import broken_promises, build, disassemble
from ncubble.kernels.catalog.registry import user_specs
from ncubble.kernels.spec.case import Case, make_case

HERE = Path(__file__).resolve().parent
ARCH = "sm_90a"
IN_FLIGHT = {
    "ex3_stages": (r"DEPBAR\.LE SB0, 0x[1-9]", "a wait that leaves groups of copies in flight"),
    "ex5_tma": (r"WARPGROUP\.DEPBAR\.LE gsb0, 0x1", "a wait that leaves one product running"),
}
COUNT = r"""
#include <cstdio>
#include <set>
#include "ex4_layout.h"
template <int kRow> int worst() {
    int worst = 1;
    for (unsigned first = 0; first < 64; first += 8)
        for (unsigned column = 0; column < kRow; column += 16) {
            int in_bank[8] = {};
            for (unsigned row = first; row < first + 8; ++row) {
                const int count = ++in_bank[placed_by_me<kRow>(row, column) / 16 % 8];
                worst = count > worst ? count : worst;
            }
        }
    return worst;
}
template <int kRow> bool distinct() {
    std::set<unsigned> places;
    for (unsigned row = 0; row < 64; ++row)
        for (unsigned column = 0; column < kRow; column += 16) {
            const unsigned place = placed_by_me<kRow>(row, column);
            if (place / 128 != (row * kRow + column) / 128 || place % 16) return false;
            places.insert(place);
        }
    return places.size() == 64u * kRow / 16;
}
int main() {
    const bool right = distinct<128>() && distinct<512>();
    std::printf("%d %d %d\n", right, worst<128>(), worst<512>());
}
"""


def conflicts(folder: Path) -> list[str]:
    """What is wrong with the layout of ``ex4_layout.h``: pieces that share a place, or cycles that
    ldmatrix takes beyond one."""
    with tempfile.TemporaryDirectory() as scratch:
        source, program = Path(scratch) / "count.cpp", Path(scratch) / "count"
        source.write_text(COUNT, encoding="utf-8")
        subprocess.run(["g++", "-std=c++17", f"-I{folder}", source, "-o", program], check=True)
        right, *cycles = map(int, subprocess.run([program], capture_output=True, check=True).stdout.split())
    if not right:
        return ["ex4_layout.h: two pieces share a place, or one left its 128 bytes"]
    rows = zip(("A (rows of 128 bytes)", "B (rows of 512 bytes)"), cycles, strict=True)
    return [f"ex4_layout.h: eight rows of {tile} take {count} cycles, not 1" for tile, count in rows if count > 1]


def missing(case: Case) -> list[str]:
    """What an exercise still lacks, in words; empty when it is done. Raises NcubbleError where the
    source does not compile."""
    name = case.spec.name
    built = build(case, ARCH)
    lacks = [line.partition(": ")[2] for line in broken_promises(case, ARCH, built)]
    if name in IN_FLIGHT and not re.search(IN_FLIGHT[name][0], disassemble(built.cubin)):
        lacks.append(f"no {IN_FLIGHT[name][1].removeprefix('a ')}")
    return lacks + (conflicts(case.spec.path.parent) if name == "ex4_swizzle" else [])


def main() -> int:
    """Print a line for each exercise, and what it lacks."""
    specs = {spec.name: spec for spec in user_specs(HERE)}
    done = True
    for name in sys.argv[1:] or specs:
        try:
            lacks = (
                missing(make_case(specs[name]))
                if name in specs
                else [f"no such exercise; there are: {', '.join(specs)}"]
            )
        except NcubbleError as error:
            lacks = [error.message]
        done &= not lacks
        print(f"{name}: {'to do' if lacks else 'done: ncubble verify ' + name + ' --catalog examples/tutorial'}")
        print("".join(f"  {line}\n" for line in lacks), end="")
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
