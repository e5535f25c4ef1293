"""The library and the command line give the same numbers, over one recording of every kernel."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import ncubble
from ncubble.cli.main import main
from ncubble.recordings import FULL, H100, RANKS, REPEATS, ROOT

FOLDERS = (ROOT, FULL, H100, RANKS)
PAIRS = [
    ("gemm_tma/stages1", "gemm_tma/stages3"),
    ("tensor_core_gemm/stages1-plain", "tensor_core_gemm/stages3-vec4"),
    ("triton_gemm", "triton_gemm"),
]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Any:
    """The JSON that a command prints."""
    with pytest.raises(SystemExit):
        main([*map(str, arguments), "--json"])
    return json.loads(capsys.readouterr().out)


def plain(value: Any) -> Any:
    """``value`` as JSON has it: no NaN, keys as text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


@pytest.fixture(scope="module")
def everything() -> ncubble.ReportSet:
    return ncubble.load(FOLDERS)


def test_every_launch_has_the_verdict_that_report_prints(
    everything: ncubble.ReportSet, capsys: pytest.CaptureFixture[str]
) -> None:
    told = printed(capsys, "report", *FOLDERS)
    assert len(told["launches"]) == len(everything) >= 64
    assert told.pop("traces") == []  # of traces of time alone, which load does not take
    assert plain(everything.to_json()) == told


def test_frames_hold_the_numbers_of_the_verdicts(everything: ncubble.ReportSet) -> None:
    frame, accounts = everything.launches, everything.accounts
    for name in ("duration_ns", "cycles", "tensor_elapsed_pct", "dram_pct"):
        assert [plain(value) for value in frame[name].tolist()] == [
            None if (verdict := launch.verdict_or_none) is None else getattr(verdict, name) for launch in everything
        ]
    assert (accounts.sum(axis=1, skipna=False).dropna() - 100).abs().max() < 0.005
    for number in (0, len(everything) // 2, len(everything) - 1):
        assert everything[number].account.to_dict() == accounts.loc[number, everything[number].account.index].to_dict()


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_comparisons_are_those_of_compare(first: str, second: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = printed(capsys, "compare", ROOT / first, ROOT / second)
    found = plain(ncubble.compare(ROOT / first, ROOT / second).to_json())
    assert found["comparisons"] == told["comparisons"] and found["unmatched"] == told["unmatched"]


@pytest.mark.parametrize("run", ["gemm_tma/stages2", "tensor_core_gemm/stages1-plain", "async_copy_tma/default"])
def test_depths_are_those_of_report(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    (told,) = printed(capsys, "report", ROOT / run, "--depths")["launches"]
    assert json.loads(json.dumps(ncubble.load(ROOT / run)[0].predict_depths().to_json())) == told["depths"]


@pytest.mark.parametrize(
    ("command", "run"),
    [("program", "h100-program/train"), ("streams", "h100-lanes/streams-peer"), ("trace", "h200-lanes/trace-both")],
)
def test_recordings_of_time_are_those_of_their_commands(
    command: str, run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ROOT.parent / run
    assert plain(getattr(ncubble, command)(folder).to_json()) == printed(capsys, command, folder)


@pytest.mark.parametrize("rules", [[], ["cycles 0.01%", "tensor_elapsed_pct >= 90"]])
def test_a_check_is_that_of_check(
    rules: list[str],
    repository: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    store = repository / "baselines"
    limits = [word for rule in rules for word in ("--rule", rule)]
    told = printed(capsys, "check", REPEATS, "--baseline", store, "--no-history", *limits)
    assert plain(ncubble.check(REPEATS, baseline=store, rules=rules).to_json()) == told
