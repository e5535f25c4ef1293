"""Cycles as ncu's table has them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from ncubble.errors import MeasurementError
from ncubble.profiling.capsules import replays
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.capsules.replays import METRIC, MOVED, ReplayOutcome, counted_launches

HEAD = f'==PROF== Connected to process 7\n"ID","Kernel Name","{METRIC}"\n"","","cycle"\n'
MORE = f'"ID","{MOVED}","{METRIC}"\n"","byte","cycle"\n'


@pytest.mark.parametrize(
    ("text", "cycles"),
    [
        (f'{HEAD}"0","gemm, fast","1,111,362"\n"1","gemm","830836.5"\n', [1111362.0, 830836.5]),
        (HEAD, []),
        ("==ERROR== no permission\n", []),
        ("", []),
        (f'{HEAD}"0","gemm","5"\n==WARNING== cut off\n', [5.0]),
    ],
)
def test_cycles_stand_behind_names_and_units(tmp_path: Path, text: str, cycles: list[float]) -> None:
    (tmp_path / "rounds.csv").write_text(text)
    assert counted_launches(tmp_path / "rounds.csv")[0] == cycles


def test_bytes_stand_beside_cycles_where_the_chip_counts_them(tmp_path: Path) -> None:
    (tmp_path / "rounds.csv").write_text(f'{MORE}"0","1,024","5"\n"1","n/a","6"\n')
    cycles, moved = counted_launches(tmp_path / "rounds.csv")
    assert cycles == [5.0, 6.0] and moved[0] == 1024.0 and math.isnan(moved[1])


def test_a_table_that_was_never_written_has_none(tmp_path: Path) -> None:
    assert counted_launches(tmp_path / "rounds.csv") == ([], [])


def test_a_launch_that_was_not_counted_is_an_error_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "rounds.csv").write_text(f'{HEAD}"0","gemm","n/a"\n')
    with pytest.raises(MeasurementError, match="n/a"):
        counted_launches(tmp_path / "rounds.csv")


def test_a_plan_that_falls_silent_gives_what_it_told_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = tmp_path / "ncu"
    played.write_text(
        "#!/bin/sh\n"
        """echo '{"name": "none", "status": "ok", "same": true}'\n"""
        """echo '{"name": "none", "status": "ok", "same": null}'\n"""
        """echo '{"starts": "wait"}'\n"""
        "exec sleep 60\n"
    )
    played.chmod(0o755)
    monkeypatch.setattr(replays, "HANG_S", 0.3)
    monkeypatch.setattr(replays, "UNDER_NCU_S", 0.2)
    monkeypatch.setattr(replays, "find_ncu", lambda: type("Ncu", (), {"path": str(played)}))
    counted = replays.count_rounds(Capsule(tmp_path, {"regions": []}), tmp_path / "plan.json", lambda number: None)
    assert counted.values == []
    assert counted.outcomes == {"none": ReplayOutcome("ok", same=True), "wait": ReplayOutcome("hangs")}
