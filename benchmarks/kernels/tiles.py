"""Times of every tile that ``gemm_ws`` may take by default over the tuning draw, and the costs that
are fitted to them.

    python -m benchmarks.kernels.tiles OUT     # measure on this machine's GPU: OUT/tiles.json
    python -m benchmarks.kernels.tiles --fit   # from docs/validation/tiles.json: TileCosts of gemm_tiles.py

Behind the 48 shapes of the draw follow 12 of long k and small C (``LONG``), of which the draw has
few. Costs are not fitted to them; they test the choice. Tiles that do not fit C are moved back.

All tiles of a shape and cuBLAS are timed in turns on the same inputs, L2 cleared before each launch.
The fit takes tiles that are within 20 % of a shape's fastest, and leaves out what a shape adds to
all of them alike.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from benchmarks.harness.command import REPOSITORY
from benchmarks.kernels.ladder import BUILDERS
from benchmarks.kernels.shapes import KERNEL, Sizes, drawn
from ncubble.kernels.build import build
from ncubble.kernels.catalog.gemm_tiles import FITTED, OWN, GemmTile, TileCosts, candidates, compared
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.bench import time_in_rounds
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.launch import load_built, prepare
from ncubble.kernels.run.peers import make_peer
from ncubble.kernels.run.verify import draw_inputs
from ncubble.kernels.spec.case import Case, make_case

RESULTS = REPOSITORY / "docs/validation/tiles.json"
MODELS = REPOSITORY / "docs/validation/model-tiles.json"  # of few rows and ragged ones, what several costs would choose
SMS = 132
NEAR = 1.2  # times the fastest tile of a shape
ITERATIONS, ROUNDS = 12, 3
ONE_TILE, MANY = {"m": 64, "n": 64, "k": 64}, {"m": 16384, "n": 16384, "k": 64}
LONG = [
    {"m": m, "n": n, "k": k}
    for m, n, k in (
        (1400, 896, 9984),
        (896, 832, 14080),
        (1536, 1600, 6016),
        (1800, 1088, 7040),
        (1280, 1152, 12032),
        (2304, 1280, 8960),
        (776, 1472, 6208),
        (1128, 1472, 11392),
        (1464, 1088, 9536),
        (2552, 896, 8320),
        (768, 1088, 7168),
        (1288, 1600, 7360),
    )
]
LAUNCH_US = 4.0  # of a launch, in any time
NAMES = [field.name for field in fields(TileCosts)][:9]  # costs that this draw tells: no few rows, no ragged ones
SHAPES_OWN = 0.95  # of a shape's mean deviation, left to the shape
PRIOR = 0.3  # weight of a deviation from FITTED, against that of a shape


def label(tile: GemmTile) -> str:
    parts = f" split {tile.split}" if tile.split > 1 else ""
    return f"{tile.form} {tile.tile_m}x{tile.tile_n} {tile.schedule} {tile.cluster}{parts}"


TILES = {label(tile): tile for tile in (OWN, *candidates())}


def case_of(tile: GemmTile, shape: Sizes) -> Case:
    """All tiles are moved, so that each is built once per band."""
    parameters = tile.parameters(**shape, sms=SMS)
    return make_case(find_spec(KERNEL), {**parameters, "edge": "moved"}, shape)


def measure_shape(gpu: Gpu, shape: Sizes) -> dict[str, Any]:
    """Median times in µs of cuBLAS and of every tile."""
    tiles = [OWN, *compared(**shape, sms=SMS)]
    base = prepare(case_of(OWN, shape), gpu)
    base.upload(draw_inputs(base.case, 1))
    peer = make_peer(base)
    runs = []
    for tile in tiles:
        case = case_of(tile, shape)
        runs.append(load_built(build(case, gpu.arch), case, gpu, base.pointers)[1])
    rounds = time_in_rounds(gpu, [peer.run, *runs], ITERATIONS, ROUNDS)
    library, *own = [round(each.timing.p50_us, 2) for each in rounds]
    gpu.free()
    return {"shape": shape, "library_us": library, "us": dict(zip(map(label, tiles), own, strict=True))}


def measure(out: Path) -> None:
    gpu = Gpu.open()
    try:
        with ThreadPoolExecutor(BUILDERS) as pool:
            list(pool.map(lambda each: build(case_of(*each), gpu.arch), product(TILES.values(), (ONE_TILE, MANY))))
        found = []
        for shape in (*drawn("tuning"), *LONG):
            found.append(measure_shape(gpu, shape))
            print(shape, min(found[-1]["us"].values()), found[-1]["library_us"], flush=True)
            lines = ",\n".join(json.dumps(each) for each in found)
            text = f'{{"device": "{gpu.facts.name}", "shapes": [\n{lines}\n]}}\n'
            (out / "tiles.json").write_text(text, encoding="utf-8")
    finally:
        gpu.close()


def fit(shapes: Sequence[dict[str, Any]]) -> TileCosts:
    """The costs that rank the measured tiles best, by least squares of logarithms."""
    rows: list[tuple[int, GemmTile, float]] = []
    for index, row in enumerate(shapes):
        fair = {label(tile) for tile in compared(**row["shape"], sms=SMS)} & set(row["us"])
        fastest = min(row["us"].values())
        rows += [(index, TILES[name], row["us"][name]) for name in fair if row["us"][name] < NEAR * fastest]
    index = np.array([row[0] for row in rows])
    measured = np.log([row[2] for row in rows])
    counts = np.bincount(index, minlength=len(shapes))
    start = np.array([getattr(FITTED, name) for name in NAMES])

    def deviations(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        costs = replace(FITTED, **dict(zip(NAMES, values, strict=True)))
        times = [LAUNCH_US + tile.predicted_us(**shapes[at]["shape"], sms=SMS, costs=costs) for at, tile, _ in rows]
        off = np.log(times) - measured
        off -= SHAPES_OWN * (np.bincount(index, off, len(shapes)) / np.maximum(counts, 1))[index]
        return np.concatenate([3.0 * off / np.sqrt(counts[index]), PRIOR * np.log(values / start)])

    found = least_squares(deviations, start, bounds=(1e-3, 20.0), loss="soft_l1", f_scale=0.03, max_nfev=30)
    return replace(FITTED, **{name: round(float(value), 3) for name, value in zip(NAMES, found.x, strict=True)})


def lost(shapes: Sequence[dict[str, Any]], costs: TileCosts) -> float:
    """Geometric mean of the chosen tile's time over the fastest one's, among those that were
    timed."""
    losses = []
    for row in shapes:
        known = [tile for tile in compared(**row["shape"], sms=SMS) if label(tile) in row["us"]]
        chosen = min(known, key=lambda tile: tile.predicted_us(**row["shape"], sms=SMS, costs=costs))
        losses.append(row["us"][label(chosen)] / min(row["us"][label(tile)] for tile in known))
    return math.exp(float(np.mean(np.log(losses))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", metavar="OUT")
    parser.add_argument("--fit", action="store_true", help="print the costs that fit the committed times")
    given = parser.parse_args()
    if given.fit:
        shapes = json.loads(RESULTS.read_text(encoding="utf-8"))["shapes"]
        costs = fit(shapes[: -len(LONG)])
        for field in fields(costs):
            print(f"{field.name}: {getattr(costs, field.name)} (now {getattr(FITTED, field.name)})")
        for name, part in (("drawn", shapes[: -len(LONG)]), ("long", shapes[-len(LONG) :])):
            print(f"{name}: chosen tiles take {lost(part, costs):.3f} x the time of the fastest")
        return 0
    if given.out is None:
        parser.error("name a folder for the results, or --fit")
    given.out.mkdir(parents=True, exist_ok=True)
    measure(given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
