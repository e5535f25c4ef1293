"""The window in which ncu measures is opened in a context that exists, and closed whatever happens
inside."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from ncubble.profiling import driver as driver_module
from ncubble.profiling.metrics.metrics import MetricSelection
from ncubble.profiling.ncu import Filters, ncu_argv


class Driver:
    """Plays libcuda: notes the calls; ``context`` is the current one."""

    def __init__(self, context: int) -> None:
        self.context, self.calls = context, []

    def device(self) -> ctypes.c_int:
        return ctypes.c_int(0)

    def call(self, name, *arguments) -> None:
        self.calls.append(name)
        if name == "cuCtxGetCurrent":
            arguments[0]._obj.value = self.context


@pytest.fixture
def play(monkeypatch):
    def _play(context: int) -> Driver:
        driver = Driver(context)
        monkeypatch.setattr(driver_module, "CudaDriver", lambda: driver)
        return driver

    return _play


def test_a_current_context_is_left_as_it_is(play):
    driver = play(7)
    with driver_module.measured():
        driver.calls.append("launch")
    assert driver.calls == ["cuCtxGetCurrent", "cuProfilerStart", "launch", "cuCtxGetCurrent", "cuProfilerStop"]


def test_without_a_context_the_primary_one_is_used_and_taken_off_again(play):
    driver = play(0)
    with driver_module.measured():
        driver.calls.append("launch")
    once = ["cuCtxGetCurrent", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "{}", "cuCtxPopCurrent_v2"]
    opened, closed = ([call.format(f"cuProfiler{word}") for call in once] for word in ("Start", "Stop"))
    assert driver.calls == [*opened, "launch", *closed]


def test_it_is_closed_when_the_body_raises(play):
    driver = play(7)
    with pytest.raises(ZeroDivisionError), driver_module.measured():
        raise ZeroDivisionError
    assert driver.calls[-1] == "cuProfilerStop"


def test_ncu_is_told_to_wait_for_it():
    argv = ncu_argv("ncu", Path("r"), ["prog"], MetricSelection(("x",)), Filters(window=True))
    assert argv[-3:] == ["--profile-from-start", "off", "prog"]
    assert "--profile-from-start" not in ncu_argv("ncu", Path("r"), ["prog"], MetricSelection(("x",)))
    assert "profiler window" in str(Filters(window=True))
