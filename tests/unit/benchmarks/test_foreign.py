"""Labels by experiment: the rule on invented cycles, and the plan."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ncubble.analysis.account.parts import PARTS
from tests.helpers.foreign_launches import measured, modules, tried

VERDICTS = {*PARTS, "none", "memory_bound", "slow_path", "no_tensor_work", "tiny_launch"}


@pytest.fixture(scope="module")
def foreign(repository: Path) -> Iterator[Any]:
    yield from modules(repository)


def label(foreign: Any, *changes: Any, **base: Any) -> list[str]:
    found: list[str] = foreign.rules.label(measured(foreign, 1000.0, **base), list(changes))
    return found


def test_the_cause_whose_removal_saves_most_is_the_label(foreign: Any) -> None:
    deeper = tried(foreign, "deeper", 700, "data_wait")
    assert label(foreign, deeper, tried(foreign, "nostore", 900, "epilogue")) == ["data_wait"]
    assert label(foreign, deeper, tried(foreign, "nostore", 600, "epilogue")) == ["epilogue"]


def test_causes_within_three_points_are_all_admissible(foreign: Any) -> None:
    first = tried(foreign, "deeper", 800, "data_wait")
    assert label(foreign, first, tried(foreign, "x", 829, "epilogue")) == ["data_wait", "epilogue"]
    assert label(foreign, first, tried(foreign, "x", 831, "epilogue")) == ["data_wait"]


def test_a_saving_is_per_unit_of_work(foreign: Any) -> None:
    assert label(foreign, tried(foreign, "longk", 3600, "wave_gap", work=4.0)) == ["wave_gap"]
    assert label(foreign, tried(foreign, "longk", 3900, "wave_gap", work=4.0)) == []


def test_what_another_change_shows_is_taken_off(foreign: Any) -> None:
    deeper = tried(foreign, "deeper", 700, "data_wait")
    once = tried(foreign, "once", 600, "copy_cost", beyond=("data_wait",))
    base = measured(foreign, 1000.0)
    assert foreign.rules.shares(base, [once, deeper]) == pytest.approx({"data_wait": 30.0, "copy_cost": 10.0})
    slower = tried(foreign, "deeper", 1200, "data_wait")
    assert foreign.rules.shares(base, [slower, once])["copy_cost"] == pytest.approx(40.0)


def test_a_change_may_be_held_against_another(foreign: Any) -> None:
    longer = tried(foreign, "longk", 3200, "wave_gap", work=4.0)
    once = tried(foreign, "once", 2800, "copy_cost", work=4.0, against="longk")
    found = foreign.rules.shares(measured(foreign, 1000.0), [longer, once])
    assert found == pytest.approx({"wave_gap": 20.0, "copy_cost": 10.0})
    wrong = tried(foreign, "longk", 3200, "wave_gap", work=4.0, products=1.0)
    assert foreign.rules.shares(measured(foreign, 1000.0), [wrong, once]) == {}
    assert foreign.rules.shares(measured(foreign, 1000.0), [once]) == {}, "nothing to hold it against"


def test_another_kernel_or_other_work_is_no_evidence_unless_it_is_meant(foreign: Any) -> None:
    assert label(foreign, tried(foreign, "whole", 500, "tail", kernel="other")) == []
    assert label(foreign, tried(foreign, "whole", 500, "tail", kernel="other", swap=True)) == ["tail"]
    assert label(foreign, tried(foreign, "nostore", 500, "epilogue", products=0.0)) == []
    assert label(foreign, tried(foreign, "tile", 500, "copy_cost", evidence=False)) == []


def test_nothing_to_save_needs_a_busy_pipe(foreign: Any) -> None:
    little = tried(foreign, "deeper", 960, "data_wait")
    assert label(foreign, little, tensor_pct=90.0) == ["none"]
    assert label(foreign, little, tensor_pct=80.0) == []
    assert label(foreign, tensor_pct=90.0) == [], "without an experiment there is no label"


def test_fixed_time_makes_a_launch_tiny(foreign: Any) -> None:
    wait = tried(foreign, "deeper", 100, "data_wait")
    assert label(foreign, wait, tried(foreign, "smaller", 650, work=0.25, kind="less")) == ["tiny_launch"]
    assert label(foreign, wait, tried(foreign, "smaller", 600, work=0.25, kind="less")) == ["data_wait"]


@pytest.mark.parametrize(("cycles", "found"), [(600, "memory_bound"), (610, "no_tensor_work")])
def test_time_that_scales_with_bytes_is_memory_bound(foreign: Any, cycles: float, found: str) -> None:
    half = tried(foreign, "half", cycles, kind="bytes", bytes=0.5, kernel="other", products=0.0)
    assert label(foreign, half, products=0.0, tensor_pct=0.0) == [found]


def test_causes_taken_away_together_are_all_admissible(foreign: Any) -> None:
    assert label(foreign, tried(foreign, "longk", 700, "ramp wave_gap epilogue")) == ["ramp", "wave_gap", "epilogue"]


def test_the_gain_is_that_of_the_best_cure_of_the_label(foreign: Any) -> None:
    base = measured(foreign, 1000.0)
    cures = [tried(foreign, f"stages{n}", cycles, "data_wait", cure=True) for n, cycles in ((2, 800), (4, 750))]
    other = tried(foreign, "whole", 500, "tail", cure=True)
    found = foreign.rules.gain(base, [*cures, other], ["data_wait"])
    assert found == {"change": "stages4", "gain_pct": pytest.approx(25.0)}
    assert foreign.rules.gain(base, cures, ["epilogue"]) is None


def test_a_row_is_json_and_says_why_a_change_does_not_count(foreign: Any) -> None:
    changes = [tried(foreign, "whole", 500, "tail", kernel="other"), tried(foreign, "deeper", 800, "data_wait")]
    row = json.loads(json.dumps(foreign.rules.row(measured(foreign, 1000.0), changes)))
    assert row["changes"]["whole"]["fault"] == "another kernel ran: other" and not row["changes"]["whole"]["evidence"]
    assert row["changes"]["deeper"]["saving_pct"] == pytest.approx(20.0) and row["label"] == ["data_wait"]


SETS = pytest.mark.parametrize("of", ["first", "second"])


def launches(foreign: Any, family: str = "") -> list[Any]:
    return [launch for of in foreign.plan.SETS for launch in foreign.programs.chosen(family, "", "all", of)]


@SETS
def test_the_plan_covers_what_it_should(foreign: Any, of: str) -> None:
    found = list(foreign.plan.SETS[of]())
    programs = Counter(item.program for item in found)
    assert len(found) >= 20 and programs["gemm"] >= 8 and programs["matmul"] >= 3 and programs["sdpa"] >= 2
    gemms = [item.options for item in found if item.program == "gemm"]
    assert {options["stages"] for options in gemms} == {1, 2, 3, 4, 5}
    assert {options["dtype"] for options in gemms} == {"float16", "bfloat16"}


def test_no_launch_of_one_set_is_in_the_other(foreign: Any) -> None:
    names = [launch.name for launch in launches(foreign)]
    assert len(names) == len(set(names)) and not any(set(name) & set(" /;,=") for name in names)
    known = [(item.program, item.options) for item in foreign.plan.experiments()]
    assert not [item.name for item in foreign.plan.second() if (item.program, item.options) in known]


@SETS
def test_the_plan_is_sound(foreign: Any, of: str) -> None:
    for item in foreign.plan.SETS[of]():
        known = {change.name for change in item.changes}
        for change, launch in item.changed():
            causes = {*change.causes, *change.beyond}
            assert causes <= VERDICTS and (not change.against or change.against in known), launch.name
            assert launch.options != item.options or launch.program != item.program, launch.name
            if change.kind == "less":
                assert foreign.facts.work(launch.program, launch.options) < foreign.facts.work(
                    item.program, item.options
                )


def test_tiles_fill_every_shape_of_the_plan_and_fit(foreign: Any) -> None:
    for launch in [*launches(foreign, "triton"), *depths(foreign)]:
        options, tile = launch.options, launch.options.get("tile", ())
        sizes = [options[key] for key in ("m", "n", "k") if key in options] or [options.get("sequence", 0)] * len(tile)
        assert all(size % part == 0 for size, part in zip(sizes, tile, strict=True)), launch.name
        if launch.program == "gemm":
            assert foreign.plan.fits(tile, options["stages"]), launch.name


def test_whole_waves_are_whole(foreign: Any) -> None:
    for item in [*foreign.plan.gemms(), *foreign.plan.second_gemms()]:
        for change, launch in item.changed():
            if change.name == "whole":
                (bm, bn, _), options = launch.options["tile"], launch.options
                assert options["m"] // bm * (options["n"] // bn) % foreign.plan.SMS == 0, launch.name


def test_facts_tell_work_and_depth(foreign: Any) -> None:
    launch = next(foreign.programs.chosen("triton", "gemm_s3", "base"))
    found = foreign.facts.of(launch)
    assert (found["name"], found["function"], found["stages"]) == ("gemm_s3_bf16.base", "foreign_gemm", 3)
    assert found["flops"] == 2.0 * 4096**3 and found["bytes"] == 3 * 2.0 * 4096**2 and found["dtype"] == "bfloat16"
    assert found["parameters"]["tile"] == "128x128x64" and found["shape"] == {"m": 4096, "n": 4096, "k": 4096}
    causal = {"heads": 2, "sequence": 8, "dim": 4, "causal": 1}
    assert foreign.facts.work("sdpa", causal) == 4.0 * 2 * 8 * 8 * 4 / 2


def depths(foreign: Any) -> list[Any]:
    module = foreign.depths
    return list(module.launches(module.TILES, module.DEPTHS, module.KS))


def test_depths_that_do_not_fit_are_named(foreign: Any, capsys: pytest.CaptureFixture[str]) -> None:
    names = [launch.name for launch in depths(foreign)]
    assert "depth.128x256x64.k4096.s4" in names and "depth.128x256x64.k4096.s5" not in names
    assert "skipped depth.128x256x64.k4096.s5" in capsys.readouterr().err
    assert len(names) == len(set(names)) >= 40
