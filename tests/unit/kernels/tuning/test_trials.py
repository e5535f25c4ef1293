"""Configurations on a GPU made of host memory: verified, then timed if right."""

from __future__ import annotations

import numpy as np
import pytest

from ncubble.errors import MeasurementError
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run import trials as module
from ncubble.kernels.run.trials import FAILED, OK, REFUSED, WRONG, Trials
from ncubble.kernels.spec.case import make_case
from tests.helpers.fake_gpu import FakeGpu
from tests.helpers.tune_bench import toy

pytestmark = pytest.mark.usefixtures("compiler")

SMALL = {"n": 4096}


def case(**parameters):
    return make_case(toy(), parameters, SMALL)


def test_a_trial_is_verified_and_timed_and_leaves_its_arrays():
    gpu = FakeGpu()
    trial = Trials(gpu, 1).measure(case(items=2), 30)
    assert (trial.outcome, trial.p50_us, trial.launches) == (OK, 1000.0, 1)
    assert trial.verification["passed"] and trial.verification["checked"] > 0
    assert len(trial.build["code_sha256"]) == 64 and trial.build["spill_B"] == 0
    assert gpu.log.count("launch") == 1 + 10 + 30 and len(gpu.memory) == 2


def test_a_wrong_result_is_never_timed():
    def spoil(views, gpu):
        views["y"][0] += 1.0

    gpu = FakeGpu(spoil)
    trial = Trials(gpu, 1).measure(case(), 30)
    assert trial.outcome == WRONG and "bad of" in trial.why and trial.p50_us is None
    assert gpu.log.count("launch") == 1 and trial.launches == 1


def test_what_was_never_written_is_wrong():
    trial = Trials(FakeGpu(lambda views, gpu: views["y"].fill(np.nan)), 1).measure(case(), 30)
    assert trial.outcome == WRONG


def test_a_fault_is_a_failed_trial():
    class Faulty(FakeGpu):
        def sync(self):
            raise MeasurementError("the kernel failed on the GPU: illegal address", "compute-sanitizer")

        def download(self, pointer, array):
            self.sync()

    trial = Trials(Faulty(), 1).measure(case(), 30)
    assert trial.outcome == FAILED and "illegal address" in trial.why and trial.launches == 1


def test_what_the_gpu_refuses_is_no_launch():
    trial = Trials(FakeGpu(), 1).measure(
        make_case(find_spec("gemm_mma_swizzled"), {"stages": 4}, {"m": 128, "n": 256, "k": 64}), 30
    )
    assert trial.outcome == OK  # it fits the GPU; on a smaller one it does not:
    gpu = FakeGpu()
    gpu.arch = "sm_75"
    trial = Trials(gpu, 1).measure(case(), 30)
    assert trial.outcome == REFUSED and trial.launches == 0 and "launch" not in gpu.log


def test_all_trials_see_the_same_inputs_and_one_reference(monkeypatch):
    computed = []
    original = module.expected_rows
    monkeypatch.setattr(module, "expected_rows", lambda *given: computed.append(1) or original(*given))
    trials = Trials(FakeGpu(), 1)
    assert all(trials.measure(case(items=items), 20).outcome == OK for items in (1, 2, 4))
    assert computed == [1]


def test_inputs_are_uploaded_once_and_after_a_wrong_result_and_outputs_poisoned_every_time():
    class Lazy(FakeGpu):
        def launch(self, kernel, case, maps, pointers):
            if case.parameters["items"] == 1:
                super().launch(kernel, case, maps, pointers)  # items=2 writes nothing

    gpu = Lazy()
    trials = Trials(gpu, 1)
    assert [trials.measure(case(items=items), 20).outcome for items in (1, 2, 1)] == [OK, WRONG, OK]
    assert gpu.log.count("upload") == 2


def test_in_turns_each_is_timed_as_often():
    gpu = FakeGpu()
    times = Trials(gpu, 1).in_turns([case(items=1), case(items=2)], 20)
    assert times == [1000.0, 1000.0] and gpu.log.count("launch") == 2 * (10 + 20) and len(gpu.memory) == 2
