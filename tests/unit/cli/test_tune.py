"""``ncubble tune`` as a user meets it: output, files, resuming, exit codes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

import pytest

from ncubble.api import kernels
from ncubble.cli import main as cli
from ncubble.errors import MeasurementError
from ncubble.kernels.run.tune import TuneAdvice, TuneMove
from ncubble.profiling.processes import ServerDiedError
from tests.helpers.fake_gpu import H200
from tests.helpers.tune_bench import KERNELS

NO_NCU = MeasurementError("`ncu` was not found", "install it")
CHECKED = {"passed": True, "max_abs_error": 3e-9}


def bowl(parameters):
    return 100.0 + abs(parameters["items"] - 4) + abs(parameters["threads"] - 512) / 20.0


class PlayedWorker:
    """Answers as the worker does; ``spoiled`` configurations are wrong, hang or fault."""

    def __init__(self, spoiled=None):
        self.spoiled: Mapping[int, str] = spoiled or {}
        self.asked, self.closed = [], 0

    def ask(self, request, silent_s):
        request = json.loads(json.dumps(request))
        self.asked.append(request)
        if request["do"] == "device":
            return {"device": json.loads(json.dumps(asdict(H200)))}
        if request["do"] == "turns":
            return {"p50_us": [bowl(parameters) for parameters in request["parameters"]]}
        (parameters,) = request["parameters"]
        what = self.spoiled.get(parameters["items"])
        if what == "hang":
            raise ServerDiedError(True, -9)
        if what is not None:
            return {"trial": {"parameters": parameters, "outcome": what, "why": "NaN"}}
        return {
            "trial": {"parameters": parameters, "outcome": "ok", "p50_us": bowl(parameters), "verification": CHECKED}
        }

    def close(self, patience_s=0.0):
        self.closed += 1
        return 0


@pytest.fixture
def tune(monkeypatch, capsys, tmp_path):
    """Runs the command in a folder of its own; gives exit code, output, and the worker."""
    monkeypatch.chdir(tmp_path)

    def run(*argv, spoiled=None, advice=NO_NCU):
        worker = PlayedWorker(spoiled)
        monkeypatch.setattr(kernels, "ServingProcess", lambda *given, **more: worker)

        def advised(case, catalog, out):
            if isinstance(advice, Exception):
                raise advice
            return advice

        monkeypatch.setattr(kernels, "profile_advice", advised)
        with pytest.raises(SystemExit) as ended:
            cli.main(["tune", "toy", "--catalog", str(KERNELS), *argv])
        return ended.value.code or 0, capsys.readouterr(), worker

    return run


def measured(worker):
    return [request["parameters"][0] for request in worker.asked if request["do"] == "measure"]


def test_the_best_three_are_shown_and_written(tune, tmp_path):
    code, said, worker = tune("--out", "run", "--start", "threads=128", "--start", "items=1", "--seed", "7")
    assert code == 0 and worker.closed
    found = json.loads((tmp_path / "run" / "elites.json").read_text())
    assert len(found["elites"]) == 3 and found["configurations"] == 32 and found["launches"] <= 10
    assert found["elites"][0]["p50_us"] < found["start"]["p50_us"] and found["seed"] == 7
    assert found["elites"][0]["verification"]["passed"] and found["elites"][0]["cause"] is None
    assert found["start"]["parameters"] == {"threads": 128, "items": 1}
    assert found["notes"] == ["timings only, no profiles: `ncu` was not found"]
    assert "threads=" in said.out and "first cause" in said.out and "of 32 configurations" in said.out
    assert "; seed 7\n" in said.out
    assert said.err.count("note: timings only") == 1
    assert "1/10" in said.err and "threads=128 items=1  (the start)" in said.err
    assert {request["seed"] for request in worker.asked} == {7}


def test_the_table_cuts_nothing_in_a_narrow_terminal(tune, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, said, _ = tune("--out", "run")
    assert "…" not in said.out and all(len(line) <= 80 for line in said.out.splitlines()[:5])


def test_json_is_what_is_written(tune, tmp_path):
    _, said, _ = tune("--out", "run", "--json")
    assert json.loads(said.out) == json.loads((tmp_path / "run" / "elites.json").read_text())


def test_advice_of_profiles_leads_and_is_told(tune, tmp_path):
    advice = TuneAdvice("bank_conflicts", (TuneMove("items", (4,), "bank conflicts 40 %"),))
    code, said, worker = tune("--out", "run", advice=advice)
    assert code == 0 and measured(worker)[1]["items"] == 4
    assert "(bank conflicts 40 %)" in said.err
    found = json.loads((tmp_path / "run" / "elites.json").read_text())
    assert {elite["cause"] for elite in found["elites"]} == {"bank_conflicts"}
    assert "bank conflicts" in said.out


def test_no_profile_asks_for_none(tune):
    code, said, _ = tune("--out", "run", "--no-profile")
    assert code == 0 and "note:" not in said.err


def test_an_interrupted_search_goes_on_and_repeats_nothing(tune, tmp_path):
    tune("--out", "whole", "--seed", "1", "--start", "items=1")
    whole = json.loads((tmp_path / "whole" / "elites.json").read_text())
    tune("--out", "run", "--seed", "1", "--start", "items=1", "--budget", "5")
    code, _, worker = tune("--out", "run", "--start", "items=1", "--resume")
    again = json.loads((tmp_path / "run" / "elites.json").read_text())
    assert code == 0 and again["elites"][0] == whole["elites"][0] and again["launches"] == whole["launches"]
    assert len(measured(worker)) == whole["launches"] - whole["timed_again"] - 5
    assert {request["seed"] for request in worker.asked if request["do"] != "device"} == {1}


def test_a_signal_keeps_what_was_measured(tune, tmp_path, monkeypatch):
    calls = []
    original = PlayedWorker.ask

    def interrupted(self, request, silent_s):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return original(self, request, silent_s)

    monkeypatch.setattr(PlayedWorker, "ask", interrupted)
    code, said, worker = tune("--out", "run", "--seed", "1")
    assert code == 130 and "--resume" in said.err and worker.closed
    assert len(json.loads((tmp_path / "run" / "tune.json").read_text())["trials"]) == 2
    code, _, worker = tune("--out", "run", "--resume")
    assert code == 0
    assert len(json.loads((tmp_path / "run" / "tune.json").read_text())["trials"]) == len(measured(worker)) + 2


@pytest.mark.parametrize("what", ["wrong", "failed", "hang"])
def test_what_is_wrong_or_hangs_is_recorded_and_never_wins(tune, tmp_path, what):
    code, said, worker = tune("--out", "run", "--budget", "32", spoiled={4: what})
    assert code == 0
    found = json.loads((tmp_path / "run" / "elites.json").read_text())
    assert all(elite["parameters"]["items"] != 4 for elite in found["elites"])
    assert ("wrong" if what == "wrong" else "failed") in said.err
    assert what == "wrong" or worker.closed >= 4  # a fault stays with its process


def test_a_trial_that_loses_the_gpu_is_not_kept_as_the_configuration_s_failure(tune, tmp_path, monkeypatch):
    original, lost = PlayedWorker.ask, []

    def ask(self, request, silent_s):
        if request["do"] == "device" and lost:
            return {"error": "no usable NVIDIA GPU: CUDA_ERROR_NO_DEVICE", "remedy": "look for it"}
        answer = original(self, request, silent_s)
        if answer.get("trial", {}).get("outcome") == "failed":
            lost.append(request)
        return answer

    monkeypatch.setattr(PlayedWorker, "ask", ask)
    code, said, _ = tune("--out", "run", "--seed", "1", "--budget", "32", spoiled={4: "failed"})
    assert code == 3 and "the GPU was lost with" in said.err and "--resume" in said.err and "NO_DEVICE" in said.err
    kept = json.loads((tmp_path / "run" / "tune.json").read_text())["trials"]
    assert kept and all(one["trial"]["outcome"] == "ok" for one in kept)
    lost.clear()
    code, _, worker = tune("--out", "run", "--resume", "--budget", "32")
    assert code == 0 and any(parameters["items"] == 4 for parameters in measured(worker)), "it is tried again"


def test_a_process_that_dies_while_it_times_in_turns_costs_no_trial(tune, tmp_path, monkeypatch):
    original = PlayedWorker.ask

    def dies(self, request, silent_s):
        if request["do"] == "turns":
            raise ServerDiedError(False, -9)
        return original(self, request, silent_s)

    monkeypatch.setattr(PlayedWorker, "ask", dies)
    code, said, _ = tune("--out", "run", "--seed", "1")
    assert code == 3 and "the process that measures ended with SIGKILL" in said.err and "--resume" in said.err
    assert json.loads((tmp_path / "run" / "elites.json").read_text())["elites"]
    monkeypatch.setattr(PlayedWorker, "ask", original)
    code, _, worker = tune("--out", "run", "--resume")
    assert code == 0 and not measured(worker)


def test_where_nothing_is_right_it_ends_with_4(tune):
    code, said, _ = tune("--out", "run", spoiled=dict.fromkeys(range(1, 9), "wrong"))
    assert code == 4 and "no configuration gave a right result: NaN" in said.err


def test_held_parameters_are_said(tune, tmp_path):
    code, said, worker = tune("--out", "run", "-p", "threads=256")
    assert code == 0 and "not searched: threads (fixed by -p)" in said.out
    assert {parameters["threads"] for parameters in measured(worker)} == {256}


@pytest.mark.parametrize(
    ("argv", "code", "complaint"),
    [
        (("--resume",), 2, "--resume needs --out"),
        (("--out", "none", "--resume"), 3, "cannot be read"),
        (("--out", "run", "-p", "threads=3"), 2, "threads=3 is not allowed"),
        (("--out", "run", "-p", "threads=256", "--start", "threads=256"), 2, "both fixed and searched"),
    ],
)
def test_what_cannot_be_searched_is_refused(tune, argv, code, complaint):
    ended, said, _ = tune(*argv)
    assert ended == code and complaint in said.err and said.out == ""


def test_a_folder_that_holds_something_needs_resume_and_another_search_is_refused(tune):
    tune("--out", "run", "--seed", "1")
    code, said, _ = tune("--out", "run")
    assert code == 2 and "--resume" in said.err
    code, said, _ = tune("--out", "run", "--resume", "-p", "n=64")
    assert code == 2 and "shape was" in said.err


@pytest.mark.parametrize(("out", "complaint"), [("file", "Not a directory"), ("file/run", "Not a directory")])
def test_an_output_that_is_no_folder_is_refused(tune, tmp_path, out, complaint):
    (tmp_path / "file").touch()
    code, said, worker = tune("--out", out)
    assert code == 2 and f"--out {out}: {complaint}" in said.err and not measured(worker)


def test_without_a_gpu_it_ends_with_3(tune, monkeypatch):
    monkeypatch.setattr(PlayedWorker, "ask", lambda self, request, silent_s: {"error": "no GPU", "remedy": "get one"})
    code, said, _ = tune("--out", "run")
    assert code == 3 and "no GPU" in said.err
