"""What may be changed of a launch, a kernel or a program, and how a program is built anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ncubble.analysis.changes.change import kind_of_constant
from ncubble.analysis.changes.search import Check, Refusal, Search
from ncubble.analysis.changes.tried import Built, TriedRound
from ncubble.api.trying import (
    TritonBench,
    Variation,
    VaryBench,
    _keeping_rounds,
    kind_of_parameter,
    triton_knobs,
    try_changes,
)
from ncubble.errors import UsageError
from ncubble.kernels.catalog.registry import SPECS
from ncubble.profiling.ncu import Filters
from ncubble.profiling.recorders.triton import TritonLaunch
from ncubble.profiling.session import Session
from ncubble.profiling.subject import Subject

FACTS: dict[str, Any] = {
    "constants": {"BLOCK_M": 64, "BLOCK_K": 32, "GROUP_SIZE_M": 8, "HEAD": 128, "SPLIT_K": 4},
    "num_stages": 3,
    "num_warps": 4,
    "loops": 1,
    "grid_follows": True,
}


def test_a_triton_launch_is_changed_in_depth_warps_tiles_order_and_splits() -> None:
    knobs = {knob.name: (knob.kind, knob.values) for knob in triton_knobs(FACTS)}
    assert knobs == {
        "num_stages": ("stages", (1, 2, 3, 4, 5, 6)),
        "num_warps": ("warps", (1, 2, 4, 8, 16)),
        "BLOCK_M": ("tile_m", (32, 64, 128)),
        "BLOCK_K": ("tile_k", (16, 32, 64)),
        "GROUP_SIZE_M": ("cta_order", (1, 4, 8, 16)),
        "SPLIT_K": ("ctas", (2, 4, 8)),
    }


def test_a_grid_that_does_not_follow_keeps_its_tiles() -> None:
    knobs = {knob.name for knob in triton_knobs({**FACTS, "grid_follows": False})}
    assert knobs == {"num_stages", "num_warps", "BLOCK_K", "GROUP_SIZE_M"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("BLOCK_SIZE_N", "tile_n"),
        ("BM", "tile_m"),
        ("BLOCK", "tile_n"),
        ("CHUNK", "tile_m"),
        ("NUM_SMS", "ctas"),
        ("GROUP", "cta_order"),
        ("D", ""),
        ("BIAS", ""),
    ],
)
def test_a_constant_is_known_by_its_name(name: str, kind: str) -> None:
    assert kind_of_constant(name, 16 if "GROUP" in name else 64) == kind


def test_every_parameter_of_the_catalog_makes_a_change_of_some_kind() -> None:
    kinds = {f"{spec.name}.{item.name}": kind_of_parameter(item) for spec in SPECS for item in spec.parameters}
    assert all(kinds.values())
    assert kinds["gemm_ws.schedule"] == "epilogue"
    assert kinds["gemm_tma.stages"] == "stages"


class PlayedLaunch(TritonLaunch):
    def __init__(self, *answers: dict[str, Any]) -> None:
        super().__init__(FACTS, None)
        self.answers, self.asked = list(answers), []

    def ask(self, **request: Any) -> dict[str, Any]:
        self.asked.append(request)
        return self.answers.pop(0)


def test_a_triton_bench_asks_the_launch_and_reads_its_answers() -> None:
    launch = PlayedLaunch(
        {"compiled": [{"registers": 96, "spilled": 4, "shared_B": 1024}, {"refused": "no room"}]},
        {"difference": 0.25, "overrun": True},
        {"refused": "an exception"},
        {"times_us": [[1.0], [2.0]], "sm_mhz": 1980},
    )
    bench = TritonBench(launch, triton_knobs(FACTS))
    assert bench.base["num_stages"] == 3
    assert bench.build([{}, {}]) == [Built(96, 16, 1024), Refusal("no room")]
    assert bench.check({}) == Check(0.25, "it writes beyond its tensors")
    assert bench.check({}) == Refusal("an exception")
    assert (bench.time([{}, {}], 1), bench.sm_mhz) == ([[1.0], [2.0]], 1980)


def test_names_in_braces_are_replaced_and_no_others() -> None:
    variation = Variation.parse(["STAGES=2,3", "MODE=a,b"])
    argv = variation.replaced(
        ["{OUT}/gemm", "--stages={STAGES}", "{other}", "{MODE}"], {"STAGES": 3, "MODE": "b"}, Path("/o")
    )
    assert argv == ["/o/gemm", "--stages=3", "{other}", "b"]
    assert variation.values == {"STAGES": (2, 3), "MODE": ("a", "b")}


@pytest.mark.parametrize("text", ["STAGES", "STAGES=2", "=1,2", "a b=1,2", "A=,"])
def test_a_variation_without_two_values_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not NAME=VALUE,VALUE"):
        Variation.parse([text])


@pytest.fixture
def vary(tmp_path: Path) -> VaryBench:
    session = Session(Subject(["{OUT}/prog"], "prog"), tmp_path / "run")
    session.work = tmp_path
    return VaryBench(session, Filters("gemm", skip=1), Variation.parse(["N=1,2"], "sh -c 'exit {N}'"))


def test_a_build_that_fails_is_refused_and_each_variant_has_a_folder(vary: VaryBench) -> None:
    first, second = vary.build([{"N": 0}, {"N": 3}])
    assert first == Built()
    assert isinstance(second, Refusal)
    assert "sh failed" in second.why
    assert vary.folder({"N": 0}) != vary.folder({"N": 3})


def test_chosen_launches_of_a_program_are_timed(vary: VaryBench) -> None:
    work = pd.DataFrame(
        {
            "kind": ["kernel", "copy", "kernel", "kernel", "kernel"],
            "name": ["gemm", "gemm", "norm", "gemm", "gemm"],
            "start_ns": [0, 10, 20, 30, 40],
            "end_ns": [9_000, 11, 21, 2_030, 4_040],
        }
    )
    assert vary._times(work) == [2.0, 4.0]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"build": "make"}, "--build needs --vary"),
        ({"vary": ["N=1,2"], "program": "gemm_tma"}, "--vary is for programs"),
    ],
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, Any], complaint: str) -> None:
    program = given.pop("program", ["./prog"])
    with pytest.raises(UsageError, match=complaint):
        try_changes(program, **given)


def test_an_interrupt_loses_no_round_that_is_done() -> None:
    search = Search(repeat=True)
    with pytest.raises(KeyboardInterrupt), _keeping_rounds(search):
        raise KeyboardInterrupt
    search.rounds.append(TriedRound(settings={}, us=1.0, sm_mhz=0, built=Built(), changes=[]))
    with _keeping_rounds(search):
        raise KeyboardInterrupt
    assert search.stopped == "interrupted"
