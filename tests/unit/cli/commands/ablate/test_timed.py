"""``ncubble ablate`` where no counter can be read: time in place of cycles, and all says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ncubble.analysis.ablation.result import FILE, Ablation
from ncubble.analysis.account.shares import NONE
from ncubble.chips import Version
from ncubble.errors import MeasurementError
from ncubble.profiling.failures import (
    CounterPermissionError,
    NcuMissingError,
    NcuTooOldError,
    NcuUnusableError,
    ProfilerBusyError,
)
from tests.unit.cli.commands.ablate.test_ablate import ARGUMENTS, CYCLES, FAULT, Played, cubin, measured, played, run

__all__ = ["cubin", "played"]
WORDS = ["wait", "copy", "sync", "wait_sync", "copy_sync", "epilogue", "all"]


@pytest.mark.parametrize("asked", [True, False])
def test_refused_counters_lead_to_times(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played, asked: bool
) -> None:
    played.no_counters = CounterPermissionError()
    found, _ = measured(capsys, tmp_path / "out", *(["--time"] if asked else []))
    assert found["measure"] == "time" and found["cycles"] is None
    assert found["time_ns"] == pytest.approx(CYCLES / 2, rel=2e-3) and found["rounds"] == 4
    low, high = found["interval_ns"]
    assert low <= found["time_ns"] <= high and found["overhead_ns"] == 1500.0 and found["clock_mhz"] == 2000.0
    parts = {part["part"]: part for part in found["parts"]}
    assert parts["data_wait"]["alone"] == pytest.approx(30.0, abs=0.2) and parts["data_wait"]["interval"]
    assert all(part["estimated"] is None for part in found["parts"])
    wait = next(one for one in found["variants"] if one["name"] == "wait")
    assert wait["cycles"] == [] and len(wait["times_ns"]) == 4 and wait["clock_mhz"] == 2000.0
    (launches,) = played.counted
    names = launches[: len(launches) // 5]
    assert names[:8] == [NONE, *WORDS] and launches == [*names, *names[::-1], *names, *names[::-1], *names]
    refused = [note for note in found["notes"] if "ERR_NVGPUCTRPERM" in note]
    assert bool(refused) is not asked, "the note says why, unless time was wanted"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [FILE, "kernel.cubin"]


@pytest.mark.parametrize(
    "lacking",
    [
        NcuMissingError(["PATH"]),
        NcuUnusableError("/bin/ncu", "it says no version"),
        NcuTooOldError("/bin/ncu", Version(2020, 1), Version(2024, 1)),
    ],
)
def test_what_was_timed_is_shown_with_its_measure(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    played: Played,
    monkeypatch: pytest.MonkeyPatch,
    lacking: MeasurementError,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    played.no_counters = lacking
    page = tmp_path / "page.md"
    status, out, err = run(
        capsys, *ARGUMENTS[:-2], "--no-slack", "--markdown", str(page), "--out", str(tmp_path / "out")
    )
    assert status == 0, err
    for text in (out, run(capsys, str(tmp_path))[1]):
        assert "measured in time, not in cycles: no counters were read" in text
        assert "part (% of time)" in text and "remainder, work included" in text and "% of cycles" not in text
        assert "200.10 µs (200.00 to 200.20)" in text and "at 2,000 MHz" in text and "estimated" not in text
        assert max(map(len, text.splitlines())) <= 80
    assert "in % of time" in page.read_text() and "cycles" not in page.read_text()


def test_another_failure_of_the_profiler_is_not_passed_over(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played
) -> None:
    played.no_counters = ProfilerBusyError("dcgm")
    status, _, err = run(capsys, *ARGUMENTS, str(tmp_path / "out"))
    assert status == 3 and "another tool is reading the GPU's counters" in err
    assert list(tmp_path.iterdir()) == []


def test_a_variant_that_fails_in_turns_is_left_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played
) -> None:
    played.fates = [{"sync": FAULT}, {}]
    found, _ = measured(capsys, tmp_path / "out", "--time", "--no-slack")
    assert {one["name"]: one["status"] for one in found["variants"]}["wait"] == "ok"
    assert len(played.counted) == 2


def test_by_default_times_are_taken_more_often(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played
) -> None:
    status, out, err = run(capsys, "gemm_tma", "--time", "--no-slack", "--json", "--out", str(tmp_path / "out"))
    assert status == 0, err
    assert json.loads(out)["runs"][0]["rounds"] == 21
    kept = Ablation.load(tmp_path / "out")
    assert kept is not None and kept.timed and "python" in kept.argv[0]
