"""Counters of gates through ncu: what is asked for, and that medians count."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ncubble.analysis.report.report import Report
from ncubble.cli.commands.kernels.counting import LAUNCHES, counter_reader
from ncubble.profiling.recorders import ncu
from tests.helpers.played_runs import recorded_request

READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"


@pytest.fixture
def counted(monkeypatch):
    """Reads counters of launches with these scalars; gives them, and the requests."""
    requests = []

    def read(*scalars):
        def profile(session, settings):
            requests.append(recorded_request(session, settings))
            return SimpleNamespace(path=session.out)

        monkeypatch.setattr(ncu, "profile", profile)
        monkeypatch.setattr(Report, "open", lambda path: [SimpleNamespace(scalars=one) for one in scalars])
        values = counter_reader("sdpa_fp8_stage_c_wmma", None)({"use_cp_async": 0}, {"s": 512}, [READ, WRITTEN])
        return dict(values), requests

    return read


def test_both_paths_are_launched_as_verify_does_and_medians_count(counted):
    values, (request,) = counted({READ: 1.0, WRITTEN: 0.0}, {READ: 3.0, WRITTEN: 8192.0}, {READ: 2.0, WRITTEN: 0.0})
    assert values == {READ: 2.0, WRITTEN: 0.0}
    argv = list(request.program)
    assert argv[argv.index("--launches") + 1] == str(LAUNCHES)
    assert {"use_cp_async=0", "s=512", "--once", "--no-verify"} <= set(argv)
    assert (request.sets, request.metrics, request.filters.kernel) == ((), (READ, WRITTEN), "sdpa_fp8_stage_c_wmma")


def test_a_counter_that_one_launch_lacks_is_not_given(counted):
    values, _ = counted({READ: 1.0, WRITTEN: 0.0}, {READ: 1.0})
    assert values == {READ: 1.0}
