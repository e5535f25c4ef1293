"""``gemm_ws`` over shapes off the powers of two, drawn by rules, in turns with cuBLAS.

    python -m benchmarks.kernels.shapes OUT [--draw models]   # measure on this machine's GPU: OUT/shapes.json, or
                                                              # of draws of models OUT/model-shapes.json
    python -m benchmarks.kernels.shapes --write               # write docs/kernels.md from these in docs/validation

The rules, written down before anything was measured. Of the draws ``test`` and ``tuning``, ``m`` is
a number of tokens, a multiple of 8; ``n`` and ``k`` are widths of layers, multiples of 64. Each is
log-uniform, ``m`` and ``n`` from 768 (the narrowest layers of language models in use) to 16384,
``k`` from 512 to 16384. A power of two is drawn again.

Of ``models`` and ``models-tuning``, ``m`` is any number of tokens from 1 to 8192, log-uniform;
``n`` and ``k`` are those of a layer of a published model: model and layer are drawn from ``MODELS``
and ``LAYERS``. Every fourth shape is odd: 8 to 56 elements are taken from ``n``, and from ``k``, so
that rows are no multiple of 128 bytes, though of the 16 that TMA can step over. ``models-second``
and ``models-third`` are drawn likewise, ``rows-tuning`` with at most 256 tokens.

A product of more than 2^42 FLOP (some 6 ms on an H100) is drawn again. ``test`` and the draws of
``models`` are what is scored and never tuned on; defaults of the kernel are fitted to the others
(``kernels/catalog/gemm_tiles.py``). Every measurement adds a line to ``scorings`` of the results,
so that none is left out.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.harness.blocks import fill, table
from benchmarks.harness.command import REPOSITORY
from benchmarks.kernels.ladder import DOCUMENT, build_all, measure_against, merged, revision
from benchmarks.kernels.plan import Entry
from benchmarks.kernels.tables import extent, words
from ncubble.kernels.run.device import Gpu

KERNEL = "gemm_ws"
DRAWS = {  # seed, shapes
    "test": (21, 24),
    "tuning": (22, 48),
    "models": (40, 24),
    "models-tuning": (41, 24),
    "models-second": (47, 24),
    "models-third": (54, 24),
    "rows-tuning": (43, 24),
}
SIMPLE = ("test", "tuning")  # drawn from SIZES
SIZES = {"m": (768, 16384, 8), "n": (768, 16384, 64), "k": (512, 16384, 64)}  # lowest, highest, multiple of
MODELS = {  # widths of the residual stream, of queries, of keys or values, and inside the feed-forward layers
    "GPT-2 XL": (1600, 1600, 1600, 6400),
    "GPT-3": (12288, 12288, 12288, 49152),
    "Llama 2 7B": (4096, 4096, 4096, 11008),
    "Llama 2 13B": (5120, 5120, 5120, 13824),
    "Llama 3.1 8B": (4096, 4096, 1024, 14336),
    "Llama 3.1 70B": (8192, 8192, 1024, 28672),
    "Llama 3.2 1B": (2048, 2048, 512, 8192),
    "Llama 3.2 3B": (3072, 3072, 1024, 8192),
    "Mistral NeMo 12B": (5120, 4096, 1024, 14336),
    "Qwen2.5 0.5B": (896, 896, 128, 4864),
    "Qwen2.5 1.5B": (1536, 1536, 256, 8960),
    "Qwen2.5 7B": (3584, 3584, 512, 18944),
    "Qwen2.5 32B": (5120, 5120, 1024, 27648),
    "Gemma 2 9B": (3584, 4096, 2048, 14336),
    "Gemma 2 27B": (4608, 4096, 2048, 36864),
    "DeepSeek-V3 expert": (7168, 7168, 7168, 2048),
}
LAYERS = {  # n and k
    "queries, keys and values": lambda width, queries, keys, inner: (queries + 2 * keys, width),
    "output of attention": lambda width, queries, keys, inner: (width, queries),
    "gate and up": lambda width, queries, keys, inner: (2 * inner, width),
    "down": lambda width, queries, keys, inner: (width, inner),
}
MOST_FLOP = 2**42
RESULTS = {name: REPOSITORY / f"docs/validation/{name}.json" for name in ("shapes", "model-shapes")}
SHOWN = ("tile_m", "tile_n", "schedule", "cluster", "split", "stages")

Sizes = dict[str, int]


def drawn(name: str) -> list[Sizes]:
    """The shapes of the draw ``name``, always the same."""
    seed, count = DRAWS[name]
    generator = random.Random(seed)  # noqa: S311 - nothing secret
    shapes: list[Sizes] = []
    while len(shapes) < count:
        if name in SIMPLE:
            shape = {dim: _size(generator, *limits) for dim, limits in SIZES.items()}
        else:
            shape = _layer(generator, 256 if name == "rows-tuning" else 8192, odd=len(shapes) % 4 == 3)
        if 2 * math.prod(shape.values()) <= MOST_FLOP and shape not in shapes:
            shapes.append(shape)
    return shapes


def _layer(generator: random.Random, most: int, odd: bool) -> Sizes:
    """A layer of a model over up to ``most`` tokens; ``odd``: with fewer columns and less depth."""
    n, k = generator.choice(list(LAYERS.values()))(*generator.choice(list(MODELS.values())))
    less = [8 * generator.randint(1, 7) for _ in range(2)] if odd else [0, 0]
    return {"m": round(most ** generator.random()), "n": n - less[0], "k": k - less[1]}


def _size(generator: random.Random, lowest: int, highest: int, multiple: int) -> int:
    """Log-uniform between the limits, rounded to a multiple, no power of two."""
    while True:
        size = round(lowest * (highest / lowest) ** generator.random() / multiple) * multiple
        if size.bit_count() != 1:
            return size


def measure(out: Path, draw: str) -> dict[str, Any]:
    """Every shape of ``draw`` with the kernel's defaults, verified and timed in turns with cuBLAS.
    A failed shape counts as such: its row holds the error. What is in OUT of other devices, and of
    earlier scorings, stays."""
    target = out / ("shapes.json" if draw in SIMPLE else f"model-shapes{draw.removeprefix('models')}.json")
    kept = json.loads(target.read_text(encoding="utf-8")) if target.is_file() else {"devices": [], "scorings": []}
    entries = [Entry(KERNEL, {}, shape) for shape in drawn(draw)]
    gpu = Gpu.open()
    build_all(entries, gpu.arch)
    name = gpu.facts.name
    gpu.close()
    head = {"device": name, "draw": draw, "commit": revision()}
    rows: list[dict[str, Any]] = []
    found = kept
    for entry in entries:
        row = measure_against(entry)
        rows.append(row if "error" in row else _kept(row))
        print(f"{entry.label}: {rows[-1].get('error') or format(rows[-1]['ratio'], '.3f')}", flush=True)
        found = {"devices": merged(kept["devices"], {**head, "rows": rows}, "device"), "scorings": kept["scorings"]}
        target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    scoring = {"at": datetime.now(UTC).isoformat(timespec="seconds"), **head, **score(rows)}
    found = {**found, "scorings": [*kept["scorings"], scoring]}
    target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return found


def _kept(row: dict[str, Any]) -> dict[str, Any]:
    bench = row["bench"]
    other = bench["against"]
    return {
        "shape": row["shape"],
        "parameters": bench["kernel"]["parameters"],
        "p50_us": bench["timing"]["p50_us"],
        "library_us": other["timing"]["p50_us"],
        "ratio": other["ratio"],
        "ratio_low": other["ratio_low"],
        "ratio_high": other["ratio_high"],
        "tflops": bench["rates"]["tflops"],
        "library": other["version"],
    }


def score(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Geometric mean and worst of the ratios, and how many shapes failed."""
    ratios = [row["ratio"] for row in rows if "error" not in row]
    return {
        "geometric_mean": round(statistics.geometric_mean(ratios), 4) if ratios else None,
        "worst": round(min(ratios), 4) if ratios else None,
        "faster": sum(ratio >= 1 for ratio in ratios),
        "shapes": len(rows),
        "failed": len(rows) - len(ratios),
    }


def shapes_table(devices: list[dict[str, Any]]) -> str:
    """A row a shape: what the kernel chose, its rate and the ratio on each device."""
    cells = []
    for rows in zip(*(device["rows"] for device in devices), strict=True):
        first = rows[0]
        chosen = words({name: first["parameters"][name] for name in SHOWN if name in first.get("parameters", {})})
        sides = [
            f"{row['tflops']:.0f} | **{row['ratio']:.3f}**" if "error" not in row else "– | failed" for row in rows
        ]
        cells.append([extent(first["shape"]), chosen, *" | ".join(sides).split(" | ")])
    names = [device["device"].removeprefix("NVIDIA ").split(" ")[0] for device in devices]
    header = ["m × n × k", "chosen", *(text for name in names for text in (f"{name} TFLOP/s", f"{name} ratio"))]
    return table(header, cells)


def block(results: dict[str, Any]) -> str:
    """The generated part of docs/kernels.md: the score of each device, then the shapes."""
    if not results["devices"]:
        return "Not measured yet: `python -m benchmarks.kernels.shapes OUT`, on a Hopper GPU."
    lines = []
    for device in results["devices"]:
        found = score(device["rows"])
        version = next(row["library"] for row in device["rows"] if "error" not in row)
        lines.append(
            f"- {device['device']} with {version}: geometric mean **{found['geometric_mean']:.3f}**, worst "
            f"**{found['worst']:.3f}**, {found['faster']} of {found['shapes']} at least as fast."
        )
    return "\n".join([*lines, "", shapes_table(results["devices"])])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", metavar="OUT")
    parser.add_argument("--draw", choices=DRAWS, default="test")
    parser.add_argument("--write", action="store_true", help=f"update {DOCUMENT.name} from the committed results")
    given = parser.parse_args()
    if given.write:
        text = DOCUMENT.read_text(encoding="utf-8")
        found = {name: block(json.loads(path.read_text(encoding="utf-8"))) for name, path in RESULTS.items()}
        DOCUMENT.write_text(fill(text, found), encoding="utf-8")
        return 0
    if given.out is None:
        parser.error("name a folder for the results, or --write")
    given.out.mkdir(parents=True, exist_ok=True)
    found = measure(given.out, given.draw)
    print(json.dumps(found["scorings"][-1]))
    return 1 if found["scorings"][-1]["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
