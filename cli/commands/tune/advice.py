"""Advice from one profile: which parameter may fix which cause, and which depth is predicted to be
best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ncubble.kernels.run.tune import TuneAdvice, TuneMove
from ncubble.kernels.spec.case import Case
from ncubble.kernels.spec.spec import DOWN, UP, Parameter, Value

if TYPE_CHECKING:
    from ncubble.analysis.diagnosis.verdict import LaunchVerdict
    from ncubble.analysis.model.predict import Prediction

DEPTH = "stages"
"""The parameter that facts and predictions use as the depth of the pipeline."""
SIGN: dict[Value, int] = {UP: 1, DOWN: -1}
LIMIT_S = 300.0


def advice_of(case: Case, catalog: Path | None, out: Path) -> TuneAdvice:
    """Profile a configuration into the folder ``out`` and derive advice; raises NcubbleError."""
    from ncubble.analysis.diagnosis.advise import predict_sweep
    from ncubble.analysis.diagnosis.judge import launch_verdict
    from ncubble.analysis.report.report import Report
    from ncubble.api.profiling import record_profile
    from ncubble.api.subjects import as_pairs, catalog_subject

    subject = catalog_subject(case.spec.name, as_pairs(case.parameters), ",".join(as_pairs(case.shape)), catalog)
    launch = Report.open(record_profile(subject, out=out, timeout_s=LIMIT_S).path).launch(0)
    depths = [value for item in case.spec.parameters if item.name == DEPTH for value in item.choices]
    present = case.parameters.get(DEPTH)
    predicted = predict_sweep(
        launch,
        present if isinstance(present, int) else None,
        tuple(value for value in depths if isinstance(value, int)),
    )
    return read(launch_verdict(launch), predicted, case)


def read(verdict: LaunchVerdict, predicted: Mapping[int, Prediction | None], case: Case) -> TuneAdvice:
    """The moves that a verdict suggests, in the order of its causes; a parameter is moved by the
    first cause that it fixes. Depths are ordered by predicted cycles, without those predicted to
    lose."""
    moves: dict[str, TuneMove] = {}
    for names, share in _causes(verdict):
        for item in case.spec.parameters:
            cure = next((item.cures[name] for name in names if name in item.cures), None)
            if cure is None or item.name in moves:
                continue
            values = list(_values(item, cure, case.parameters[item.name]))
            if item.name == DEPTH and cure == UP:
                values = _deeper(values, predicted, case.parameters[item.name])
            if values:
                cause = " ".join(filter(None, [names[0].replace("_", " "), share]))
                moves[item.name] = TuneMove(item.name, tuple(values), cause)
    return TuneAdvice(verdict.disease or verdict.cause, tuple(moves.values()))


def _causes(verdict: LaunchVerdict) -> Iterator[tuple[tuple[str, ...], str]]:
    """Names of each cause, its disease first, and its share of the time in words. A verdict that is
    not a part comes first."""
    if verdict.cause not in {cause.cause for cause in verdict.causes}:
        yield tuple(filter(None, [verdict.disease, verdict.cause])), ""
    for cause in verdict.causes:
        yield tuple(filter(None, [cause.disease, cause.cause])), f"{cause.pct:.0f} %"


def _values(item: Parameter, cure: Value, present: Value) -> Iterator[Value]:
    """The values to try: the fix itself; or of larger or smaller values the nearest and the
    farthest."""
    if cure not in (UP, DOWN):
        yield from [cure] * (cure != present)
        return
    numbers = sorted(value for value in item.choices if isinstance(value, int))
    if isinstance(present, int) and (beyond := [value for value in numbers if (value - present) * SIGN[cure] > 0]):
        yield from dict.fromkeys((beyond[0], beyond[-1]) if cure == UP else (beyond[-1], beyond[0]))


def _deeper(values: list[Value], predicted: Mapping[int, Prediction | None], present: Value) -> list[Value]:
    """The deeper depth with the fewest predicted cycles, none if all lose; ``values`` without a
    prediction."""
    cycles = {depth: found.cycles for depth, found in predicted.items() if found is not None}
    if not isinstance(present, int) or present not in cycles or len(cycles) == 1:
        return values
    better = [depth for depth in cycles if depth > present and cycles[depth] < cycles[present]]
    return [min(better, key=lambda depth: (cycles[depth], depth))] if better else []
