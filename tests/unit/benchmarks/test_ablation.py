"""How both kinds of ablation agree, and the programs that were tried: what the recordings say."""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ncubble.analysis.ablation.result import Ablation, MeasuredVariant
from tests.helpers.ablations import ablation


@pytest.fixture(scope="module")
def agreement(repository: Path) -> ModuleType:
    return importlib.import_module("benchmarks.ablation.agreement")


@pytest.fixture(scope="module")
def timed(repository: Path) -> ModuleType:
    return importlib.import_module("benchmarks.ablation.timed")


@pytest.fixture(autouse=True)
def _measures_nothing(monkeypatch: pytest.MonkeyPatch, agreement: ModuleType) -> None:
    def refuse(*arguments: Any, **more: Any) -> None:
        raise AssertionError("--show measures nothing")

    monkeypatch.setattr(agreement.subprocess, "run", refuse)


def shown(module: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> int:
    monkeypatch.setattr(sys, "argv", ["benchmark", str(folder), "--show", *more])
    return int(module.main())


def test_the_agreement_is_that_of_the_recordings(
    agreement: ModuleType, repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = repository / "recordings" / "validation" / "ablation" / "agreement"
    assert shown(agreement, folder, monkeypatch) == 1, "targets are missed"
    out = capsys.readouterr().out
    assert out.splitlines()[-2].split() == ["269", "sets:", "mean", "3.90,", "worst", "24.24", "all"]
    assert out.splitlines()[-1] == "targets: mean 2.0 met, worst 5.0 missed"
    cases = [line for line in out.splitlines() if " cycles {" in line]
    assert len(cases) == len([path for path in folder.iterdir() if path.is_dir()])


def test_shorter_code_is_nearer_to_the_source_than_nops(
    agreement: ModuleType, repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = repository / "recordings" / "validation" / "ablation"
    means = []
    for route in ("shorter", "agreement"):
        shown(agreement, folder / route, monkeypatch, "--cases-of", str(folder / "shorter"))
        means.append(re.findall(r"^ *(\d+) sets: mean +([\d.]+)", capsys.readouterr().out, re.MULTILINE))
    (shorter, nops) = means
    assert [count for count, _ in shorter] == [count for count, _ in nops], "the same sets"
    assert all(float(here) < float(there) for (_, here), (_, there) in zip(shorter, nops, strict=True))


def test_sets_count_apart_where_the_source_level_variant_is_another_kernel(agreement: ModuleType) -> None:
    source = {"wait": 29.0, "sync": 1.0, "smem": 20.0, "wait_sync": 23.0, "epilogue": -9.0}
    code = {"wait": 30.0, "sync": 0.0, "smem": 7.0, "wait_sync": 29.0, "epilogue": 0.5}
    apart = {word: agreement.why_apart("gemm", word, source, code) for word in source}
    assert apart == {
        **{"wait": "", "sync": "", "smem": agreement.SHARED},
        **{"wait_sync": agreement.SLOWER, "epilogue": agreement.SLOWER},
    }
    assert agreement.why_apart("gemm", "epilogue", source, {"epilogue": -9.0}) == "", "both routes show it"
    assert agreement.why_apart("gemm_tma/stages2", "all", {"all": 32.0}, {"all": 31.0}) == "", "it has no shared loads"


def test_a_case_alone_is_compared_set_by_set(
    agreement: ModuleType, repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = repository / "recordings" / "validation" / "ablation" / "agreement"
    shown(agreement, folder, monkeypatch, "--only", "^gemm_tma/stages2$")
    assert re.search(r"^gemm_tma/stages2: 404,552 cycles", capsys.readouterr().out)
    assert shown(agreement, folder, monkeypatch, "--only", "^no such case$") == 1
    assert capsys.readouterr().out == "nothing was measured\n"


def test_only_sets_that_both_routes_removed_are_compared(agreement: ModuleType, repository: Path) -> None:
    cell = {"cycles": [80.0, 80.0], "work": 1.0}
    whole = {"cycles": [100.0], "work": 1.0}
    variants = {"none": whole, "wait": cell, "tail": cell, "copy": {"cycles": [], "work": 1.0}, "sync": cell}
    case = {
        "case": "gemm",
        "kernel": "gemm",
        "parameters": {"stages": 2},
        "shape": {"m": 8, "n": 9},
        "variants": variants,
    }
    folder = repository / "recordings" / "validation" / "ablation" / "agreement" / "gemm_tma-stages2"
    recorded = Ablation.load(folder)
    assert recorded is not None
    measured = [MeasuredVariant("wait", "ok", 1, [75.0], 25.0), MeasuredVariant("sync", "hangs", 1)]
    assert agreement.compared(case, replace(recorded, variants=measured)) == [
        {"case": "gemm", "word": "wait", "source": pytest.approx(20.0), "code": 25.0, "error": pytest.approx(5.0)}
        | {"apart": ""}
    ]
    argv = agreement.argv(case, Path("out"))
    assert argv[argv.index("ablate") :] == [
        "ablate",
        "gemm",
        "-p",
        "stages=2",
        "-p",
        "m=8,n=9",
        "--out",
        "out",
    ]


def test_the_targets_decide_how_it_ends(agreement: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"case": "gemm", "word": "wait", "source": 20.0, "code": 21.5, "error": 1.5, "apart": ""}
    assert agreement.report([row]) == 0
    assert capsys.readouterr().out.endswith("\ntargets: mean 2.0 met, worst 5.0 met\n")
    assert agreement.report([row, {**row, "error": 30.0, "apart": agreement.SHARED}]) == 0
    assert agreement.report([row] * 9 + [{**row, "error": -5.5}]) == 1, "the worst alone"
    assert agreement.report([{**row, "error": 2.5}]) == 1, "the mean alone"


def timed_pair(clock: float | None) -> tuple[Ablation, Ablation]:
    """An ablation in cycles, and one of the same kernel in time whose variant clocks a fifth
    higher."""
    counted = replace(ablation([]), variants=[MeasuredVariant("wait", "ok", 1, [70.0], 30.0)])
    wait = MeasuredVariant("wait", "ok", 1, [], 41.67, 0.1, None, [58.33], clock and 1.2 * clock, (41.0, 42.0))
    other = MeasuredVariant("sync", "hangs", 1)
    timed = replace(ablation([]), cycles=None, measure="time", time_ns=100.0, clock_mhz=clock, variants=[wait, other])
    return counted, timed


def test_time_times_clock_is_held_against_cycles(timed: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(timed.rows_of("gemm", *timed_pair(1500.0)))
    (row,) = rows
    assert (row.word, row.cycles, row.held) == ("wait", 30.0, False)
    assert row.corrected == pytest.approx(30.0, abs=0.01)
    assert timed.report(rows) == 0
    out = capsys.readouterr().out
    assert "time: 1 sets, mean 11.67" in out and "time x clock: 1 sets, mean 0.00" in out and "0 of 1" in out
    assert timed.report([]) == 1


def test_without_a_clock_time_alone_counts(timed: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(timed.rows_of("gemm", *timed_pair(None)))
    assert timed.report(rows) == 1 and "clock" not in capsys.readouterr().out.partition("intervals")[0]


def test_two_of_one_measure_are_not_compared(timed: ModuleType) -> None:
    counted, _ = timed_pair(1500.0)
    with pytest.raises(ValueError, match="one side must hold cycles"):
        list(timed.rows_of("gemm", counted, counted))
