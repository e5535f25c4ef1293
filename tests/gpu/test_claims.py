"""The probes behind the claims, on a real GPU: what must come out of them whatever the figures
are."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from ncubble.kernels.run.session import KernelRequest, execute

pytestmark = pytest.mark.gpu
CLAIMS = "benchmarks/claims/measurements"


@pytest.fixture(scope="module")
def known(repository: Path) -> Any:
    return importlib.import_module("benchmarks.claims.registry").load_all()


def taken(known: Any, name: str) -> dict[str, Any]:
    return dict(known[name].take())


def test_the_groups_that_were_waited_for_are_complete(known: Any) -> None:
    found = taken(known, "wait_group")
    assert found["all_guaranteed"]
    assert [found[f"guaranteed_{pending}"] for pending in range(9)] == [8 - pending for pending in range(9)]
    assert found["cycles_8"] < found["cycles_0"]


def test_a_barrier_shows_a_warp_what_the_others_copied(known: Any) -> None:
    assert taken(known, "wait_group_scope")["stale_with_barrier"] == 0


def test_one_stream_keeps_its_order_and_two_overlap(known: Any) -> None:
    found = taken(known, "stream_order")
    assert found["same_stream_ms"] == 0
    assert found["two_streams_ms"] > 2


def test_buffers_of_a_pool_may_grow_without_a_synchronization(known: Any) -> None:
    assert taken(known, "growing_buffers")["right"]


@pytest.mark.parametrize("source", ["shared", "global"])
@pytest.mark.parametrize("shape", [{"m": 64, "n": 64, "k": 32}, {"m": 192, "n": 320, "k": 96}], ids=str)
def test_wmma_takes_operands_from_shared_and_from_global_memory(repository: Path, source: str, shape: Any) -> None:
    request = KernelRequest("wmma_operands", {"source": source}, shape, repository / CLAIMS, iterations=0)
    outcome = execute(request)
    assert outcome.verification is not None
    assert outcome.verification.passed, outcome.verification.describe()


@pytest.mark.parametrize("rows", [1, 1000, 4097])
@pytest.mark.parametrize("ctas", [1, 8])
@pytest.mark.parametrize(("path", "inflight"), [("registers", 1), ("registers", 8), ("cp_async", 1), ("cp_async", 8)])
def test_reading_adds_up_every_piece(repository: Path, path: str, inflight: int, ctas: int, rows: int) -> None:
    parameters = {"path": path, "inflight": inflight, "ctas": ctas}
    request = KernelRequest(
        "resident_reads",
        parameters,
        {"rows": rows},
        repository / CLAIMS,
        iterations=0,
    )
    outcome = execute(request)
    assert outcome.verification is not None
    assert outcome.verification.passed, outcome.verification.describe()
