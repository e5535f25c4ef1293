"""A Triton GEMM at every depth of a list of tiles, in one process: what predictions of depth are
held against.

    python -m benchmarks.foreign.depths --compile 8
    ncubble profile --nvtx measured/ --out RUN -- python -m benchmarks.foreign.depths

Each launch is named depth.TILE.kK.sSTAGES, and its facts are those of one kernel with parameters,
so that the depths of a tile make a sweep. What does not fit into shared memory is skipped, with a
note on stderr. ``--compile`` fills Triton's cache in so many processes and launches nothing under a
profiler.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.foreign import plan, prepare, programs
from benchmarks.foreign.experiment import Launch

Tile = tuple[int, int, int]
TILES: tuple[Tile, ...] = ((128, 128, 64), (128, 256, 64), (64, 128, 64), (128, 128, 32))
DEPTHS = (1, 2, 3, 4, 5, 6)
KS = (4096, 1024)
ROWS = COLUMNS = 4096
KERNEL = "triton_gemm"


def launches(tiles: Sequence[Tile], depths: Sequence[int], ks: Sequence[int]) -> Iterator[Launch]:
    """Every tile at every K and depth that fits."""
    for tile in tiles:
        for k in ks:
            for stages in depths:
                name = f"depth.{'x'.join(str(size) for size in tile)}.k{k}.s{stages}"
                if not plan.fits(tile, stages):
                    print(f"skipped {name}: the ring does not fit into shared memory", file=sys.stderr)
                    continue
                warps = 8 if tile[0] * tile[1] > 64 * 128 else 4
                shape = {"m": ROWS, "n": COLUMNS, "k": k}
                yield Launch(
                    name, "gemm", {**shape, "tile": tile, "stages": stages, "warps": warps, "dtype": "float16"}
                )


def name_facts(path: Path) -> None:
    """Give every launch in a facts file the name of the kernel; its parameters tell the rest."""
    told = json.loads(path.read_text())
    for launch in told["launches"]:
        launch["name"] = KERNEL
        del launch["parameters"]["program"]
    path.write_text(json.dumps(told))


def _tile(text: str) -> Tile:
    bm, bn, bk = (int(size) for size in text.split("x"))
    return bm, bn, bk


def main() -> int:
    parser = programs.options(__doc__)
    parser.add_argument("--tiles", nargs="+", type=_tile, default=TILES, metavar="MxNxK")
    parser.add_argument("--depths", nargs="+", type=int, default=DEPTHS)
    parser.add_argument("--k", nargs="+", type=int, default=KS)
    parser.add_argument("--compile", type=int, default=0, metavar="PROCESSES")
    given = parser.parse_args()
    wanted = list(launches(given.tiles, given.depths, given.k))
    if given.compile:
        argv = [sys.executable, "-m", "benchmarks.foreign.depths"]
        argv += ["--tiles", *("x".join(str(size) for size in tile) for tile in given.tiles)]
        argv += ["--depths", *(str(stages) for stages in given.depths), "--k", *(str(k) for k in given.k)]
        told = prepare.prepare(argv, [launch.name for launch in wanted], given.compile)
        for name, error in told.errors.items():
            print(f"FAILED {name}: {error}")
        return int(bool(told.errors))
    status = programs.serve("foreign_depths", wanted, given)
    if not given.check and (path := os.environ.get("NCUBBLE_FACTS")) and Path(path).is_file():
        name_facts(Path(path))
    return status


if __name__ == "__main__":
    sys.exit(main())
