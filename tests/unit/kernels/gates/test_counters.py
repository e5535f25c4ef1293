"""Counters of a kernel's gates: which way they have to go, what says so, and what is no pass."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ncubble.errors import GateError, MeasurementError, UsageError
from ncubble.kernels.run.gates import LEFT_OUT, compare_markdown, gates_of, run_acceptance
from ncubble.kernels.spec.spec import CounterGate
from tests.helpers.gate_counters import READ, TENSOR, THROUGHPUT, WRITTEN, Counted
from tests.unit.kernels.gates.test_acceptance import GOOD, NAME, Runs, compare, run_cli

DENIED = MeasurementError("ERR_NVGPUCTRPERM: the counters are for administrators only", "ask one")


def evaluate(counted, gates=None, **told):
    return run_acceptance(NAME, gates or gates_of(NAME), run=Runs(**told), count=counted)


@pytest.mark.parametrize(
    ("direction", "baseline", "candidate", "holds"),
    [
        ("up", 100.0, 102.1, True),
        ("up", 100.0, 101.9, False),
        ("up", 100.0, 90.0, False),
        ("down", 100.0, 97.9, True),
        ("down", 100.0, 110.0, False),
        ("flat", 100.0, 101.9, True),
        ("flat", 100.0, 98.1, True),
        ("flat", 100.0, 102.1, False),
        ("flat", 100.0, 97.9, False),
        ("up", 0.0, 1.0, True),
        ("flat", 0.0, 1.0, False),
        ("flat", 0.0, 0.0, True),
    ],
)
def test_a_counter_goes_its_way_beyond_the_noise_or_stays_within_it(direction, baseline, candidate, holds):
    assert CounterGate("bytes", ("dram__bytes.sum",), direction, 2.0).holds(baseline, candidate) is holds


def test_no_value_at_all_holds_nowhere():
    for direction in ("up", "down", "flat"):
        assert not CounterGate("bytes", ("dram__bytes.sum",), direction, 2.0).holds(100.0, float("nan"))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"direction": "sideways"}, "'sideways' must be one of: up, down, flat"),
        ({"metrics": ()}, "needs metrics"),
        ({"tolerance_pct": -1.0}, "tolerance of 0 % or more"),
    ],
)
def test_a_counter_that_could_not_be_judged_is_refused(changes, complaint):
    known = {"name": "bytes", "metrics": ("dram__bytes.sum",), "direction": "up", "tolerance_pct": 2.0}
    with pytest.raises(UsageError, match=complaint):
        CounterGate(**{**known, **changes})


def test_both_paths_are_counted_on_the_timed_shape_and_metrics_are_added_up():
    counted = Counted()
    outcome = evaluate(counted)
    asked = [TENSOR, THROUGHPUT, READ, WRITTEN]
    mission = {"b": 1, "h": 8, "s": 512, "d": 64}
    assert counted.calls == [({"use_cp_async": path}, mission, asked) for path in (0, 1)]
    assert [(check.gate.direction, check.passed) for check in outcome.counters] == [
        ("up", True),
        ("up", True),
        ("flat", True),
    ]
    assert outcome.counters[2].baseline == 1_000_000.0
    outcome.require()
    assert "| DRAM traffic, bytes | 1,000,000 | 1,001,000 | +0.1 % | flat <=" in compare_markdown(outcome)
    assert "**Overall: passed.** +25.0 %" in compare_markdown(outcome)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tensor": 4.12}, "tensor pipe busy"),
        ({"tensor": 3.0}, "tensor pipe busy"),
        ({"throughput": 12.0}, "SM throughput"),
        ({"read": 1_200_000.0}, "DRAM traffic"),
        ({"read": 600_000.0}, "DRAM traffic"),
    ],
)
def test_a_counter_that_goes_another_way_fails_by_name(changes, words):
    outcome = evaluate(Counted(**changes))
    with pytest.raises(GateError, match=words):
        outcome.require()
    assert outcome.to_json()["passed"] is False
    text = compare_markdown(outcome)
    assert text.count("FAILED") == 1 and "**Overall: failed.** +25.0 %" in text and "is met" in text


@pytest.mark.parametrize("counted", [Counted(error=DENIED), Counted(tensor=None)])
def test_counters_that_cannot_be_read_are_no_pass_and_cost_nothing_that_was_measured(counted):
    outcome = evaluate(counted)
    assert outcome.gain_pct == pytest.approx(25.0)
    assert outcome.to_json()["passed"] is False and outcome.to_json()["counters"]["unmeasured"]
    with pytest.raises(MeasurementError, match="counters were not measured") as error:
        outcome.require()
    assert "--no-counters" in error.value.remedy
    text = compare_markdown(outcome)
    assert text.count("not measured |") == 3 and "Counters were not measured: " in text


def test_counters_left_out_on_request_are_named_and_pass():
    outcome = evaluate(None)
    outcome.require()
    assert outcome.to_json()["passed"] is True and LEFT_OUT in compare_markdown(outcome)


def test_a_wrong_path_is_not_counted():
    counted = Counted()
    evaluate(counted, verification=replace(GOOD, bad=50))
    assert counted.calls == []


def test_gates_without_counters_ask_for_none():
    counted = Counted()
    outcome = evaluate(counted, replace(gates_of(NAME), counters=()))
    outcome.require()
    assert counted.calls == [] and "DRAM" not in compare_markdown(outcome)


@pytest.mark.parametrize(
    ("counted", "argv", "code"),
    [
        (Counted(), (), 0),
        (Counted(tensor=4.0), (), 1),
        (Counted(read=2e6), (), 1),
        (Counted(error=DENIED), (), 3),
        (Counted(error=DENIED), ("--no-counters",), 0),
    ],
)
def test_exit_codes(monkeypatch, capsys, counted, argv, code):
    ended, said = run_cli(monkeypatch, capsys, *argv, counted=counted)
    assert ended == code
    assert "| DRAM traffic, bytes |" in said.out


def test_a_missed_resource_is_told_before_a_counter_that_could_not_be_read(monkeypatch, capsys):
    ended, _ = run_cli(monkeypatch, capsys, counted=Counted(error=DENIED), build={"registers": 200})
    assert ended == 1


def test_counters_are_kept_and_compared(monkeypatch, capsys, tmp_path):
    run_cli(monkeypatch, capsys, "--out", str(tmp_path / "then"))
    run_cli(monkeypatch, capsys, "--out", str(tmp_path / "now"), counted=Counted(read=1_400_000.0))
    kept = json.loads((tmp_path / "now" / "counters.json").read_text())
    assert kept["passed"] is False and [check["passed"] for check in kept["checks"]] == [True, True, False]
    ended, said = compare(capsys, tmp_path / "then", tmp_path / "now")
    assert ended == 0
    assert "| candidate: DRAM traffic, bytes | 1.001e+06 | 1.5e+06 | +49.9 % |" in said.out
    (tmp_path / "then" / "counters.json").unlink()  # written before there were any
    ended, said = compare(capsys, tmp_path / "then", tmp_path / "now")
    assert ended == 0 and "| candidate: DRAM traffic, bytes | n/a | 1.5e+06 |  |" in said.out


@pytest.mark.parametrize(
    "text",
    [
        '{"checks": [{"baseline": 1.0}]}',
        '{"checks": ["tensor"]}',
        '{"checks": {"name": "tensor"}}',
        '{"checks": [{"name": "tensor", "baseline": "many"}]}',
        '{"checks": [{"name": 5}]}',
        "[]",
    ],
)
def test_damaged_counters_are_an_error_that_names_the_file(monkeypatch, capsys, tmp_path, text):
    for name in ("then", "now"):
        run_cli(monkeypatch, capsys, "--out", str(tmp_path / name))
    (tmp_path / "now" / "counters.json").write_text(text, encoding="utf-8")
    ended, said = compare(capsys, tmp_path / "then", tmp_path / "now")
    assert ended == 3 and "counters.json: cannot be read" in said.err and "remedy" in said.err


def test_leaving_counters_out_goes_with_gates_only(capsys):
    from ncubble.cli import main as cli

    with pytest.raises(SystemExit) as ended:
        cli.main(["verify", NAME, "--no-counters"])
    assert ended.value.code == 2 and "--gates" in capsys.readouterr().err
