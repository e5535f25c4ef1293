"""How planted_waves shares tiles out, by its own header: every step once, and nobody waits in a
circle."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks.validation.planted import PLANTED

PROGRAM = """
#define __host__
#define __device__
#define __forceinline__ inline
#include <cstdio>
#include <cstdlib>
#include "planted_runs.cuh"

int main(int, char** given) {
    const int tiles = std::atoi(given[1]), steps = std::atoi(given[2]), ctas = std::atoi(given[3]);
    for (int cta = 0; cta < ctas; ++cta)
        for (ncubble::Runs runs(tiles, steps, cta, ctas); runs.more();) {
            const ncubble::Segment part = runs.take();
            const bool shared = part.first == 0 && part.last < steps;
            std::printf("%d %d %d %d %d\\n", cta, part.tile, part.first, part.last,
                        shared ? runs.behind(part.tile) : cta + 1);
        }
}
"""
# tiles, steps, CTAs: the pairs on 132 SMs, each alone, fewer steps left than CTAs, no tile left,
# whole tiles only.
PROBLEMS = [
    (144, 384, 132),
    (66, 512, 132),
    (272, 8, 132),
    (1, 100, 100),
    (3, 7, 20),
    (8, 3, 7),
    (264, 5, 132),
    (17, 1, 5),
    (5, 9, 1),
    (100, 384, 132),
    (143, 1000, 132),
]


class Part(NamedTuple):
    """Steps first..last - 1 of a tile; CTAs cta + 1 .. behind - 1 hand over to this one."""

    cta: int
    tile: int
    first: int
    last: int
    behind: int


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is missing")
    folder = tmp_path_factory.mktemp("runs")
    (folder / "runs.cpp").write_text(PROGRAM, encoding="utf-8")
    argv = [compiler, "-std=c++17", f"-I{PLANTED}", "-o", str(folder / "runs"), str(folder / "runs.cpp")]
    subprocess.run(argv, check=True)
    return folder / "runs"


def share_out(program: Path, tiles: int, steps: int, ctas: int) -> list[Part]:
    argv = [str(program), str(tiles), str(steps), str(ctas)]
    lines = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()
    return [Part(*(int(word) for word in line.split())) for line in lines]


@pytest.mark.parametrize(("tiles", "steps", "ctas"), PROBLEMS)
def test_every_step_is_taken_once_and_the_load_is_even(program: Path, tiles: int, steps: int, ctas: int) -> None:
    parts = share_out(program, tiles, steps, ctas)
    taken = Counter((part.tile, step) for part in parts for step in range(part.first, part.last))
    assert taken == Counter((tile, step) for tile in range(tiles) for step in range(steps))
    load = Counter(dict.fromkeys(range(ctas), 0))
    for part in parts:
        load[part.cta] += part.last - part.first
    assert max(load.values()) - min(load.values()) <= 1


@pytest.mark.parametrize(("tiles", "steps", "ctas"), PROBLEMS)
def test_what_is_handed_over_is_taken_over_once_by_the_cta_with_the_first_step(
    program: Path, tiles: int, steps: int, ctas: int
) -> None:
    parts = share_out(program, tiles, steps, ctas)
    given = Counter((part.cta, part.tile) for part in parts if part.first > 0)
    taken = Counter((cta, part.tile) for part in parts for cta in range(part.cta + 1, part.behind))
    assert given == taken
    assert len({cta for cta, _ in given}) == len(given), "a CTA has room for one partial tile"


@pytest.mark.parametrize(("tiles", "steps", "ctas"), PROBLEMS)
def test_a_cta_hands_over_before_it_waits(program: Path, tiles: int, steps: int, ctas: int) -> None:
    waiting: set[int] = set()
    for part in share_out(program, tiles, steps, ctas):
        assert part.first == 0 or part.cta not in waiting
        if part.behind > part.cta + 1:
            waiting.add(part.cta)


def test_ctas_that_run_whole_tiles_together_are_at_the_same_step(program: Path) -> None:
    parts = share_out(program, 144, 384, 132)
    assert [part[1:4] for part in parts if part.tile < 132] == [(cta, 0, 384) for cta in range(132)]
    assert {part.last - part.first for part in parts if part.tile >= 132} == {34, 35}
