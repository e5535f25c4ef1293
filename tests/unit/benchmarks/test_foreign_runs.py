"""The programs that run the experiments, and what reads and writes their results, without a GPU."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from ncubble.analysis.report.report import Report
from ncubble.errors import ReportError
from tests.helpers.foreign_launches import measured, modules


@pytest.fixture(scope="module")
def foreign(repository: Path) -> Iterator[Any]:
    yield from modules(repository)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, foreign: Any) -> list[str]:
    """PyTorch and the calls as stand-ins that write down what happens; the launch ``*.nostore``
    fails."""
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
        self.rows = rows
        texts = [text for text, _ in rows]
        self.launches = pd.DataFrame({"launch": range(len(rows)), "nvtx": texts})

    def __iter__(self) -> Iterator[Any]:
        for number, (_, cycles) in enumerate(self.rows):
            yield SimpleNamespace(number=number, value={"sm__cycles_elapsed.max": cycles}.get)


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
        launch = Report.open(repository / "recordings" / "h200" / name).launch(0)
        assert foreign.measure.ctas_per_sm(launch.identity) == min(launch.value(limit) for limit in limits) == ctas
    slim = Report.open(repository / "recordings" / "h200-repeats" / "tensor_core_gemm" / "stages1").launch(0)
    assert foreign.measure.ctas_per_sm(slim.identity) == 2, "the set tensor holds registers and shared memory, too"


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


def test_the_second_set_is_checked_profiled_and_labelled_as_such(
    foreign: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stand_in: list[str]
) -> None:
    main = getattr(foreign, "__main__")  # noqa: B009
    argvs: list[list[str]] = []

    def prepare(argv: list[str], names: list[str], processes: int) -> Any:
        argvs.append(argv)
        return foreign.prepare.Told()

    def run(argv: list[str], **options: Any) -> Any:
        argvs.append(argv)
        return SimpleNamespace(returncode=0, stdout="", stderr="")

    monkeypatch.setattr(main.prepare, "prepare", prepare)
    monkeypatch.setattr(main.subprocess, "run", run)
    monkeypatch.setattr(
        sys, "argv", ["foreign", str(tmp_path), "--set", "second", "--only", "^gemm_tall_s2$", "--skip", "nsight"]
    )
    assert main.main() == 1, "nothing was measured"
    assert len(argvs) == 4 and all(argv[argv.index("benchmarks.foreign.programs") + 2] == "second" for argv in argvs)
    assert "gemm_tall_s2.base" in json.loads((tmp_path / "prepared.json").read_text())["checked"]
    assert json.loads((tmp_path / "labels.json").read_text())["set"] == "second"
    assert serve(foreign, monkeypatch, "--set", "second", "triton", "--only", "^gemm_(tall_s2|s1)$") == 0
    assert "run gemm_tall_s2.base" in stand_in and "run gemm_s1.base" not in stand_in


def test_a_step_profiles_what_is_sound(foreign: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    main = getattr(foreign, "__main__")  # noqa: B009
    asked: list[list[str]] = []

    def run(argv: list[str], **options: Any) -> Any:
        asked.append(argv)
        return SimpleNamespace(returncode=0, stdout="", stderr="")

    monkeypatch.setattr(main.subprocess, "run", run)
    known = {"errors": {"gemm_s1.whole": "why"}, "kernels": {"gemm_s1.once": ["a", "b"], "gemm_s1.longk": ["a"]}}
    assert not main.profiled(tmp_path, "changed", "triton", "^gemm_s1$", known), "left no run"
    assert main.profiled(tmp_path, "changed", "library", "^gemm_s1$", known), "there is nothing to run"
    assert main.profiled(tmp_path, "base", "triton", "^x$", known)
    ((*head, place), program) = asked[0][: asked[0].index("--")], asked[0][asked[0].index("--") + 1 :]
    assert head[:6] == ["ncubble", "profile", "--set", "tensor", "--nvtx", "measured/"]
    assert place == str(tmp_path / "changed" / "triton")
    assert program[1:6] == ["-m", "benchmarks.foreign.programs", "--set", "first", "triton"]
    assert program[6:] == [
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
    found = main.read(tmp_path)
    assert found["changed"] == {"x.base": (0, None)} and found["base"] == {}
    assert "UNREADABLE" in capsys.readouterr().out
