"""The table of planted pairs in docs/kernels.md, which ``benchmarks/kernels/ladder.py --write``
puts there."""

from __future__ import annotations

from benchmarks.validation.planted.pairs import PAIRS, PlantedSide


def planted_table() -> str:
    """What is planted where, what cures it, and what a report should say."""
    head = ["pair", "launch", "part", "change", "what is wrong, and what the twin changes"]
    rows = [
        [
            f"`{pair.name}`",
            setting(pair.sick),
            " or ".join(f"`{part}`" for part in pair.parts),
            " or ".join(f"`{kind}`" for kind in pair.kinds),
            pair.what,
        ]
        for pair in PAIRS
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def setting(side: PlantedSide) -> str:
    """Kernel and parameters that are not default, without the shape."""
    return " ".join([f"`{side.kernel}`", *(f"{name}={value}" for name, value in side.parameters.items())])
