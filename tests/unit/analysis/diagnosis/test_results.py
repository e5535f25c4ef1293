"""Verdicts of whole reports: remembered for as long as report, manifest and rules are the same."""

import json
import math
import shutil
import subprocess
import sys

import pytest

from ncubble.analysis.account.units import tensor_share_of_active
from ncubble.analysis.diagnosis import diagnose, results
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.report import cache as store
from ncubble.analysis.report.report import Report
from ncubble.errors import ReportError
from ncubble.recordings import H100, REPEATS, ROOT, VALIDATION
from ncubble.store import recall, remember
from tests.helpers.ablations import ABLATED
from tests.helpers.one_launch import OneLaunch

RUN = H100 / "softmax_online" / "default"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "cache"))
    results.judge.cache_clear()
    yield
    results.judge.cache_clear()


def judged(path=RUN):
    results.judge.cache_clear()
    return results.judge_all([Report.open(path)], []).to_json()


@pytest.fixture
def counted(monkeypatch):
    """How often a launch was judged anew."""
    calls, original = [], diagnose.launch_verdict
    monkeypatch.setattr(diagnose, "launch_verdict", lambda *given: calls.append(given) or original(*given))
    return calls


def test_a_verdict_is_the_same_when_it_is_remembered(counted):
    first = judged()
    assert judged() == first
    assert len(counted) == 1


def test_a_copy_of_a_report_has_its_own_name_and_the_same_verdict(tmp_path, counted):
    copy = tmp_path / "named.ncu-repz"
    shutil.copy(REPEATS / "tiled_matmul" / "default" / "report.ncu-repz", copy)
    other = shutil.copy(copy, tmp_path / "other.ncu-repz")
    shown = [result["launches"][0] for result in (judged(copy), judged(other))]
    assert [one["label"] for one in shown] == ["named", "other"]
    assert [one["report"] for one in shown] == [str(copy), str(other)]
    assert len(counted) == 5


def test_another_manifest_or_other_rules_are_judged_anew(tmp_path, monkeypatch, counted):
    run = tmp_path / "run"
    shutil.copytree(RUN, run)
    judged(run)
    manifest = json.loads((run / "run.json").read_text())
    manifest["kernel"]["stages"] = 7
    (run / "run.json").write_text(json.dumps(manifest))
    judged(run)
    assert len(counted) == 2
    monkeypatch.setattr(results, "rules_hash", lambda: "others")
    judged(run)
    assert len(counted) == 3


def test_a_remembered_verdict_that_was_damaged_is_judged_anew(tmp_path, counted):
    first = judged()
    (place,) = (tmp_path / "cache").rglob("verdicts-*.json")
    place.write_text(place.read_text().replace(str(first["launches"][0]["dram_pct"])[:6], "11.111"))
    assert judged() == first
    assert len(counted) == 2


def test_a_launch_that_cannot_be_judged_hides_no_other_and_is_not_remembered(monkeypatch):
    original = diagnose.launch_verdict

    def failing(launch):
        if launch.number == 2:
            raise ReportError("launch 2 is odd", "look at it")
        return original(launch)

    path = REPEATS / "tiled_matmul" / "default"
    monkeypatch.setattr(diagnose, "launch_verdict", failing)
    found = judged(path)
    assert [one["launch"] for one in found["launches"]] == [0, 1, 3, 4]
    assert [one["error"].splitlines()[0] for one in found["errors"]] == ["launch 2 is odd"]
    monkeypatch.undo()
    assert len(judged(path)["launches"]) == 5


def test_the_tables_of_a_report_that_is_judged_whole_are_loaded_once(monkeypatch):
    loaded, load = [], store.load
    monkeypatch.setattr(store, "load", lambda sha, name, *launch: loaded.append(name) or load(sha, name, *launch))
    path = VALIDATION / "account" / "whole" / "tensor_core_gemm-dev"
    assert len(judged(path)["launches"]) == 6
    assert "code" in loaded and len(loaded) == len(set(loaded))


def test_a_remembered_report_is_shown_without_pandas():
    program = (
        "import sys; from pathlib import Path; from ncubble.analysis.diagnosis.results import report_json\n"
        f"found = report_json([Path({str(RUN)!r})]); assert len(found['launches']) == 1\n"
        "sys.exit('pandas' in sys.modules)"
    )
    run = [subprocess.run([sys.executable, "-P", "-c", program], check=False).returncode for _ in range(2)]
    assert run == [1, 0]


@pytest.mark.parametrize("content", [None, [], {"a": [1.5, "ü"]}])
def test_a_memo_holds_what_was_written(tmp_path, content):
    remember(tmp_path / "deep" / "memo.json", content)
    assert recall(tmp_path / "deep" / "memo.json") == content
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["memo.json"]


def test_a_memo_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").touch()
    remember(tmp_path / "file" / "memo.json", 1)
    assert recall(tmp_path / "file" / "memo.json") is None


def test_other_numbers_of_a_chip_are_other_rules(tmp_path, monkeypatch):
    installed, original = results.files("ncubble"), results.files
    for name in ("chips.py", "chips.toml"):
        (tmp_path / name).write_bytes((installed / name).read_bytes())
    monkeypatch.setattr(results, "files", lambda package: tmp_path if package == "ncubble" else original(package))
    before = results.rules_hash.__wrapped__()
    with (tmp_path / "chips.toml").open("a") as file:
        file.write("# other numbers")
    assert results.rules_hash.__wrapped__() != before


def test_schema_3_names_both_shares_of_the_tensor_pipe():
    path = ROOT / "tensor_core_gemm" / "stages3"
    result = results.report_json([path])
    (launch,) = result["launches"]
    measured = Report.open(path).launch(0)
    assert result["schema"] == 3 and "tensor_active_pct" not in launch
    for member, suffix in (("tensor_elapsed_pct", "elapsed"), ("tensor_of_active_pct", "active")):
        counter = f"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_{suffix}"
        assert launch[member] == measured.value(counter) > 0


def test_schema_3_has_one_ranking_and_places_by_part():
    launches = results.report_json([ROOT / "gemm_tma", H100 / "softmax_online"])["launches"]
    for launch in launches:
        assert not {"causes", "disease"} & set(launch)
        first = launch["changes"][0]
        assert launch["cause"] == (first["kind"] if first["kind"] in ("none", "bytes") else first["part"])
        for part, places in launch["where"].items():
            assert launch["account"][part] >= 1.0 and 0 < len(places) <= 3
            assert sum(place["pct"] for place in places) <= launch["account"][part] + 1e-6


def test_a_share_of_active_cycles_that_was_not_collected_is_null():
    elapsed = {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": 40.0}
    active = {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": 50.0}
    assert math.isnan(tensor_share_of_active(OneLaunch(elapsed)))
    assert math.isnan(tensor_share_of_active(OneLaunch({})))
    assert tensor_share_of_active(OneLaunch(elapsed | active)) == 50.0
    hmma = {
        f"sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_{of}": 30.0 for of in ("active", "elapsed")
    }
    assert tensor_share_of_active(OneLaunch(hmma)) == 30.0


def test_a_verdict_is_the_same_after_it_was_written_and_read():
    for verdict in results.judge(Report.open(ROOT / "tensor_core_gemm" / "stages3"))[0]:
        assert verdict.changes and verdict.places[0].pct > 0
        assert LaunchVerdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict
    with pytest.raises(ValueError, match="launch"):
        LaunchVerdict.from_json(verdict.to_json() | {"launch": "first"})


@pytest.fixture
def ablated(tmp_path):
    """A copy of a recorded run with its ablation."""
    return shutil.copytree(ABLATED, tmp_path / "ablated")


def test_what_was_measured_stands_beside_a_remembered_verdict(ablated, counted):
    measured = judged(ablated)["launches"][0].pop("measured")
    assert measured[0]["part"] == "data_wait" and measured[0]["measured"] == pytest.approx(30.3, abs=0.1)
    assert measured[-1] == {"part": "rest", "measured": pytest.approx(3.5, abs=0.1), "se": None, "alone": None}
    (ablated / "ablation.json").unlink()
    assert judged(ablated)["launches"][0]["measured"] is None
    assert len(counted) == 1


def test_a_report_named_by_its_file_has_what_lies_beside_it(ablated):
    report = ablated / "report.ncu-repz"
    assert judged(report)["launches"][0]["measured"]
    assert judged(shutil.copy(report, ablated / "other.ncu-repz"))["launches"][0]["measured"] is None


@pytest.mark.parametrize(
    "damaged", ["{", "[]", '{"schema": 99}', '{"schema": 1}', "[" * 100_000, " " * (8 << 20) + "{}"]
)
def test_a_damaged_ablation_is_named_and_hides_no_verdict(ablated, damaged):
    whole = judged(ablated)["launches"][0]
    (ablated / "ablation.json").write_text(damaged)
    result = judged(ablated)
    assert result["launches"] == [whole | {"measured": None}]
    (error,) = result["errors"]
    assert error["report"] == str(ablated) and f"{ablated / 'ablation.json'}: not an ablation" in error["error"]


def test_a_contradiction_names_the_rule_and_not_what_python_says_of_it(monkeypatch):
    def broken(launch):
        raise ValueError("operands could not be broadcast together with shapes (3,) (4,)")

    monkeypatch.setattr(diagnose, "account_of", broken)
    _, (error,) = results.judge(Report.open(RUN))
    assert "launch 0 contradicts itself: its values allow no account (diagnose.py:" in error.message
    assert "operands" not in str(error) and isinstance(error.__cause__, ValueError)
