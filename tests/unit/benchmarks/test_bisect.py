"""The simulated searches: they are drawn by their number, and the page holds what the program
gives."""

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.gate.bisect import SEARCHES, Machine, Scene, pooled, rows, scenes, searched, tally
from benchmarks.gate.draws import random_of

PAGE = Path(__file__).parents[3] / "docs" / "validation" / "bisect.md"


@pytest.mark.parametrize("scene", [Scene("gemm_mma_swizzled", 1.0), Scene("gemm_tma-stages3", 3.0, other_pct=1.0)])
def test_the_page_holds_what_the_program_gives(scene):
    (row,) = rows([tally(scene, SEARCHES)])
    assert f"| {' | '.join(row)} |" in PAGE.read_text()


def test_the_page_has_every_scene_and_the_counts_add_up():
    table = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert len(table) == len(scenes())
    for line in table:
        shares = [float(cell) for cell in line.split("|")[4:8]]
        assert sum(shares) == pytest.approx(100, abs=0.21)


def test_a_loss_that_is_not_there_is_not_searched():
    ended = Counter(searched(Scene("gemm_ws", 0.0), number).what for number in range(50))
    assert ended == {"refused": 50}


def test_processes_of_three_gpus_are_scaled_to_one_mean_and_keep_their_noise():
    members = pooled("gemm_ws")
    machine = Machine("gemm_ws", random_of("test"))
    good, bad = machine.pair((0.0, 2.0), 6)
    assert len(good.values) == len(bad.values) == 30 and not set(good.runs) & set(bad.runs)
    assert sum(bad.values) / sum(good.values) == pytest.approx(0.98, abs=0.002)
    means = [sum(one.values["cycles"]) / len(one) for one in members]
    assert 0 < max(means) / min(means) - 1 < 0.003
