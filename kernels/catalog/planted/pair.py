"""A planted disease and its cured twin: two launches of catalog kernels that do the same useful
work.

Spec modules import both classes from here, everybody else from ``planted.pairs``, which joins the
pairs of all spec modules and so imports those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ncubble.kernels.spec.spec import Value


@dataclass(frozen=True)
class PlantedSide:
    """One launch of a catalog kernel; what is not named is default."""

    kernel: str
    parameters: Mapping[str, Value] = field(default_factory=dict)
    shape: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PlantedPair:
    """A kernel with one known loss, and the same useful work without it: gain = 1 - cycles(cured) /
    cycles(sick).

    ``causes``: each counts as named right, nearly always one; ``disease``: the finer word that
    should be told, None where there is none (the words of ``ncubble report``). ``cured``: None for
    an honest control, with nothing to cure. ``what``: one sentence: what is wrong, and what the
    twin changes.
    """

    name: str
    sick: PlantedSide
    cured: PlantedSide | None
    causes: tuple[str, ...]
    disease: str | None
    what: str
