"""Variants run in processes that may die, played by a program without a GPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ncubble.errors import MeasurementError
from ncubble.profiling.capsules import replays
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.capsules.replays import NOT_TRIED, TRIES, ReplayOutcome, ReplayVariant, probe

PLAYED = Path(__file__).resolve().parents[3] / "data" / "played_replay.py"
FAULT = "CUDA_ERROR_ILLEGAL_INSTRUCTION"


@pytest.fixture(autouse=True)
def _played(monkeypatch: pytest.MonkeyPatch) -> None:
    def argv(capsule: Capsule, plan: Path) -> list[str]:
        return [sys.executable, str(PLAYED), str(capsule.folder), str(plan)]

    monkeypatch.setattr(replays, "argv", argv)


@pytest.fixture
def capsule(tmp_path: Path) -> Capsule:
    return Capsule(tmp_path, {"regions": []})


def variants(folder: Path, **fates: str) -> list[ReplayVariant]:
    """Variants by their fate; ``a_b`` holds ``a`` and ``b``."""
    made = []
    for name, fate in fates.items():
        (folder / f"{name}.cubin").write_text(fate)
        holds = tuple(name.split("_")) if "_" in name else ()
        made.append(ReplayVariant(name, folder / f"{name}.cubin", fate == "differs", holds))
    return made


def processes(folder: Path) -> list[list[str]]:
    """Names in the plan of each process that was started."""
    return [json.loads(line) for line in (folder / "processes.jsonl").read_text().splitlines()]


def test_all_variants_run_in_one_process(capsule: Capsule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/recorder.so")
    heard: list[str] = []
    found = probe(
        capsule, variants(capsule.folder, none="ok", wait="ok", slack="differs"), capsule.folder, heard.append
    )
    assert found == {
        "none": ReplayOutcome("ok"),
        "wait": ReplayOutcome("ok"),
        "slack": ReplayOutcome("ok", same=False),
    }
    assert processes(capsule.folder) == [heard] == [["none", "wait", "slack"]]


def test_one_that_faults_or_dies_costs_itself_only(capsule: Capsule) -> None:
    found = probe(capsule, variants(capsule.folder, a="ok", b=FAULT, c="die", d="ok"), capsule.folder)
    assert {name: one.status for name, one in found.items()} == {
        "a": "ok",
        "b": FAULT,
        "c": "the process died",
        "d": "ok",
    }
    assert processes(capsule.folder) == [["a", "b", "c", "d"], ["c", "d"], ["d"]]


def test_one_that_hangs_is_killed_and_named(capsule: Capsule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "HANG_S", 0.4)
    found = probe(capsule, variants(capsule.folder, a="ok", b="hang", c="ok"), capsule.folder)
    assert [one.status for one in found.values()] == ["ok", "hangs", "ok"]


def test_a_large_launch_has_longer_to_restore_its_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small = Capsule(tmp_path, {"regions": [{"base": 1 << 30, "size": 8}]})
    large = Capsule(tmp_path, {"regions": [{"base": 1 << 30, "size": 16 << 30}]})
    assert replays.silence_s(small) == pytest.approx(replays.HANG_S)
    assert replays.silence_s(large) > 30


def test_sets_that_hold_a_failed_part_are_not_tried(capsule: Capsule) -> None:
    made = variants(capsule.folder, wait=FAULT, sync="ok", wait_sync="ok", sync_smem="ok")
    found = probe(capsule, made, capsule.folder)
    assert list(found) == ["wait", "sync", "wait_sync", "sync_smem"]
    assert found["wait_sync"].status == NOT_TRIED and found["sync_smem"].status == "ok"
    assert processes(capsule.folder)[1:] == [["sync", "sync_smem"]]


def test_addresses_that_are_taken_may_be_free_in_the_next_process(capsule: Capsule) -> None:
    (capsule.folder / "taken").write_text(str(TRIES - 1))
    found = probe(capsule, variants(capsule.folder, none="ok"), capsule.folder)
    assert found["none"].status == "ok" and len(processes(capsule.folder)) == TRIES


def test_addresses_that_stay_taken_end_the_trial(capsule: Capsule) -> None:
    (capsule.folder / "taken").write_text("99")
    with pytest.raises(MeasurementError, match="cannot be replayed: 0x7f0000000000 is in use"):
        probe(capsule, variants(capsule.folder, none="ok"), capsule.folder)
    assert len(processes(capsule.folder)) == TRIES


def test_a_program_that_launches_nothing_ends_the_trial(capsule: Capsule, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = [sys.executable, "-c", "import sys; sys.exit('no driver')"]
    monkeypatch.setattr(replays, "argv", lambda capsule, plan: failing)
    with pytest.raises(MeasurementError, match="cannot be replayed: no driver"):
        probe(capsule, variants(capsule.folder, none="ok"), capsule.folder)
