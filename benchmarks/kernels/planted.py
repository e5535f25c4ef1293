"""The table of planted pairs in docs/kernels.md, which ``benchmarks/kernels/ladder.py --write``
puts there."""

from __future__ import annotations

from benchmarks.validation.planted.pairs import PAIRS, PlantedSide


def planted_table() -> str:
    """What is planted where, what cures it, and what a report should say."""
    head = ["pair", "launch", "its twin", "expected cause", "disease", "what is wrong, and what the twin changes"]
    rows = [
        [
            f"`{pair.name}`",
            setting(pair.sick),
            setting(pair.cured),
            " or ".join(f"`{cause}`" for cause in pair.causes),
            f"`{pair.disease}`" if pair.disease else "–",
            pair.what,
        ]
        for pair in PAIRS
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def setting(side: PlantedSide | None) -> str:
    """A launch in a few words: the kernel and what is not default, but for the shape; a dash for
    none."""
    if side is None:
        return "–"
    return " ".join([f"`{side.kernel}`", *(f"{name}={value}" for name, value in side.parameters.items())])
