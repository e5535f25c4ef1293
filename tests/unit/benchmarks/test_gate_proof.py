"""The proof of the gate draws fair checks, and its page holds what the recordings give."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks.harness.blocks import fill
from ncubble.analysis.gate.metrics import BY_NAME
from ncubble.analysis.gate.noise import Sample
from tests.helpers.markdown import formatted

TENSOR = BY_NAME["tensor_elapsed_pct"]


@pytest.fixture(scope="module")
def proof(repository: Path) -> Any:
    return importlib.import_module("benchmarks.gate.proof")


@pytest.fixture(scope="module")
def draws(proof: ModuleType) -> ModuleType:
    return importlib.import_module("benchmarks.gate.draws")


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "validation" / "gate.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["gate-noise", "gate-parts", "gate-fourth", "gate-regressions"])
def test_the_page_holds_what_the_recordings_give(proof: ModuleType, page: str, name: str) -> None:
    (block,) = proof.made(draws=1, jobs=1, only=name).values()
    assert formatted(fill(page, {name: block})) == page, (
        "run: python -m benchmarks.gate.proof --write docs/validation/gate.md"
    )


def test_a_sampled_row_of_the_page_is_what_its_draws_give(proof: ModuleType, page: str) -> None:
    cell = ("tensor_core_gemm-stages2", "same GPU", 5)
    found = proof.share(proof.judged(cell, proof.DRAWS), TENSOR.name, 1.0, "regressed")
    row = f"| 1 % of utilization, found in percent of checks: `{cell[0]}` | ≥ 99 % | {found:.1f} |"
    assert row in page, "run: python -m benchmarks.gate.proof --write docs/validation/gate.md"


@pytest.mark.parametrize(
    ("setting", "gpus"), [("same GPU", (1, 1)), ("other GPU", (1, 1)), ("two GPUs, a third", (2, 1))]
)
@pytest.mark.parametrize("n", [3, 5, 10])
def test_sides_have_n_launches_of_processes_and_gpus_of_their_own(
    proof: ModuleType, draws: ModuleType, setting: str, gpus: tuple[int, int], n: int
) -> None:
    rng = draws.random_of("test")
    for members in proof.recorded().values():
        one, other = (draws.sample(side, "cycles") for side in draws.draw(members, setting, n, rng))
        assert (len(one.values), len(other.values)) == (gpus[0] * n, n)
        assert not set(one.runs) & set(other.runs)
        assert (len(set(one.gpus)), len(set(other.gpus))) == gpus
        assert bool(set(one.gpus) & set(other.gpus)) == (setting == "same GPU")
        assert set(Counter(one.runs + other.runs).values()) == {n if n < 10 else n // 2}


def test_a_loss_makes_both_metrics_worse_by_as_much(draws: ModuleType) -> None:
    assert draws.factor("tensor_elapsed_pct", 1.0) == pytest.approx(0.99)
    assert draws.factor("cycles", 1.0) == pytest.approx(1 / 0.99)


def test_a_merge_request_sees_the_worst_of_both_metrics(proof: ModuleType) -> None:
    assert proof.worse_of(["pass", "regressed"]) == "regressed"
    assert proof.worse_of(["inconclusive", "pass"]) == "inconclusive"
    assert proof.worse_of(["weak", "pass"]) == "weak"
    assert proof.worse_of(["pass"]) == "pass"


def test_a_kernel_without_products_is_judged_by_cycles_alone(proof: ModuleType) -> None:
    tally = proof.judged(("numba_tiled_matmul", "same GPU", 3), 2)
    assert tally["cycles", 5.0, "regressed"] == 2
    assert not any(what == "tensor_elapsed_pct" and outcome for what, _, outcome in tally)


def test_the_plain_rule_looks_at_means_in_the_direction_of_the_metric(proof: ModuleType) -> None:
    rule = proof.mean_worse(1.0)
    sides = Sample((50.0, 50.0)), Sample((49.0, 49.4))
    assert rule(*sides, TENSOR) == "regressed"
    assert rule(*reversed(sides), TENSOR) == "pass"
    assert rule(*reversed(sides), BY_NAME["cycles"]) == "regressed"
