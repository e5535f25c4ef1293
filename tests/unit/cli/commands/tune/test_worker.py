"""The process that measures for a search answers, without a GPU, too."""

from __future__ import annotations

import json
import shutil

import pytest

from ncubble.cli.commands.tune import worker
from ncubble.cli.commands.tune.measuring import MODULE, GpuBench
from ncubble.errors import MeasurementError
from ncubble.kernels.build import find_tool
from ncubble.kernels.run.tune import Trials
from ncubble.profiling.processes import ServingProcess
from tests.helpers.fake_gpu import FakeGpu
from tests.helpers.tune_bench import KERNELS

ASKED = {"kernel": "toy", "catalog": str(KERNELS), "shape": {"n": 4096}, "seed": 1, "iterations": 20}


@pytest.fixture
def ask(monkeypatch):
    """What the worker answers with a GPU made of host memory."""
    gpu = FakeGpu()
    trials = Trials(gpu, 1)
    monkeypatch.setattr(worker, "_gpu", lambda: gpu)
    monkeypatch.setattr(worker, "_trials", lambda seed: trials)
    return lambda do, *parameters: json.loads(
        json.dumps(worker.answer({**ASKED, "do": do, "parameters": list(parameters)}, lambda: None))
    )


def test_it_describes_the_device(ask):
    assert ask("device")["device"]["name"] == "Fake H200"


def test_it_measures_one_and_several_in_turns(ask):
    if shutil.which("g++") is None:
        pytest.skip("nvcc needs g++, which is missing")
    try:
        find_tool("nvcc")
    except MeasurementError as error:
        pytest.skip(str(error))
    assert ask("measure", {"items": 2})["trial"]["p50_us"] == 1000.0
    assert ask("turns", {"items": 2}, {"items": 4}) == {"p50_us": [1000.0, 1000.0]}


def test_what_is_wrong_with_a_request_is_an_answer(ask):
    answer = ask("measure", {"items": 99})
    assert "items=99 is not allowed" in answer["error"] and answer["remedy"]


def test_the_real_process_answers(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    bench = GpuBench("toy", KERNELS, {}, 1, 20, process=ServingProcess(MODULE, own_group=True))
    try:
        with pytest.raises(MeasurementError, match=r"GPU|cuda-core"):
            bench.device()
    finally:
        bench.process.close()
