"""`ncubble try`: what it asks for, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ncubble.analysis.changes.change import Change
from ncubble.analysis.changes.tried import Built, Tried, TriedChange, TriedRound
from ncubble.api import trying
from ncubble.api.trying import TriedRun
from ncubble.cli import main as cli


def change(name: str, after: int, gain: float | None, outcome: str = "ok", why: str = "") -> TriedChange:
    bounds = (
        {} if gain is None else {"us": 80.0, "gain_pct": gain, "low": gain - 1, "high": gain + 1, "difference": 0.0}
    )
    return TriedChange(
        kind=name, name=name, before=2, after=after, outcome=outcome, why=why, built=Built(96, 0, 1024), **bounds
    )


RUN = TriedRun(
    Path("runs/try-gemm"),
    Tried(
        kernel="gemm",
        language="triton",
        device="NVIDIA H100",
        compared="the program's own results",
        rounds=[
            TriedRound(
                settings={"stages": 2},
                us=100.0,
                sm_mhz=1980,
                built=Built(96, 0, 1024),
                changes=[
                    change("stages", 3, 20.0),
                    change("stages", 1, -40.0),
                    change("warps", 1, None, "spills", "spills 64 B more of a thread's registers"),
                ],
            )
        ],
        stopped="every single change was tried",
    ),
    [Change(kind="stages", before=2, after=3, gain_pct=18.0, low=2.0, high=22.0, basis="predicted")],
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the verb was called with."""
    calls: list[Any] = []

    def made(program: Any, **given: Any) -> TriedRun:
        calls.append((program, given))
        return RUN

    monkeypatch.setattr(trying, "try_changes", made)
    return calls


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, Any]:
    with pytest.raises(SystemExit) as ended:
        cli.main(["try", *argv])
    return int(ended.value.code or 0), capsys.readouterr()


def test_changes_are_shown_by_their_gain_beside_the_prediction(
    asked: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = run(capsys, "--kernel", "gemm", "--", "python", "train.py")
    assert code == 0
    rows = [line.split() for line in said.out.splitlines() if "→" in line]
    assert rows[0][:6] == ["stages", "2", "→", "3", "+20.0", "1.0"]
    assert rows[0][6] == "+18.0"
    assert rows[1][4] == "-40.0"
    assert "not timed: warps=1 (spills: spills 64 B more of a thread's registers)" in said.out
    assert "best: stages=3, 20.0 % of the time saved" in said.out
    assert asked[0][0] == ["python", "train.py"]
    assert asked[0][1]["kernel"] == "gemm"


def test_a_kernel_of_the_catalog_has_parameters(asked: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "tensor_core_gemm", "-p", "stages=1", "--repeat", "--json")[0] == 0
    program, given = asked[0]
    assert (program, given["parameters"], given["repeat"]) == ("tensor_core_gemm", ["stages=1"], True)


def test_json_is_what_is_kept_with_the_predictions(asked: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(run(capsys, "gemm", "--json")[1].out)
    assert told["rounds"][0]["changes"][0]["gain_pct"] == 20.0
    assert told["predicted"][0]["to"] == 3


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        ((), "name a catalog kernel, or a program after --"),
        (("gemm", "--", "./gemm"), "name a catalog kernel, or a program after --"),
        (("-p", "stages=1", "--", "./gemm"), "-p and --catalog are for catalog kernels"),
    ],
)
def test_a_wrong_request_is_refused(argv: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(capsys, *argv)
    assert code == 2
    assert complaint in said.err
