"""Small damaged or misleading reports that a gate once passed, if they lie beside the checkout."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ncubble.cli.main import main

CASES = Path(__file__).parents[5] / "shared" / "cases"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason=f"{CASES} is not there")


@pytest.fixture
def ncubble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a command prints in ``tmp_path``; it must end with one of the statuses ``ends``."""
    monkeypatch.chdir(tmp_path)

    def told(*arguments: object, ends: tuple[int, ...] = (0,)) -> str:
        with pytest.raises(SystemExit) as ended:
            main([*map(str, arguments)])
        shown = capsys.readouterr().out
        assert (ended.value.code or 0) in ends, shown
        return shown

    return told


@pytest.mark.parametrize(
    "reports",
    [
        ["own.ncu-repz"],
        ["own_plain.ncu-rep"],
        ["own.ncu-repz", "slow_nan.ncu-repz"],
        ["slow_nan.ncu-repz"],
        ["slow_dup.ncu-repz"],
        ["slow1.05.ncu-repz"],
    ],
    ids=" and ".join,
)
def test_no_case_passes_the_baseline_that_was_recorded_from_its_original(
    reports: list[str], ncubble: Callable[..., str]
) -> None:
    ncubble("check", *(CASES / name for name in reports), "--baseline", CASES / "b5", "--all", ends=(1, 3))


@pytest.mark.parametrize("name", ["fivecopies.ncu-repz", "slow_nan.ncu-repz", "slow_dup.ncu-repz"])
def test_no_baseline_is_recorded_from_copies_or_damage(name: str, tmp_path: Path, ncubble: Callable[..., str]) -> None:
    ncubble("baseline", CASES / name, "--out", tmp_path / "baselines", ends=(1, 2, 3))
    assert not list(tmp_path.glob("baselines/**/*.json"))


@pytest.mark.parametrize("name", ["tc1__B_perm_samples_each", "tc3__I_zero_tensor"])
def test_values_that_contradict_each_other_are_said(name: str, ncubble: Callable[..., str]) -> None:
    told = ncubble("report", CASES / f"{name}.ncu-repz")
    whole = ncubble("report", CASES / f"{name.split('__')[0]}__00_original.ncu-repz")
    assert "suspicious" in told and "suspicious" not in whole


def test_a_formula_stays_text_and_a_long_name_is_cut(tmp_path: Path, ncubble: Callable[..., str]) -> None:
    shutil.copy(CASES / "csv_formula.ncu-repz", tmp_path)
    ncubble("ingest", "csv_formula.ncu-repz", "--out", "data")
    asked = ncubble("query", "data", "SELECT * FROM launches", "--csv")
    assert "HYPERLINK" in asked
    assert not any(cell.lstrip('"').startswith("=") for cell in asked.split(","))
    assert 0 < len(ncubble("report", CASES / "long_name.ncu-repz")) < 20_000
