"""``ncubble trend`` over a history of twelve checks, of which the seventh and later lost 4 %."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ncubble
from ncubble.analysis.gate.check import check
from ncubble.analysis.gate.history import FILE, append, kept
from ncubble.analysis.gate.verdicts import CheckOptions
from ncubble.cli import main
from ncubble.errors import MeasurementError, UsageError
from ncubble.recordings import CHECKS
from tests.helpers.gate_frames import groups, recorded, report

WHEN = datetime(2026, 9, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("checks")
    for day in range(12):
        values = [(43.0 if day < 6 else 41.3) + 0.02 * (day % 3) + 0.01 * repeat for repeat in range(5)]
        manifest = {"git": {"sha": f"{day + 1:x}" * 40, "dirty": False}}
        result = check(groups(report(values, key=f"{day:016x}", manifest=manifest)), recorded(report()), CheckOptions())
        append(made, kept(result, checked=WHEN + timedelta(days=day)))
    return made


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main.app, ["trend", *arguments])


def test_it_prints_what_changed_when_and_at_which_commit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    done = run(str(folder))
    assert done.exit_code == 0
    assert "▼ worse -3.95 % on 2026-09-07" in done.stdout
    assert "at 7777777777 after 6666666666, confidence > 99.99 %" in done.stdout
    assert "dram_pct" not in done.stdout and "dram_pct" in run(str(folder), "--all").stdout


def test_json_holds_the_numbers_also_of_the_project(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "ncubble.toml").write_text(f"[gate]\nhistory = '{folder}'")
    monkeypatch.chdir(tmp_path)
    assert ncubble.trend(kernel="stages=3").history.folder == folder
    told = json.loads(run("--json", "--changed").stdout)
    (one,) = told["series"]
    (change,) = one["changes"]
    assert (told["schema"], one["metric"], change["sha"]) == (1, "tensor_elapsed_pct", "7" * 40)
    assert change["last_sha_before"] == "6" * 40 and change["checked"] == "2026-09-07T00:00:00+00:00"
    assert change["change_pct"] == pytest.approx(-3.95, abs=0.01) and change["direction"] == "worse"


def test_kernels_are_chosen_by_name_and_a_wrong_name_is_told_what_there_is(folder: Path) -> None:
    assert "tensor_core_gemm" in run(str(folder), "--kernel", "stages=3").stdout
    for arguments in (["--kernel", "nonsense"], ["--kernel", "nonsense", "--json"]):
        error = run(str(folder), *arguments).exception
        assert isinstance(error, MeasurementError) and error.exit_code == 3
        assert "'nonsense'; available:\n  tensor_core_gemm stages=3" in error.message
    assert isinstance(run(str(folder), "--kernel", "(").exception, UsageError)


def test_without_any_change_it_says_how_much_was_searched() -> None:
    done = run(str(CHECKS), "--changed")
    assert done.exit_code == 0 and done.stdout.startswith("no change in 9 series\n")
    assert "2 series have fewer than" in done.stdout
    assert json.loads(run(str(CHECKS), "--changed", "--json").stdout)["series"] == []


@pytest.mark.parametrize("arguments", [[], ["none"], ["empty"], ["empty", "--json"]])
def test_without_a_history_it_says_where_one_comes_from(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    error = run(*arguments).exception
    assert isinstance(error, UsageError) and error.exit_code == 2
    assert error.message.startswith((arguments or ["checks"])[0]) and "ncubble check RUN" in error.remedy


def test_damaged_lines_are_named_and_the_rest_is_shown(tmp_path: Path, folder: Path) -> None:
    (tmp_path / FILE).write_bytes(b"half a li\n")
    assert run(str(tmp_path)).exit_code == 3
    (tmp_path / FILE).write_bytes((folder / FILE).read_bytes() + b"half a li\n")
    done = run(str(tmp_path))
    assert done.exit_code == 3 and f"{FILE} line 13: damaged" in done.stderr and "-3.95 %" in done.stdout


@pytest.mark.parametrize("columns", [60, 100])
def test_it_is_no_wider_than_the_terminal(columns: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for arguments in ([str(folder), "--all"], [str(CHECKS), "--all"]):
        told = run(*arguments).stdout
        assert max(map(len, told.splitlines())) <= columns
        assert "tensor_elapsed_pct" in told and "…" not in told
