"""The verbs on kernels: counters of gates through ncu, and the process that measures changes."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ncubble.analysis.report.report import Report
from ncubble.api import kernels
from ncubble.api.kernels import COUNTED
from ncubble.kernels.run.trials import Trials
from ncubble.profiling.recorders import ncu
from tests.helpers.fake_gpu import FakeGpu
from tests.helpers.played_runs import recorded_request

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


KERNELS = Path(__file__).parents[2] / "data/try_kernels"
ASKED = {"kernel": "toy", "catalog": str(KERNELS), "shape": {"n": 4096}, "seed": 1, "iterations": 20, "rounds": 2}


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
    assert ask("measure", {"items": 2})["trial"]["outcome"] == "ok"
    assert ask("turns", {"items": 2}, {"items": 4}) == {"times_us": [[1000.0, 1000.0]] * 2}


def test_what_is_wrong_with_a_request_is_an_answer(ask):
    answer = ask("measure", {"items": 99})
    assert "items=99 is not allowed" in answer["error"] and answer["remedy"]
