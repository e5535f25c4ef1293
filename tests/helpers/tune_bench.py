"""Configurations that are measured without a GPU: by a function, or by a recorded grid."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.trials import OK, Trial
from ncubble.kernels.run.tune import Space, TuneAdvice, space_of
from ncubble.kernels.spec.case import Case
from ncubble.kernels.spec.spec import KernelSpec, Parameter
from tests.helpers.fake_gpu import H200

DATA = Path(__file__).parents[1] / "data"
GRIDS, KERNELS = DATA / "tune_grids.json", DATA / "tune_kernels"
Timed = Callable[[Mapping[str, Any]], "float | Trial"]


def toy() -> KernelSpec:
    """A kernel with 4 x 8 configurations: ``threads`` and ``items``."""
    return find_spec("toy", KERNELS)


def toy_space(**start: Any) -> Space:
    """All of them, from ``start``."""
    return space_of(toy(), {}, {}, start, H200)


class PlayedBench:
    """Times by ``timed``; a trial that it gives is taken as it is. ``advice`` by ``advised``."""

    def __init__(self, timed: Timed, advised: Callable[[Mapping[str, Any]], TuneAdvice | None] | None = None) -> None:
        self.timed, self.advised = timed, advised or (lambda parameters: None)
        self.measured: list[dict[str, Any]] = []
        self.turns: list[list[dict[str, Any]]] = []
        self.profiled: list[dict[str, Any]] = []

    def measure(self, case: Case) -> Trial:
        self.measured.append(dict(case.parameters))
        found = self.timed(case.parameters)
        checked = {"passed": True, "max_abs_error": 0.0}
        return found if isinstance(found, Trial) else Trial(case.parameters, OK, p50_us=found, verification=checked)

    def in_turns(self, cases: Sequence[Case]) -> list[float]:
        self.turns.append([dict(case.parameters) for case in cases])
        return [float(self.timed(case.parameters)) for case in cases]  # type: ignore[arg-type]

    def advise(self, case: Case) -> TuneAdvice | None:
        self.profiled.append(dict(case.parameters))
        return self.advised(case.parameters)


class RecordedGrid:
    """Every configuration that a kernel had, timed on a GPU."""

    def __init__(self, kernel: str) -> None:
        recorded = json.loads(GRIDS.read_text(encoding="utf-8"))[kernel]
        self.kernel, self.axes = kernel, recorded["axes"]
        self.p50_us = {tuple(row[:-1]): float(row[-1]) for row in recorded["p50_us"]}

    def timed(self, parameters: Mapping[str, Any]) -> float:
        return self.p50_us[self.key(parameters)]

    def key(self, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(parameters[name] for name in self.axes)

    def space(self, start: Sequence[Any]) -> Space:
        columns = zip(*self.p50_us, strict=True)
        values = [tuple(sorted(set(column), key=lambda value: (isinstance(value, str), value))) for column in columns]
        axes = tuple(Parameter(name, choices[0], choices) for name, choices in zip(self.axes, values, strict=True))
        spec = replace(
            toy(),
            parameters=axes,
            grid=lambda shape, parameters: (1,),
            block=lambda shape, parameters: (32,),
            requires=lambda shape, parameters: None if self.key(parameters) in self.p50_us else "not valid",
        )
        return space_of(spec, {}, {}, dict(zip(self.axes, start, strict=True)), H200)

    @property
    def best_us(self) -> float:
        return min(self.p50_us.values())


def recorded_kernels() -> list[str]:
    """Kernels of which there is a grid."""
    return list(json.loads(GRIDS.read_text(encoding="utf-8")))
