"""Which dimensions of their problems tell launches apart that have the same name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence


def telling_dims(names: Sequence[Hashable], shapes: Sequence[Iterable[str]]) -> list[str]:
    """For each launch the words of its shape (``m=4096``, …) that not all launches of its name
    have, joined by blanks.

    Empty for a name with one shape only. ``names`` and ``shapes`` have one element per launch.
    """
    words = [list(shape) for shape in shapes]
    alike: defaultdict[Hashable, list[set[str]]] = defaultdict(list)
    for name, shape in zip(names, words, strict=True):
        alike[name].append(set(shape))
    shared = {name: set.intersection(*sets) for name, sets in alike.items()}
    return [
        " ".join(word for word in shape if word not in shared[name]) for name, shape in zip(names, words, strict=True)
    ]
