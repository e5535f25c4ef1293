"""Labels by experiment: the rule on invented cycles, the plan, and the programs that run it, without a GPU."""

from __future__ import annotations

import importlib
import json
import math
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from ncubble.analysis.account import PARTS
from ncubble.analysis.report import Report
from ncubble.errors import ReportError

VERDICTS = {*PARTS, "none", "memory_bound", "slow_path", "no_tensor_work", "tiny_launch"}
MODULES = ("experiment", "rules", "facts", "plan", "programs", "prepare", "measure", "depths", "__main__")


@pytest.fixture(scope="module")
def foreign(repository: Path) -> Any:
    """The modules of benchmarks/foreign that need no GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(repository))
        yield SimpleNamespace(**{name: importlib.import_module(f"benchmarks.foreign.{name}") for name in MODULES})


def measured(foreign: Any, cycles: float, **other: Any) -> Any:
    values = {"kernel": "k", "duration_ns": cycles, "tensor_pct": 50.0, "products": 100.0, **other}
    return foreign.rules.Measured(cycles=cycles, **values)


def tried(foreign: Any, name: str, cycles: float, causes: str = "", work: float = 1.0, **other: Any) -> Any:
    """A change with as many MMAs as its work wants; other members of Change and of Measured by name."""
    known = {key: other.pop(key) for key in ("kernel", "products", "tensor_pct") if key in other}
    change = foreign.experiment.Change(name, tuple(causes.split()), **other)
    return foreign.rules.Tried(change, work, measured(foreign, cycles, **{"products": 100.0 * work, **known}))


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


def test_the_plan_covers_what_it_should(foreign: Any) -> None:
    found = list(foreign.plan.experiments())
    programs = Counter(item.program for item in found)
    assert len(found) >= 20 and programs["gemm"] >= 8 and programs["matmul"] >= 3 and programs["sdpa"] >= 2
    gemms = [item.options for item in found if item.program == "gemm"]
    assert {options["stages"] for options in gemms} == {1, 2, 3, 4, 5}
    assert {options["dtype"] for options in gemms} == {"float16", "bfloat16"}


def test_the_plan_is_sound(foreign: Any) -> None:
    names = [launch.name for launch in foreign.programs.chosen("", "", "all")]
    assert len(names) == len(set(names)) and not any(set(name) & set(" /;,=") for name in names)
    for item in foreign.plan.experiments():
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
    for launch in [*foreign.programs.chosen("triton", "", "all"), *depths(foreign)]:
        options, tile = launch.options, launch.options.get("tile", ())
        sizes = [options[key] for key in ("m", "n", "k") if key in options] or [options.get("sequence", 0)] * len(tile)
        assert all(size % part == 0 for size, part in zip(sizes, tile, strict=True)), launch.name
        if launch.program == "gemm":
            assert foreign.plan.fits(tile, options["stages"]), launch.name


def test_whole_waves_are_whole(foreign: Any) -> None:
    for item in foreign.plan.gemms():
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


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, foreign: Any) -> list[str]:
    """PyTorch and the calls as stand-ins that write down what happens; the launch ``*.nostore`` fails."""
    done: list[str] = []
    torch, calls = ModuleType("torch"), ModuleType("benchmarks.foreign.calls")
    nvtx = SimpleNamespace(range_push=lambda name: done.append(f"push {name}"), range_pop=lambda: done.append("pop"))
    torch.cuda = SimpleNamespace(synchronize=lambda: None, empty_cache=lambda: None, nvtx=nvtx)  # type: ignore[attr-defined]

    def build(launch: Any) -> Any:
        if launch.name.endswith(".nostore"):
            raise RuntimeError("out of resources\nmore")
        return SimpleNamespace(
            run=lambda: done.append(f"run {launch.name}"), error=lambda: 0.5 if "longk" in launch.name else 0.0
        )

    calls.build, calls.TOLERANCE = build, 0.02  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "benchmarks.foreign.calls", calls)
    return done


def serve(foreign: Any, monkeypatch: pytest.MonkeyPatch, *argv: str) -> int:
    monkeypatch.setattr(sys, "argv", ["programs", *argv])
    status: int = foreign.programs.main()
    return status


def test_each_launch_runs_once_inside_its_range(
    foreign: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    stand_in: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("NCUBBLE_FACTS", str(tmp_path / "facts.json"))
    options = ("--only", "^gemm_s1$", "--without", "gemm_s1.whole", "--several", "gemm_s1.once=2")
    assert serve(foreign, monkeypatch, "triton", *options) == 0
    assert stand_in[:6] == ["run gemm_s1.base", "push measured", "push gemm_s1.base", "run gemm_s1.base", "pop", "pop"]
    assert "run gemm_s1.whole" not in stand_in
    assert "FAILED gemm_s1.nostore: RuntimeError: out of resources\n" in capsys.readouterr().err
    names = [item["name"] for item in json.loads((tmp_path / "facts.json").read_text())["launches"]]
    ran = [text.removeprefix("push ") for text in stand_in if text.startswith("push gemm")]
    assert list(dict.fromkeys(names)) == ran and names.count("gemm_s1.once") == 2 and "gemm_s1.nostore" not in names


def test_a_check_tells_failures_and_wrong_results(
    foreign: Any, monkeypatch: pytest.MonkeyPatch, stand_in: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(foreign.programs, "usable", lambda: True)
    assert serve(foreign, monkeypatch, "triton", "--only", "^gemm_s1$", "--check") == 1
    found = {item["name"]: item["error"] for item in map(json.loads, capsys.readouterr().out.splitlines())}
    assert found["gemm_s1.base"] == "" and "out of resources" in found["gemm_s1.nostore"]
    assert "wrong result: largest error 0.5" in found["gemm_s1.longk"]
    monkeypatch.setattr(foreign.programs, "usable", lambda: False)
    serve(foreign, monkeypatch, "triton", "--only", "^gemm_s1$", "--check")
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["name"] == "gemm_s1.nostore", "nothing runs after an error that the GPU keeps"


DYING = """
import json, os, sys
for name in sys.argv[sys.argv.index("--launches") + 1].split(","):
    if name == "dies":
        sys.exit("Segmentation fault")
    error = "sticky" if name == "sticky" else ""
    print(json.dumps({"name": name, "kernels": ["one", "two"] if name == "c" else None, "error": error}), flush=True)
    if error:
        sys.exit(1)
"""


def test_what_kills_a_process_costs_that_launch_alone(foreign: Any) -> None:
    argv = [sys.executable, "-c", DYING]
    told = foreign.prepare.prepare(argv, ["a", "dies", "b", "sticky", "c", "dies2"], 1)
    assert told.errors == {"dies": "ended its process: Segmentation fault", "sticky": "sticky"}
    assert told.kernels == {"c": ["one", "two"]}
    assert foreign.prepare.prepare(argv, ["dies"], 3).errors.keys() == {"dies"}


class FakeReport:
    """Launches with NVTX ranges and cycles, in the shape of ``Report``."""

    def __init__(self, rows: list[tuple[str, float]]) -> None:
        self.cycles = [cycles for _, cycles in rows]
        texts = [text for text, _ in rows]
        self.launches = pd.DataFrame({"launch": range(len(rows)), "nvtx": texts})

    def value(self, launch: int, metric: str) -> float:
        return self.cycles[launch] if metric == "sm__cycles_elapsed.max" else math.nan


def test_a_range_names_its_longest_kernel(foreign: Any) -> None:
    rows = [("<default domain>:measured/a.base", 5.0), ("<default domain>:measured/a.base", 50.0), ("", 99.0)]
    rows.append((";x:y;<default domain>:measured/b.base/inner", 7.0))
    assert foreign.measure.by_name(FakeReport(rows)) == {"a.base": [1, 0], "b.base": [3]}


def test_resident_ctas_are_those_of_ncu(foreign: Any, repository: Path) -> None:
    limits = [f"launch__occupancy_limit_{what}" for what in ("blocks", "registers", "shared_mem", "warps")]
    recorded = {
        "triton_gemm/stages3": 2,
        "triton_gemm/stages5": 1,
        "tensor_core_gemm/stages1": 2,
        "tiled_matmul/default": 2,
    }
    for name, ctas in recorded.items():
        report = Report.open(repository / "recordings" / "h200" / name)
        assert (
            foreign.measure.ctas_per_sm(report.identity(0)) == min(report.value(0, limit) for limit in limits) == ctas
        )
    slim = Report.open(repository / "recordings" / "h200-repeats" / "tensor_core_gemm" / "stages1")
    assert foreign.measure.ctas_per_sm(slim.identity(0)) == 2, "the set tensor holds registers and shared memory, too"


def test_labels_are_written_of_what_was_measured(foreign: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    item = next(one for one in foreign.plan.experiments() if one.name == "gemm_s1")
    work = foreign.facts.work(item.program, item.options)
    cycles = {"base": 1000.0, "stages2": 700.0, "stages4": 600.0, "nostore": 980.0, "longk": 3960.0, "once": 2000.0}
    launches = {launch.name: foreign.facts.work(launch.program, launch.options) / work for _, launch in item.changed()}
    changed = {
        f"gemm_s1.{name}": (number, measured(foreign, value, products=100.0 * launches.get(f"gemm_s1.{name}", 1.0)))
        for number, (name, value) in enumerate(cycles.items())
    }
    found = {"base": {"gemm_s1.base": (3, measured(foreign, 1010.0))}, "changed": changed, "nsight": {}}
    main = getattr(foreign, "__main__")  # noqa: B009
    monkeypatch.setattr(main, "read", lambda out: found)
    rows = main.write(tmp_path, {"gemm_s1.whole": "why"})
    written = json.loads((tmp_path / "labels.json").read_text())
    assert written["experiments"] == json.loads(json.dumps(rows)) and written["left_out"] == {"gemm_s1.whole": "why"}
    (row,) = rows
    assert (row["report"], row["launch"], row["label"]) == ("base/triton", 3, ["data_wait"])
    assert row["gain"] == {"change": "stages4", "gain_pct": pytest.approx(40.0)}
    assert row["shares_pct"]["copy_cost"] == pytest.approx(9.0)
    assert "gemm_s1" in main.table(rows)[1]


def test_launches_are_checked_once(foreign: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    main = getattr(foreign, "__main__")  # noqa: B009
    asked: dict[str, list[str]] = {}

    def prepare(argv: list[str], names: list[str], processes: int) -> Any:
        asked[argv[-1]] = names
        return foreign.prepare.Told({name: "why" for name in names if name.endswith("once")}, {})

    monkeypatch.setattr(main.prepare, "prepare", prepare)
    known = main.checked(tmp_path, "^(gemm_s1|rows_tiny)$", 2)
    assert asked["library"] == ["rows_tiny.base", "rows_tiny.smaller"] and len(asked["triton"]) == 7
    assert known["errors"] == {"gemm_s1.once": "why"} == main.known_of(tmp_path)["errors"]
    again = main.checked(tmp_path, "^gemm_s[12]$", 2)
    assert all(name.startswith("gemm_s2") for name in asked["triton"]) and not asked["library"]
    assert set(again["errors"]) == {"gemm_s1.once", "gemm_s2.once"}


def test_a_step_profiles_what_is_sound(foreign: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    main = getattr(foreign, "__main__")  # noqa: B009
    asked: list[list[str]] = []

    def run(argv: list[str], **options: Any) -> Any:
        asked.append(argv)
        return SimpleNamespace(returncode=0, stdout="", stderr="")

    monkeypatch.setattr(main.subprocess, "run", run)
    known = {"errors": {"gemm_s1.whole": "why"}, "kernels": {"gemm_s1.once": ["a", "b"], "gemm_s1.longk": ["a"]}}
    assert not main.profiled(tmp_path, "changed", "triton", "^gemm_s1$", known), "no run came of it"
    assert main.profiled(tmp_path, "changed", "library", "^gemm_s1$", known), "there is nothing to run"
    assert main.profiled(tmp_path, "base", "triton", "^x$", known)
    ((*head, place), program) = asked[0][: asked[0].index("--")], asked[0][asked[0].index("--") + 1 :]
    assert head[:6] == ["ncubble", "profile", "--set", "tensor", "--nvtx", "measured/"]
    assert place == str(tmp_path / "changed" / "triton") and program[1:4] == [
        "-m",
        "benchmarks.foreign.programs",
        "triton",
    ]
    assert program[4:] == [
        *("--what", "all", "--only", "^gemm_s1$", "--without", "gemm_s1.whole", "--several", "gemm_s1.once=2")
    ]
    assert len(asked) == 1


def test_a_damaged_run_is_named_and_the_rest_is_read(
    foreign: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "base" / "triton").mkdir(parents=True)
    (tmp_path / "changed" / "triton").mkdir(parents=True)

    def read(place: Path) -> dict[str, Any]:
        if place.parent.name == "base":
            raise ReportError(f"{place}: damaged", "record it again")
        return {"x.base": (0, None)}

    main = getattr(foreign, "__main__")  # noqa: B009
    monkeypatch.setattr(main.measure, "read", read)
    found = {}
    with suppress(ReportError):
        found = main.read(tmp_path)
    assert found["changed"] == {"x.base": (0, None)} and found["base"] == {}
    assert "UNREADABLE" in capsys.readouterr().out
