"""The benchmark of `ncubble program`, as far as it needs no GPU: its figures from a real account,
its table, and the arguments of the programs that it runs."""

import importlib.util
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.program import cost
from ncubble.analysis.program.record import open_program
from tests.helpers.recorded_programs import torch_program

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def told(tmp_path: Path) -> dict:
    """What the command prints of a real recording."""
    shown = open_program(torch_program(tmp_path / "train")).to_json()
    return {**shown, "selected": {"kernels": 4, "invocation": 3, "pct": 99.0}}


def test_figures_come_from_the_account(told: dict) -> None:
    made = cost.cost_of("train", "NVIDIA H200", [4.0, 9.0, 5.0], 12.0, told)
    assert (made.plain_s, made.command_s, made.selected, made.profiled) == (5.0, 12.0, 4, 1)
    assert made.allowed_s == pytest.approx(2 * 5.0 + 0.8 * 4)
    assert made.covered_pct == pytest.approx(78.8, abs=0.1)
    assert not made.within
    assert made.ranges == 0


def test_the_table_and_the_file_hold_every_program(told: dict, tmp_path: Path) -> None:
    costs = [cost.cost_of(name, "H200", [1.0], 2.5, told) for name in ("train", "infer")]
    text = cost.table(costs)
    assert text.count("\n") == 3
    assert "| train | H200 | 1.0 | 2.5 | 5.2 | 4 | 1 | 78.8 | 0 | 24.9 |" in text
    (tmp_path / cost.RESULTS).write_text(json.dumps([asdict(one) for one in costs]))
    assert cost.table(cost.read(tmp_path)) == text


def test_the_programs_are_there_and_need_no_torch_to_say_what_they_take() -> None:
    for program in (*cost.PROGRAMS, cost.Program("ship", cost.SHIP_PROGRAM)):
        assert Path(program.argv[0]).exists() or program.argv[0] == "{binary}"
    done = subprocess.run(
        [sys.executable, cost.TORCH, "--help"], capture_output=True, text=True, check=True, timeout=60
    )
    assert "--compile" in done.stdout
    spec = importlib.util.spec_from_file_location("torch_programs", cost.TORCH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["torch_programs"] = module
    spec.loader.exec_module(module)
    job = module.job_of(["train", "--small", "--steps", "6"])
    assert (job.mode, job.steps, job.compiled, job.shape.layers) == ("train", 6, False, 2)
    with pytest.raises(SystemExit):
        module.job_of(["fly"])
