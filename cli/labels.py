"""Distinct names of runs: the kernel, and the parameters and dimensions in which a run differs from
the others."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.report.launch_key import telling_dims


def short_labels(launches: Sequence[LaunchVerdict]) -> list[str]:
    """A name for each launch, without the values that most launches of its kernel have. Those that this does not tell
    apart also carry the dimensions in which they differ; the same in another run the name of its folder or file. Labels
    that are no kernel with parameters stay as they are."""
    parsed = [_parameters(launch.label) for launch in launches]
    count = Counter(name for name, _ in parsed)
    sharing = Counter((name, *pair) for name, values in parsed for pair in values.items())
    short = [
        " ".join(
            [name, *(f"{key}={value}" for key, value in values.items() if 2 * sharing[name, key, value] <= count[name])]
        )
        for name, values in parsed
    ]
    short = with_dims(short, launches)
    runs: defaultdict[str, set[str]] = defaultdict(set)
    for label, launch in zip(short, launches, strict=True):
        runs[label].add(launch.report)
    return [
        f"{label} ({Path(launch.report).name})" if len(runs[label]) > 1 else label
        for label, launch in zip(short, launches, strict=True)
    ]


def full_labels(launches: Sequence[LaunchVerdict]) -> list[str]:
    """The label of each launch, and behind it the dimensions in which launches of the same label differ."""
    return with_dims([launch.label for launch in launches], launches)


def with_dims(names: list[str], launches: Sequence[LaunchVerdict]) -> list[str]:
    """``names`` of ``launches``, and behind those that stand for several shapes the dimensions that differ."""
    shapes = [[f"{key}={value}" for key, value in launch.shape.items()] for launch in launches]
    return [f"{name} {dims}" if dims else name for name, dims in zip(names, telling_dims(names, shapes), strict=True)]


def _parameters(label: str) -> tuple[str, dict[str, str]]:
    """The kernel's name and its parameters; the whole label and none where it is not made of these."""
    name, *words = label.split(" ")
    pairs = [word.partition("=") for word in words]
    if not all(key and equals for key, equals, _ in pairs):
        return label, {}
    return name, {key: value for key, _, value in pairs}
