"""Short names of runs side by side: a kernel, and those of its parameters that set a run apart from the others."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any


def short_labels(launches: list[dict[str, Any]]) -> list[str]:
    """A name for each launch, without the values that most launches of its kernel have. Runs that this does not tell
    apart (another shape, the same again) also carry the name of their folder or file; labels that are no kernel with
    parameters stay as they are."""
    parsed = [_parameters(launch["label"]) for launch in launches]
    count = Counter(name for name, _ in parsed)
    sharing = Counter((name, *pair) for name, found in parsed for pair in found.items())
    short = [
        " ".join(
            [name, *(f"{key}={value}" for key, value in found.items() if 2 * sharing[name, key, value] <= count[name])]
        )
        for name, found in parsed
    ]
    runs: defaultdict[str, set[str]] = defaultdict(set)
    for label, launch in zip(short, launches, strict=True):
        runs[label].add(launch["report"])
    return [
        f"{label} ({Path(launch['report']).name})" if len(runs[label]) > 1 else label
        for label, launch in zip(short, launches, strict=True)
    ]


def _parameters(label: str) -> tuple[str, dict[str, str]]:
    """The kernel's name and its parameters; the whole label and none where it is not made of these."""
    name, *words = label.split(" ")
    pairs = [word.partition("=") for word in words]
    if not all(key and equals for key, equals, _ in pairs):
        return label, {}
    return name, {key: value for key, _, value in pairs}
