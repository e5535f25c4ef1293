"""A measurement wins over a prediction: of changes that were made, of parts that were removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncubble.analysis.ablation.result import Ablation, MeasuredPart
from ncubble.analysis.changes.change import Change
from ncubble.analysis.changes.tried import Built, Tried, TriedChange, TriedRound
from ncubble.analysis.diagnosis.measured import as_measured, as_tried
from ncubble.analysis.diagnosis.results import judge_all
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.diagnosis.words import change_words
from ncubble.analysis.report.report import open_reports
from ncubble.recordings import ROOT, VALIDATION
from tests.helpers.ablations import ablation

RUN = ROOT / "gemm_tma/stages1"


@pytest.fixture(scope="module")
def verdict() -> LaunchVerdict:
    return judge_all(*open_reports([RUN])).verdicts[0]


def tried(**gains: float) -> Tried:
    """Changes of a base of two stages and a tile of 64 rows, by their gains: ``stages_3=20.0``."""
    changes = []
    for key, gain in gains.items():
        name, _, after = key.rpartition("_")
        before = 2 if name == "stages" else 64
        about = {"kind": name, "name": name, "before": before, "after": int(after), "outcome": "ok"}
        changes.append(TriedChange(**about, us=1.0, gain_pct=gain, low=gain - 0.5, high=gain + 0.5))
    base = TriedRound(settings={"stages": 2, "tile_m": 64}, us=1.0, sm_mhz=0, built=Built(), changes=changes)
    return Tried(kernel="gemm", language="catalog", device="GPU", compared="it", rounds=[base])


def test_what_gained_comes_first_and_says_that_it_was_measured(verdict: LaunchVerdict) -> None:
    first, second = as_tried(verdict, tried(stages_3=20.0, stages_4=20.4, tile_m_128=12.0)).changes[:2]
    assert (first.kind, first.after, first.basis, first.gain_pct) == ("stages", 3, "measured", 20.0)
    assert change_words(first) == "use stages=3 instead of 2 (so do 4): saves 20.0 % of the time, measured"
    assert (second.kind, second.after) == ("tile_m", 128)


def test_what_gained_nothing_is_not_named_again(verdict: LaunchVerdict) -> None:
    predicted = verdict.changes[0]
    assert predicted.kind == "stages"
    changes = as_tried(verdict, tried(**{f"stages_{predicted.after}": -3.0})).changes
    assert changes[0].kind == "none"
    assert changes[0].basis == "measured"
    assert not any(change.kind == "stages" and change.after == predicted.after for change in changes)


def test_a_factor_of_the_base_is_known_by_its_value() -> None:
    grown = Change(kind="tile_m", after="twice", gain_pct=30.0, text="double it")
    assert as_tried(_with(grown), tried(tile_m_128=-5.0)).changes == as_tried(_with(), tried(tile_m_128=-5.0)).changes


def _with(*changes: Change) -> LaunchVerdict:
    blank = judge_all(*open_reports([RUN])).verdicts[0]
    return LaunchVerdict(**{**blank.__dict__, "changes": list(changes)})


def test_a_run_that_was_tried_is_reported_so(tmp_path: Path) -> None:
    for file in RUN.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    tried(stages_3=44.0).save(tmp_path)
    first = judge_all(*open_reports([tmp_path])).verdicts[0].changes[0]
    assert (first.basis, first.gain_pct) == ("measured", 44.0)


@pytest.mark.parametrize(
    "run", sorted((VALIDATION / "ablation").rglob("ablation.json"))[:2], ids=lambda path: path.parent.name
)
def test_no_predicted_gain_exceeds_what_was_measured(run: Path) -> None:
    ablation = Ablation.load(run.parent)
    assert ablation is not None
    reports = judge_all(*open_reports([run.parent]))
    for one in reports.verdicts:
        for change in as_measured(one, ablation).changes:
            part = ablation.part_of(change.part) if change.part else None
            if part is not None and change.gain_pct is not None:
                assert change.gain_pct <= max(part.measured, part.alone or 0.0, 0.0) + 1e-9


def removed(**parts: float) -> Ablation:
    """What vanished with each part."""
    return ablation([MeasuredPart(part, None, pct, 0.1, pct) for part, pct in parts.items()])


def predicted(kind: str, part: str, gain: float | None) -> Change:
    known = {"gain_pct": gain, "low": gain / 2, "high": gain, "basis": "predicted"} if gain else {}
    return Change(kind=kind, part=part, text=kind, **known)  # type: ignore[arg-type]


def test_changes_are_ranked_by_what_measurement_leaves_of_their_gains() -> None:
    stages, layout = predicted("stages", "data_wait", 30.0), predicted("shared_layout", "smem_wait", 20.0)
    blank = _with(stages, layout)
    assert as_measured(blank, None) is blank
    shown = as_measured(blank, removed(data_wait=12.0))
    assert [(change.kind, change.gain_pct) for change in shown.changes] == [("shared_layout", 20.0), ("stages", 12.0)]
    assert (shown.cause, shown.measured) == ("smem_wait", {"data_wait": 12.0})
    assert as_measured(_with(stages), removed(data_wait=12.0)).cause_pct == 12.0


def test_a_gain_that_measurement_takes_away_is_not_promised() -> None:
    shown = as_measured(_with(predicted("stages", "data_wait", 30.0)), removed(data_wait=0.5))
    assert [(change.kind, change.text) for change in shown.changes] == [
        ("none", "nothing is known to gain 3 %, as measured")
    ]


def test_of_unknown_gains_what_acts_on_the_part_that_costs_most_comes_first() -> None:
    blank = _with(predicted("registers", "issue", None), predicted("barriers", "sync_wait", None))
    assert [change.kind for change in as_measured(blank, removed(sync_wait=20.0)).changes] == ["barriers", "registers"]


def test_parts_that_were_measured_together_bound_a_gain_and_are_not_called_measured() -> None:
    shown = as_measured(_with(predicted("stages", "data_wait", 30.0)), removed(**{"data_wait+copy_cost": 22.0}))
    assert shown.changes[0].gain_pct == 22.0 and shown.measured == {}


@pytest.mark.parametrize(
    ("run", "part"), [("tensor_core_gemm/stages3", "copy_cost"), ("gemm_tma/stages1", "data_wait")]
)
def test_what_was_tried_acts_on_the_part_of_its_kind_where_that_takes_time(run: str, part: str) -> None:
    found = as_tried(judge_all(*open_reports([ROOT / run])).verdicts[0], tried(tile_m_128=12.0))
    assert (found.changes[0].kind, found.cause) == ("tile_m", part)


def test_a_verdict_is_the_same_whatever_else_is_read() -> None:
    runs = [ROOT / f"async_pipeline/stages{depth}" for depth in (2, 4)]
    alone = [verdict for run in runs for verdict in judge_all(*open_reports([run])).verdicts]
    assert judge_all(*open_reports(runs)).verdicts == alone
