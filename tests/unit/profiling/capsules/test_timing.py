"""Launches are timed by the real program that replays a capsule, on a driver that is played: what
it queues, in which order, and what is made of it. No GPU is needed."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ncubble.errors import MeasurementError
from ncubble.profiling.capsules import replays
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.capsules.replay import CLEARS, STAMP_PTX, mean_clock
from ncubble.profiling.capsules.replays import (
    MeasuredRounds,
    ReplayOutcome,
    ReplayVariant,
    time_rounds,
    turns,
    write_plan,
)

DRIVER = Path(__file__).resolve().parents[3] / "data" / "played_driver.cpp"
BASE, SIZE = 0x10_0000_0000, 4096
EMPTY_NS = 2000.0
MEMBERS = {
    **{"function": "gemm", "kernel": "gemm", "grid": [1, 1, 1], "block": [32, 1, 1], "shared": 0, "cluster": [0, 0, 0]},
    **{"cooperative": 0, "regions": [{"base": BASE, "size": SIZE}], "globals": []},
    "attributes": {"dynamic_shared": 0, "carveout": 0, "non_portable_cluster": 0, "cache": 0},
}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a library that plays libcuda."""
    if not (compiler := shutil.which("g++")):
        pytest.skip("needs g++")
    folder = tmp_path_factory.mktemp("driver")
    argv = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", DRIVER, "-o", folder / "libcuda.so.1"]
    subprocess.run(argv, check=True, timeout=120)
    return folder


@pytest.fixture
def capsule(tmp_path: Path, driver: Path, monkeypatch: pytest.MonkeyPatch) -> Capsule:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
    monkeypatch.setenv("PLAYED_CALLS", str(tmp_path / "calls"))
    folder = tmp_path / "capsule"
    folder.mkdir()
    for name, content in (
        ("launch.json", json.dumps(MEMBERS)),
        *(("complete", ""), ("parameters.bin", "12345678"), ("globals.bin", ""), (f"after-{BASE:012x}.bin", "")),
    ):
        (folder / name).write_text(content)
    (folder / f"before-{BASE:012x}.bin").write_bytes(bytes(SIZE))
    return Capsule.load(folder)


def variant(folder: Path, name: str, ns: int, harmless: bool = False) -> ReplayVariant:
    """A variant whose launch takes so long; 0: it faults."""
    path = folder / f"{name}.cubin"
    path.write_text(str(ns))
    return ReplayVariant(name, path, harmless)


def timed(capsule: Capsule, folder: Path, **ns: int) -> MeasuredRounds:
    """Three rounds of variants that take so long."""
    variants = [variant(folder, name, each, name == "none") for name, each in ns.items()]
    return time_rounds(capsule, write_plan(folder / "plan.json", turns(variants, 3, mirrored=True), timed=True), print)


def test_each_launch_is_timed_alone_with_its_clock(capsule: Capsule, tmp_path: Path) -> None:
    found = timed(capsule, tmp_path, none=200_000, wait=150_000)
    assert found.values == pytest.approx([200e3, 150e3, 150e3, 200e3, 200e3, 150e3], rel=1e-6), (
        "every second round back"
    )
    assert found.clock_mhz == pytest.approx([1500.0] * 6, rel=1e-3)
    assert found.outcomes == {"none": ReplayOutcome("ok", same=True), "wait": ReplayOutcome("ok")}
    assert found.overhead_ns == pytest.approx(EMPTY_NS, rel=1e-3) and found.late == 0
    assert all(math.isnan(moved) for moved in found.dram_B)


def test_a_launch_is_queued_behind_clears_and_between_events(capsule: Capsule, tmp_path: Path) -> None:
    timed(capsule, tmp_path, none=200_000)
    calls = (tmp_path / "calls").read_text().split()
    each = ["zero", *["clear"] * CLEARS, "stamp", "event", "launch", "event", "stamp"]
    assert calls[-3 * len(each) :] == each * 3


def test_a_launch_that_was_queued_late_is_counted(
    capsule: Capsule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAYED_LATE", "1")
    assert timed(capsule, tmp_path, none=200_000).late == 3


def test_a_launch_that_faults_ends_the_turns_and_is_named(capsule: Capsule, tmp_path: Path) -> None:
    found = timed(capsule, tmp_path, none=200_000, wait=0)
    assert found.values == pytest.approx([200e3])
    assert found.outcomes["wait"] == ReplayOutcome("CUDA_ERROR_LAUNCH_FAILED")


def test_without_the_plan_s_word_nothing_is_timed(capsule: Capsule, tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "plan.json", [variant(tmp_path, "none", 5)])
    found = time_rounds(capsule, plan, print)
    assert found.values == [] and found.outcomes == {"none": ReplayOutcome("ok")}
    assert (tmp_path / "calls").read_text().split() == ["launch"]


def test_no_driver_is_an_error(capsule: Capsule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    monkeypatch.setattr(replays, "argv", lambda capsule, plan: ["python3", "-c", "raise SystemExit('no driver')"])
    with pytest.raises(MeasurementError, match="cannot be replayed: no driver"):
        timed(capsule, tmp_path, none=1)


def test_turns_go_back_and_forth_only_if_mirrored(tmp_path: Path) -> None:
    pair = [variant(tmp_path, name, 1) for name in "ab"]
    assert [one.name for one in turns(pair, 3)] == list("ababab")
    assert [one.name for one in turns(pair, 4, mirrored=True)] == list("abbaabba")


@pytest.mark.parametrize(
    ("before", "after", "mhz"),
    [
        ([100, 1000, 0, 0], [1600, 2000, 5, 9], 1500.0),  # the second SM was not seen before
        ([0, 0, 0, 0], [1600, 2000, 0, 0], None),
        ([100, 1000], [100, 2000], None),  # a clock that stands
        ([0, 1000], [10**9, 1001], None),  # a clock that cannot be
    ],
)
def test_the_clock_is_that_of_sms_seen_twice(before: list[int], after: list[int], mhz: float | None) -> None:
    assert mean_clock([*before, *after]) == (None if mhz is None else pytest.approx(mhz))


def test_no_register_of_the_stamp_hides_a_special_one() -> None:
    """``%clock`` as a register of its own assembles, and then half of the clock is read."""
    declared = {name for line in re.findall(r"\.reg \.\w+ ([^;]+);", STAMP_PTX) for name in line.split(", ")}
    read = set(re.findall(r"mov\.u\d+ %\w+, (%\w+);", STAMP_PTX))
    assert read == {"%smid", "%clock64", "%globaltimer"}
    assert not declared & (read | {"%clock", "%clock_hi", "%globaltimer_lo", "%globaltimer_hi"})
