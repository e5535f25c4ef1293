"""The verbs on kernels: counters of gates through ncu, advice of profiles, and the process that
measures for a search."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ncubble.analysis.account.parts import CAUSES, OUTCOMES
from ncubble.analysis.diagnosis.diseases import DISEASES
from ncubble.analysis.diagnosis.verdict import Cause, LaunchVerdict
from ncubble.analysis.report.report import Report
from ncubble.api import kernels
from ncubble.api.kernels import COUNTED, GpuBench, read_advice
from ncubble.errors import MeasurementError
from ncubble.kernels.catalog.registry import SPECS, find_spec
from ncubble.kernels.run.trials import Trials
from ncubble.kernels.spec.case import make_case
from ncubble.profiling.recorders import ncu
from tests.helpers.fake_gpu import FakeGpu
from tests.helpers.played_runs import recorded_request
from tests.helpers.tune_bench import KERNELS

READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"


class StopError(Exception):
    """What ends a verb once its parts are known."""


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Reads counters of launches with these scalars as ``verify_gates`` does; gives them, and the
    requests."""
    requests: list[Any] = []
    counts: list[Any] = []

    def stop(*given: Any, count: Any, **more: Any) -> None:
        counts.append(count)
        raise StopError

    monkeypatch.setattr(kernels, "run_acceptance", stop)
    with pytest.raises(StopError):
        kernels.verify_gates("sdpa_fp8_stage_c_wmma")

    def read(*scalars: dict[str, float]) -> tuple[dict[str, float], list[Any]]:
        def profile(session: Any, settings: Any) -> Any:
            requests.append(recorded_request(session, settings))
            return SimpleNamespace(path=session.out)

        monkeypatch.setattr(ncu, "profile", profile)
        monkeypatch.setattr(Report, "open", lambda path: [SimpleNamespace(scalars=one) for one in scalars])
        return counts[0]({"use_cp_async": 0}, {"s": 512}, [READ, WRITTEN]), requests

    return read


def test_both_paths_are_launched_as_verify_does_and_medians_count(counted: Any) -> None:
    values, (request,) = counted({READ: 1.0, WRITTEN: 0.0}, {READ: 3.0, WRITTEN: 8192.0}, {READ: 2.0, WRITTEN: 0.0})
    assert values == {READ: 2.0, WRITTEN: 0.0}
    argv = list(request.program)
    assert argv[argv.index("--launches") + 1] == str(COUNTED)
    assert {"use_cp_async=0", "s=512", "--once", "--no-verify"} <= set(argv)
    assert (request.sets, request.metrics, request.filters.kernel) == ((), (READ, WRITTEN), "sdpa_fp8_stage_c_wmma")


def test_a_counter_that_one_launch_lacks_is_not_given(counted: Any) -> None:
    values, _ = counted({READ: 1.0, WRITTEN: 0.0}, {READ: 1.0})
    assert values == {READ: 1.0}


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


def cycles(**depths: float) -> dict[int, float]:
    return {int(depth[1:]): value for depth, value in depths.items() if value}


def moves(name: str, said: Any, predicted: Any = None, **parameters: Any) -> list[tuple[str, tuple[Any, ...]]]:
    advice = read_advice(said, predicted or {}, make_case(find_spec(name), parameters))
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
    advice = read_advice(verdict(cause=cause), {}, make_case(find_spec("tensor_core_gemm")))
    assert (advice.cause, advice.moves) == (cause, ())


def test_why_names_the_cause_and_its_share() -> None:
    said = verdict(("data_wait", "single_buffer", 31.4), ("copy_cost", "narrow_copies", 20.2))
    advice = read_advice(said, {}, make_case(find_spec("tensor_core_gemm"), {"stages": 1, "vec": 4}))
    assert [move.why for move in advice.moves] == ["single buffer 31 %", "narrow copies 20 %"]
    assert advice.cause == "single_buffer"


ASKED = {"kernel": "toy", "catalog": str(KERNELS), "shape": {"n": 4096}, "seed": 1, "iterations": 20}


@pytest.fixture
def ask(monkeypatch):
    """What the worker answers with a GPU made of host memory."""
    gpu = FakeGpu()
    trials = Trials(gpu, 1)
    monkeypatch.setattr(kernels, "_gpu", lambda: gpu)
    monkeypatch.setattr(kernels, "_trials", lambda seed: trials)
    return lambda do, *parameters: json.loads(
        json.dumps(kernels.answer({**ASKED, "do": do, "parameters": list(parameters)}, lambda: None))
    )


def test_it_describes_the_device(ask):
    assert ask("device")["device"]["name"] == "Fake H200"


@pytest.mark.usefixtures("compiler")
def test_it_measures_one_and_several_in_turns(ask):
    assert ask("measure", {"items": 2})["trial"]["p50_us"] == 1000.0
    assert ask("turns", {"items": 2}, {"items": 4}) == {"p50_us": [1000.0, 1000.0]}


def test_what_is_wrong_with_a_request_is_an_answer(ask):
    answer = ask("measure", {"items": 99})
    assert "items=99 is not allowed" in answer["error"] and answer["remedy"]


def test_the_real_process_answers(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    bench = GpuBench("toy", KERNELS, {}, 1, 20)
    try:
        with pytest.raises(MeasurementError, match=r"GPU|cuda-core"):
            bench.device()
    finally:
        bench.process.close()
