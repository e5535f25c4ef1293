"""From a verdict and predicted depths to the parameters that are tried first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ncubble.analysis.account.palette import OUTCOMES
from ncubble.analysis.account.parts import CAUSES
from ncubble.analysis.diagnosis.diseases import DISEASES
from ncubble.analysis.diagnosis.verdict import Cause, LaunchVerdict
from ncubble.analysis.model.predict import Prediction
from ncubble.cli.commands.tune.advice import read
from ncubble.kernels.catalog.registry import SPECS, find_spec
from ncubble.kernels.spec.case import make_case

BLANK = LaunchVerdict(
    **dict.fromkeys(("device", "compute_capability", "duration_ns", "cycles", "sm_clock_hz", "unit"), None),
    **dict.fromkeys(("tensor_elapsed_pct", "tensor_of_active_pct", "dram_pct", "account", "disease"), None),
    **dict.fromkeys(("report", "integrity", "label", "kernel", "cause"), ""),
    **{"launch": 0, "shape": {}, "async_copy": {}, "merged": {}, "causes": [], "warnings": []},
)


def verdict(*causes: tuple[str, str | None, float], cause: str | None = None) -> Any:
    """A verdict with these causes: name, disease, percent."""
    found = [Cause(name, disease, pct) for name, disease, pct in causes]
    first = found[0] if found else Cause("none", None, 0.0)
    return replace(BLANK, cause=cause or first.cause, disease=None if cause else first.disease, causes=found)


def cycles(**depths: float) -> dict[int, Prediction | None]:
    return {int(depth[1:]): Prediction(50.0, value, 40.0, 60.0) if value else None for depth, value in depths.items()}


def moves(name: str, said: Any, predicted: Any = None, **parameters: Any) -> list[tuple[str, tuple[Any, ...]]]:
    advice = read(said, predicted or {}, make_case(find_spec(name), parameters))
    return [(move.parameter, move.values) for move in advice.moves]


def test_every_cure_of_the_catalog_names_a_cause_that_a_verdict_can_have() -> None:
    known = {*CAUSES, *DISEASES, *OUTCOMES}
    for spec in SPECS:
        for item in spec.parameters:
            assert set(item.cures) <= known, f"{spec.name}: {item.name}"


def test_the_disease_leads_then_the_causes_in_their_order() -> None:
    said = verdict(("copy_cost", "no_async", 60.0), ("smem_wait", None, 10.0), ("data_wait", None, 5.0))
    found = moves("tensor_core_gemm", said, stages=1, copy="plain", vec=4)
    assert found == [("copy", ("async",)), ("vec", (16,)), ("stages", (2, 6))]


def test_what_has_the_curing_value_already_is_not_moved() -> None:
    said = verdict(("copy_cost", "no_async", 60.0))
    assert moves("tensor_core_gemm", said, stages=2, copy="async", vec=16) == []


def test_a_predicted_depth_takes_the_place_of_neighbours() -> None:
    said = verdict(("data_wait", "shallow_pipeline", 30.0))
    predicted = cycles(d1=900.0, d2=500.0, d3=400.0, d4=350.0, d5=350.0, d6=0.0)
    assert moves("tensor_core_gemm", said, predicted, stages=2) == [("stages", (4,))]


def test_no_depth_is_tried_where_all_are_predicted_to_lose() -> None:
    said = verdict(("data_wait", "shallow_pipeline", 30.0))
    assert moves("tensor_core_gemm", said, cycles(d2=500.0, d3=500.0, d4=510.0), stages=2) == []


def test_without_a_prediction_the_nearest_and_the_farthest_depth_are_tried() -> None:
    said = verdict(("data_wait", None, 30.0))
    assert moves("tensor_core_gemm", said, cycles(d2=0.0, d3=0.0), stages=2) == [("stages", (3, 6))]


def test_less_is_tried_where_less_cures() -> None:
    said = verdict(("epilogue", "occupancy_cliff", 12.0))
    assert moves("gemm_tma", said, stages=6) == [("stages", (5, 1))]


@pytest.mark.parametrize("cause", ["memory_bound", "none", "unknown"])
def test_a_verdict_that_no_parameter_cures_gives_no_moves_but_its_name(cause: str) -> None:
    advice = read(verdict(cause=cause), {}, make_case(find_spec("tensor_core_gemm")))
    assert (advice.cause, advice.moves) == (cause, ())


def test_why_names_the_cause_and_its_share() -> None:
    said = verdict(("data_wait", "single_buffer", 31.4), ("copy_cost", "narrow_copies", 20.2))
    advice = read(said, {}, make_case(find_spec("tensor_core_gemm"), {"stages": 1, "vec": 4}))
    assert [move.why for move in advice.moves] == ["single buffer 31 %", "narrow copies 20 %"]
    assert advice.cause == "single_buffer"
