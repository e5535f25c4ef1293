"""Tables of docs/kernels.md, from what ``kernels/ladder.py`` measured."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from benchmarks.harness.blocks import table
from benchmarks.kernels.planted import planted_table
from ncubble.kernels.catalog.registry import SPECS
from ncubble.kernels.spec.spec import KernelSpec


def words(settings: dict[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in settings.items())


def extent(shape: dict[str, int]) -> str:
    return "×".join(str(size) for size in shape.values())


def ladder_table(rows: list[dict[str, Any]]) -> str:
    """Ours, the library's, and how they compare."""
    cells = []
    for row in rows:
        if "error" in row:
            cells.append([f"`{row['kernel']}`", words(row["parameters"]), extent(row["shape"]), *["–"] * 4, "failed"])
            continue
        bench = row["bench"]
        timing, rates, other = bench["timing"], bench["rates"], bench["against"]
        scale = f"{rates['tflops']:.1f} TFLOP/s" if rates["tflops"] is not None else f"{rates['gb_per_s']:.0f} GB/s"
        share = "–" if rates["fraction"] is None else f"{100 * rates['fraction']:.1f} %"
        spread = f"{other['ratio_low']:.2f}–{other['ratio_high']:.2f}"
        cells.append(
            [
                f"`{row['kernel']}`",
                words(row["parameters"]),
                extent(row["shape"]),
                f"{timing['p50_us']:.1f}",
                scale,
                share,
                f"**{other['ratio']:.3f}** ({spread})",
                other["library"].split(" (")[0],
            ]
        )
    return table(["kernel", "parameters", "shape", "µs", "rate", "of peak", "ratio (rounds)", "library"], cells)


def pairs_table(groups: list[dict[str, Any]]) -> str:
    """Times of the settings of each group; the ratio is the first one's time over the row's."""
    cells = []
    for group in groups:
        if "error" in group:
            cells.append([group["about"], "–", "–", "failed"])
            continue
        first = group["rows"][0]["p50_us"]
        for index, row in enumerate(group["rows"]):
            cells.append(
                [
                    "" if index else group["about"],
                    f"`{row['kernel']}` {words(row['parameters'])}".rstrip(),
                    f"{row['p50_us']:.1f}",
                    f"{first / row['p50_us']:.3f}",
                ]
            )
    return table(["compared", "setting", "µs", "times as fast as the first"], cells)


def reached(found: dict[str, Any], kernel: str) -> str:
    """What a kernel reaches, and on which GPU: its best row beside the library, else its best
    setting beside the first of a group."""
    rows = [row for row in good(found) if row["kernel"] == kernel]
    if rows:
        best = max(rows, key=lambda row: row["bench"]["rates"]["fraction"] or 0.0)["bench"]
        rates, other = best["rates"], best["against"]
        rate = f"{rates['tflops']:.0f} TFLOP/s" if rates["tflops"] is not None else f"{rates['gb_per_s']:.0f} GB/s"
        share = "" if rates["fraction"] is None else f", {100 * rates['fraction']:.0f} % of the roof"
        library = other["library"].split(" (")[0]
        return f"{rate}{share}; {other['ratio']:.2f} × {library}{_on(best['device']['name'])}"
    for group in found["pairs"]:
        timed = group.get("rows", [])
        if own := [row for row in timed if row["kernel"] == kernel]:
            first, best = timed[0], min(own, key=lambda row: row["p50_us"])
            beside = words(first["parameters"]) if first["kernel"] == kernel else f"`{first['kernel']}`"
            setting = f"{words(best['parameters'])}: " if best["parameters"] else ""
            return f"{setting}{first['p50_us'] / best['p50_us']:.2f} × {beside}{_on(group.get('device', ''))}"
    return "–"


def _on(device: str) -> str:
    """`` (H100)`` of ``NVIDIA H100 80GB HBM3``."""
    return f" ({device.removeprefix('NVIDIA ').split(' ')[0]})" if device else ""


def rung(spec: KernelSpec) -> str:
    """The rung that the header of the program on the host or of the source names, or the group of
    kernels beside the ladder."""
    for path in (spec.folder / (spec.program or spec.source), spec.path):
        if number := re.search(r"Rung (\d+)", path.read_text(encoding="utf-8")[:400]):
            return number[1]
    return "copies" if spec.name.startswith("async_copy") else "Numba"


def rungs_table(found: dict[str, Any]) -> str:
    """The ladder: what each kernel adds, what it shows, what it reaches."""
    order = sorted(SPECS, key=lambda spec: (rung(spec) == "Numba", rung(spec) != "copies", rung(spec).zfill(2)))
    rows = [[rung(spec), f"`{spec.name}`", spec.idea, spec.demonstrates, reached(found, spec.name)] for spec in order]
    lines = [["rung", "kernel", "idea", "shows", "reaches"], ["---"] * 5, *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def sources(rows: list[dict[str, Any]]) -> str:
    """Which device and which versions the figures of ``rows`` are of."""
    device = {f"{row['bench']['device']['name']}, driver {row['bench']['device']['driver']}" for row in rows}
    versions = {part for row in rows for part in row["bench"]["against"]["version"].split(", ")}
    libraries = sorted(part for part in versions if part and not part.startswith("driver"))
    return f"Measured on {'; '.join(sorted(device))} with {', '.join(libraries)}."


def by_device(rows: list[dict[str, Any]], device: Callable[[dict[str, Any]], str]) -> list[list[dict[str, Any]]]:
    """``rows`` of each device, in the order of the first of each."""
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[device(row)].append(row)
    return list(found.values())


def against_block(found: dict[str, Any]) -> str:
    """A table for each device; rows that failed stand in the first."""
    first = next((row["bench"]["device"]["name"] for row in good(found)), "")
    tables = by_device(found["against"], lambda row: row["bench"]["device"]["name"] if "bench" in row else first)
    return "\n\n".join(f"{sources([row for row in rows if 'bench' in row])}\n\n{ladder_table(rows)}" for rows in tables)


def pairs_block(found: dict[str, Any]) -> str:
    """A table for each device."""
    tables = by_device(found["pairs"], lambda group: group.get("device", ""))
    heads = (f"On {groups[0]['device']}:\n\n" if groups[0].get("device") else "" for groups in tables)
    return "\n\n".join(f"{head}{pairs_table(groups)}" for head, groups in zip(heads, tables, strict=True))


def good(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in found["against"] if "error" not in row]


def blocks(found: dict[str, Any]) -> dict[str, str]:
    """The tables by the names of their markers."""
    return {
        "rungs": rungs_table(found),
        "ladder": against_block(found),
        "pairs": pairs_block(found),
        "planted": planted_table(),
    }
