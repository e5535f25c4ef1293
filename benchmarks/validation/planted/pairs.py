"""All pairs of a planted disease and its cure, and controls without a disease: ``pairs.toml``; planted
waste and its opposites: ``waste.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.validation.planted import PLANTED
from ncubble.kernels.spec.spec import Value


@dataclass(frozen=True)
class PlantedSide:
    """One launch of a kernel; what is not named is default."""

    kernel: str
    parameters: Mapping[str, Value] = field(default_factory=dict)
    shape: Mapping[str, int] = field(default_factory=dict)

    def entry(self) -> dict[str, Any]:
        """The side as an entry of a plan (``validation/batch.py``)."""
        return asdict(self)


@dataclass(frozen=True)
class PlantedPair:
    """A kernel with one known loss, and the same useful work without it; ``pairs.toml`` and ``waste.toml`` describe
    the members."""

    name: str
    sick: PlantedSide
    cured: PlantedSide | None
    what: str
    parts: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


def _pairs(file: str) -> tuple[PlantedPair, ...]:
    return tuple(map(_pair, tomllib.loads((PLANTED / file).read_text(encoding="utf-8"))["pair"]))


def _pair(told: dict[str, Any]) -> PlantedPair:
    sick = PlantedSide(**told["sick"])
    cured = PlantedSide(**{"kernel": sick.kernel, **told["cured"]}) if "cured" in told else None
    lists = {name: tuple(told.get(name, ())) for name in ("parts", "kinds", "never")}
    return PlantedPair(told["name"], sick, cured, told["what"], **lists)


PAIRS, WASTE = _pairs("pairs.toml"), _pairs("waste.toml")
