"""The store of measured launches and its scores: a packed launch is what its report was, and errors
are what they were made to be."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks.truth import pack, plan
from benchmarks.validation import truth as command
from benchmarks.validation import truth as score
from benchmarks.validation.__main__ import main
from benchmarks.validation.depths import _against, _margins, interval
from benchmarks.validation.store import SPLITS, stored
from benchmarks.validation.truth import first_cause, is_enough, is_least, score_truth, truth_tables
from ncubble.analysis.ablation.result import Ablation, MeasuredPart, MeasuredVariant
from ncubble.analysis.account.account import account
from ncubble.analysis.account.shares import REST
from ncubble.analysis.diagnosis.predicted import changes_of
from ncubble.analysis.model.depths import predict_all
from ncubble.analysis.model.pipeline import pipeline_of
from ncubble.analysis.model.predict import Prediction
from ncubble.analysis.report.report import Report
from ncubble.errors import ReportError, UsageError
from ncubble.recordings import ROOT, VALIDATION

RUNS = ("gemm_tma/stages1", "gemm_tma/stages2", "tensor_core_gemm/stages2", "async_copy_tma/default")


def ablation(report: Report, off: float = 0.0, **members: Any) -> Ablation:
    """As if the account had been right, but for ``off`` points in each of its parts."""
    bubbles = account(report.launch(0))
    assert bubbles is not None
    chosen = ("data_wait", "sync_wait", "epilogue")
    parts = [MeasuredPart(name, None, bubbles.parts.get(name, 0.0) - off, 0.1, 5.0) for name in chosen]
    rest = MeasuredPart(REST, None, 5.0, math.nan, None)
    told = {"faithful": True, "notes": [], "parts": [*parts, rest], **members}
    told = {"interactions": {}, "variants": [], "slack": [], "lines": [], **told}
    return Ablation("k", "GPU", 1e6, 0.1, 5, **told)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Measured launches, as ``python -m benchmarks.truth`` leaves them: a family has two depths."""
    for name in RUNS:
        run = tmp_path / "out" / "h200" / name.replace("/", "-")
        run.mkdir(parents=True)
        for file in (ROOT / name).iterdir():
            (run / file.name).write_bytes(file.read_bytes())
        ablation(Report.open(run), off=2.0).save(run)
        kernel, _, setting = name.partition("/")
        stages = int(setting[-1]) if setting.startswith("stages") else None
        told = {
            "name": run.name,
            "family": kernel,
            "kind": "catalog",
            "split": "learn",
            "stages": stages,
            "gpu": "h200",
        }
        (run / plan.TOLD).write_text(json.dumps(told))
    return tmp_path / "out"


@pytest.fixture
def store(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pack, "STORE", tmp_path / "store")
    assert pack.pack(out) == len(RUNS)
    return tmp_path / "store"


def test_a_packed_launch_is_what_its_report_was(store: Path) -> None:
    launches = {one.name: one for one in stored(store, "learn")}
    assert set(launches) == {name.replace("/", "-") for name in RUNS}
    for name in RUNS:
        here, there = launches[name.replace("/", "-")].launch, Report.open(ROOT / name).launch(0)
        ours, theirs = account(here), account(there)
        assert ours is not None and theirs is not None
        assert ours.parts == pytest.approx(theirs.parts, abs=1e-4), name
        assert [change.kind for change in changes_of(here, ours)] == [
            change.kind for change in changes_of(there, theirs)
        ]
        assert here.declared == there.declared and here.identity.kernel == there.identity.kernel
        for depth, made in predict_all(pipeline_of(here, 2)).items():
            other = predict_all(pipeline_of(there, 2))[depth]
            assert (made is None) == (other is None)
            assert made is None or other is None or made.cycles == pytest.approx(other.cycles, rel=1e-4)


def test_packing_again_changes_nothing_and_new_launches_join(store: Path, out: Path) -> None:
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    assert pack.pack(out) == len(RUNS)
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before
    run = out / "h200" / "async_copy_tma-default"
    told = json.loads((run / plan.TOLD).read_text()) | {"name": "another"}
    (run / plan.TOLD).write_text(json.dumps(told))
    pack.pack(out)
    assert len(list(stored(store, "learn"))) == len(RUNS) + 1


def test_scores_are_the_errors_that_were_planted(store: Path) -> None:
    result = score_truth(store)
    score = result["scores"]["all"]
    assert score["launches"] == len(RUNS) and score["account"]["mean_abs"] == pytest.approx(2.0, abs=1e-3)
    assert all(errors["bias"] == pytest.approx(2.0, abs=1e-3) for errors in result["parts"].values())
    assert result["depth"]["sweeps"] == 1 and result["depth"]["pairs"] == 2
    assert result["origins"]["h200"]["device"]["name"] == "NVIDIA H200"


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"faithful": False}, "its replay did not repeat"),
        ({"parts": [MeasuredPart("data_wait", None, 3.0, 0.1, 3.0)]}, "not every part"),
        ({"variants": [MeasuredVariant("smem", "hangs", 3)]}, "not every part"),
    ],
)
def test_what_is_no_truth_is_named_and_not_scored(out: Path, store: Path, members: dict[str, Any], why: str) -> None:
    run = out / "h200" / "gemm_tma-stages1"
    ablation(Report.open(run), **members).save(run)
    pack.pack(out)
    result = score_truth(store)
    assert list(result["unscored"]) == ["gemm_tma-stages1 h200"] and why in result["unscored"]["gemm_tma-stages1 h200"]
    assert result["scores"]["all"]["launches"] == len(RUNS) - 1


def test_a_part_that_could_only_be_removed_with_another_is_scored(out: Path, store: Path) -> None:
    run = out / "h200" / "gemm_tma-stages1"
    parts = [MeasuredPart("data_wait+copy_cost", None, 30.0, 0.1, 30.0), MeasuredPart(REST, None, 5.0, math.nan, None)]
    ablation(Report.open(run), parts=parts, variants=[MeasuredVariant("wait", "hangs", 3)]).save(run)
    pack.pack(out)
    (row,) = (row for row in score_truth(store)["rows"] if row["name"] == "gemm_tma-stages1")
    assert set(row["parts"]) == {"data_wait+copy_cost"}


def test_a_kernel_that_adds_in_any_order_need_not_repeat_its_results(
    out: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = out / "h200" / "gemm_tma-stages1"
    ablation(Report.open(run), faithful=False).save(run)
    pack.pack(out)
    monkeypatch.setattr(score, "adds_in_any_order", lambda sass: True)
    assert not score_truth(store)["unscored"]


def test_launches_that_were_measured_again_are_kept_beside_the_store(
    out: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variants = {"wait": 20.0, "copy": 30.0}
    for run, off in (("gemm_tma-stages1", 0.0), ("gemm_tma-stages2", 1.0)):
        cells = [MeasuredVariant(name, "ok", 1, [1e6], pct) for name, pct in variants.items()]
        ablation(Report.open(out / "h200" / run), variants=cells).save(out / "h200" / run)
        pack.pack(out)
        cells = [MeasuredVariant(name, "ok", 1, [1e6], pct + off) for name, pct in variants.items()]
        ablation(Report.open(out / "h200" / run), variants=cells).save(out / "h200" / run)
        assert pack.keep_again(out) == len(RUNS), "a launch that was kept before is replaced"
    pack.show()
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "measured again" in line)
    assert line.startswith(f"{len(RUNS)} launches") and "worst 1.00" in line


@pytest.mark.parametrize(
    ("alone", "named", "enough", "least"),
    [
        ({"data_wait": 20.0, "copy_cost": 22.0}, "data_wait", True, True),  # 2 points less
        ({"data_wait": 20.0, "copy_cost": 22.0}, "copy_cost", True, False),  # waits alone are enough
        ({"data_wait": 15.0, "copy_cost": 22.0}, "data_wait", False, False),
        ({"data_wait": 15.0, "copy_cost": 22.0}, "copy_cost", True, True),
        ({"data_wait": 4.0, "copy_cost": 1.0}, "copy_cost", None, None),  # nothing gains much
        ({"data_wait": None, "copy_cost": 22.0}, "data_wait", False, False),  # named, not measured
        ({"data_wait": None}, "data_wait", None, None),
        ({"data_wait": 20.0}, "", False, False),  # nothing is named
    ],
)
def test_a_first_cause_is_enough_where_it_gains_as_much_as_any(
    alone: dict[str, float | None], named: str, enough: bool | None, least: bool | None
) -> None:
    parts = {name: {"alone": pct} for name, pct in alone.items()}
    assert is_enough(parts, named) is enough and is_least(parts, named) is least


def test_a_prediction_is_held_against_what_was_measured() -> None:
    made = Prediction(tensor_elapsed_pct=60.0, cycles=1e6, low=55.0, high=65.0)
    assert _against(made, 50.0, 64.0) == {"error": -4.0, "promised": 10.0, "inside": True, "beyond": -1.0}
    assert _against(made, 50.0, 66.0)["inside"] is False
    assert _against(None, 50.0, 60.0) == dict.fromkeys(("error", "promised", "inside", "beyond"))


def test_a_margin_is_held_against_what_other_families_need() -> None:
    beyond = {"a": [-1.0] * 9 + [3.0], "b": [0.0] * 10}
    pairs = [{"family": name, "margin": 2.0, "beyond": pct} for name, values in beyond.items() for pct in values]
    (row,) = _margins(pairs)
    assert row["predictions"] == 20 and row["needed"] == 2.0, "one of twenty may lie beyond"
    assert row["held_pct"] == 95.0, "of a by what b needs, 2, the last does not hold; of b by what a needs, 5, all do"


def test_targets_are_met_or_missed(store: Path) -> None:
    table = truth_tables(score_truth(store))[0]
    verdicts = {figure: (value, met) for figure, value, _, met in table.rows}
    assert verdicts["account: mean error of a part, points"] == ("2.0", "met")
    assert verdicts["depths predicted, %"][1] in ("met", "missed")
    assert verdicts["deeper without gain, but over 2 points promised, %"][1] in ("", "met", "missed")


def test_an_empty_or_damaged_store_is_an_error(store: Path) -> None:
    with pytest.raises(ReportError, match="no measured launches"):
        score_truth(store, "frozen")
    (store / "learn" / "h200" / "code.parquet").write_bytes(b"PAR1")
    with pytest.raises(ReportError, match="not a table of the store"):
        next(iter(stored(store, "learn"))).launch.source  # noqa: B018
    (store / "learn" / "h200" / "launches.json").write_text("[{}]")
    with pytest.raises(ReportError, match="a list of launches"):
        list(stored(store, "learn"))


@pytest.mark.parametrize(
    ("measured", "said", "right", "regret"),
    [
        ({"data_wait": 30.0, "epilogue": 5.0}, {"data_wait": 20.0, "epilogue": 1.0}, True, 0.0),
        ({"data_wait": 30.0, "epilogue": 5.0}, {"data_wait": 2.0, "epilogue": 9.0}, False, 25.0),
        ({"data_wait": 0.5, "epilogue": -3.0}, {"data_wait": 0.2, "epilogue": 0.9}, True, 0.0),
        ({"data_wait": 0.5, "epilogue": -3.0}, {"data_wait": 0.2, "epilogue": 9.0}, False, 3.0),
        ({"data_wait": 8.0, "epilogue": 1.0}, {"data_wait": 0.2, "epilogue": 0.3}, False, 8.0),
    ],
)
def test_the_first_cause_is_the_largest_part_that_counts(
    measured: dict[str, float], said: dict[str, float], right: bool, regret: float
) -> None:
    found = first_cause({part: {"measured": measured[part], "account": said[part]} for part in measured})
    assert found["right"] is right and found["regret"] == pytest.approx(regret)


def test_an_interval_is_of_families_and_not_of_launches() -> None:
    alike = [{"family": f"f{number}", "value": float(number)} for number in range(8)]
    mean, bounds = interval(alike, lambda row: [row["value"]])
    again, wide = interval([row for row in alike for _ in range(50)], lambda row: [row["value"]])
    assert mean == again == 3.5 and bounds is not None and bounds == wide and bounds[0] < 2.5 and bounds[1] > 4.5
    assert interval(alike[:4], lambda row: [row["value"]])[1] is None


def test_the_split_is_by_family_and_kind_and_does_not_depend_on_the_order() -> None:
    families = plan.families()
    sides = plan.splits(families)
    assert sides == plan.splits(families[::-1]) and set(sides.values()) == set(SPLITS)
    for kind in {family.kind for family in families}:
        own = [sides[family.name] for family in families if family.kind == kind]
        assert own.count("learn") == math.ceil(plan.LEARNED * len(own)), kind
    names = [launch.name for family in families for launch in family.launches]
    assert len(names) == len(set(names)) > 150


def test_the_committed_store_is_split_as_planned_and_holds_no_path_of_a_machine() -> None:
    sides = plan.splits(plan.families())
    for split in [split for split in SPLITS if (VALIDATION / "truth" / split).is_dir()]:
        for one in stored(VALIDATION / "truth", split):
            assert sides[one.family] == split, one.name
            files = one.launch.source["file"].dropna()
            assert not any(str(file).startswith("/") for file in files), one.name
            assert not any((line.file or "").startswith("/") for line in one.ablation.lines), one.name


def test_the_frozen_side_is_scored_from_a_clean_commit_only_and_logged(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (store / "learn").rename(store / "frozen")
    for state, why in (({}, "does not run from a checkout"), ({"sha": "a" * 40, "dirty": True}, "changes")):
        monkeypatch.setattr(command, "git_state", lambda folder, state=state: state)
        with pytest.raises(UsageError, match=why):
            command.log_scoring(store, "frozen", command.score_truth, command.line)
    assert not (store / command.LOG).exists()
    monkeypatch.setattr(command, "git_state", lambda folder: {"sha": "a" * 40, "dirty": False})
    for times in (1, 2):
        assert main(["truth", "--folder", str(store), "--frozen"]) == 0
        assert "By part" in capsys.readouterr().out
        lines = (store / command.LOG).read_text().splitlines()
        assert len(lines) == times
    told = json.loads(lines[-1])
    assert told["commit"] == "a" * 40 and told["account_mean"] == pytest.approx(2.0, abs=1e-3)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/home/someone/src/ncubble/kernels/cuda/gemm_tma.cu", "kernels/cuda/gemm_tma.cu"),
        ("/opt/deep/python/site-packages/torch/nn.py", "torch/nn.py"),
        ("kernels/a.cu", "kernels/a.cu"),
    ],
)
def test_source_paths_lose_the_folders_of_the_machine(path: str, told: str) -> None:
    assert pack.public(path) == told
