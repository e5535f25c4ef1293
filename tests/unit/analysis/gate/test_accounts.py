"""The account as the gate keeps it: repeats gathered, lines found, and read back from a baseline
file."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

import ncubble
from ncubble.analysis.account.account import build
from ncubble.analysis.account.evidence import Evidence
from ncubble.analysis.account.units import Busy
from ncubble.analysis.gate import accounts
from ncubble.analysis.gate.accounts import (
    FINEST_PCT,
    LONGEST,
    MOST_PLACES,
    Account,
    CodePlace,
    Move,
    account_of,
    gather,
    moves,
    opcode,
    sentence,
)
from ncubble.analysis.gate.baseline_file import parse
from ncubble.analysis.report.report import Report
from ncubble.errors import ReportError
from ncubble.recordings import ROOT
from tests.helpers.gate_frames import recorded

WAIT = CodePlace("data_wait", "a.cu", 7, "wait();", 30.0)
LOAD = CodePlace("data_wait", "a.cu", 9, "load();", 10.0)


def launch(data_wait: float, *places: CodePlace) -> Account:
    return Account({"data_wait": (data_wait,), "issue": (100.0 - data_wait,)}, places, unit="tensor")


def kept() -> Account:
    found = gather([launch(40.0, WAIT, LOAD), None, launch(50.0, WAIT)])
    assert found
    return found


def test_values_stay_aligned_to_launches_and_means_leave_out_those_without() -> None:
    found = kept()
    assert gather([None, None]) is None
    assert found.parts == {"data_wait": (40.0, None, 50.0), "issue": (60.0, None, 50.0)}
    assert (found.launches, found.means) == (2, {"data_wait": 45.0, "issue": 55.0})
    assert [(place.text, place.pct) for place in found.places] == [("wait();", 30.0), ("load();", 5.0)]


def test_launches_that_split_finest_are_taken_and_the_others_have_no_values() -> None:
    coarse = Account({"idle": (100.0,)}, (), {"idle": ("data_wait", "issue")}, "tensor")
    found = gather([coarse, coarse, coarse, launch(40.0, WAIT), launch(42.0, WAIT)])
    assert found and found.parts["data_wait"] == (None, None, None, 40.0, 42.0)
    assert "idle" not in found.parts and found.merged == {}
    one = gather([coarse, coarse, launch(40.0, WAIT)])
    assert one and one.parts == {"idle": (100.0, 100.0, None)}, "a single one has no repeats"


def test_small_places_and_those_beyond_the_most_are_left_out() -> None:
    places = [replace(WAIT, text=f"line {i};", line=i, pct=2.0 - 0.01 * i) for i in range(1, 60)]
    found = gather([launch(99.0, *places, replace(LOAD, pct=0.9 * FINEST_PCT))])
    assert found and len(found.places) == MOST_PLACES and found.places[0].pct == pytest.approx(1.99)
    few = gather([launch(50.0, WAIT, replace(LOAD, pct=0.9 * FINEST_PCT))])
    assert few and [place.text for place in few.places] == ["wait();"]


def read_back(raw: dict[str, Any]) -> Account | None:
    (item,) = recorded()
    return parse(Path("b.json"), item.to_json() | {"account": raw}).account


def test_what_is_written_is_read_back() -> None:
    found = replace(kept(), merged={"no_cta": ("ramp", "tail")}, overlap="phases")
    sass = CodePlace("issue", "", None, "@!P0 LDG.E R1, [R2]", 1.0, sass=True)
    below = CodePlace("issue", "a.cu", 3, "}", 1.0, below="store();")
    found = replace(found, places=(*found.places, sass, below))
    raw = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert read_back(raw) == found
    assert raw["places"][0] == {"part": "data_wait", "file": "a.cu", "line": 7, "text": "wait();", "pct": 30.0}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"parts": {}}, "parts"),
        ({"parts": {"issue": [50.0]}}, "parts"),
        ({"parts": {"issue": [40.0], "data_wait": [60.0, 1.0]}}, "parts"),
        ({"parts": {"issue": [None], "data_wait": [60.0]}}, "parts"),
        ({"parts": {"issue": [-1.0], "data_wait": [101.0]}}, r"parts\.issue\[0\]"),
        ({"parts": {"issue": [math.nan]}}, r"parts\.issue\[0\]"),
        ({"parts": {"issue": ["100"]}}, r"parts\.issue\[0\]"),
        ({"places": [1]}, r"places\[0\]"),
        ({"places": [{"part": "issue", "pct": 1}]}, r"places\[0\]"),
        ({"places": [{"part": "issue", "text": "x", "pct": math.inf}]}, r"places\[0\]\.pct"),
        ({"places": [{"part": "issue", "text": "x", "pct": 1, "line": "7"}]}, r"places\[0\]\.line"),
        ({"merged": {"idle": "issue"}}, r"merged\.idle"),
        ({"unit": 1}, "unit"),
    ],
)
def test_a_damaged_account_is_refused_by_the_name_of_its_field(change: dict[str, Any], named: str) -> None:
    with pytest.raises(ReportError, match=rf"b\.json.*'account\.{named}'"):
        read_back(kept().to_json() | change)


def test_places_of_a_recording_are_lines_of_its_source_and_hold_no_more_than_their_part() -> None:
    report = Report.open(ROOT / "gemm_tma" / "stages1")
    found = account_of(report.launch(0))
    assert found
    assert math.fsum(found.means.values()) == pytest.approx(100.0)
    assert found.places == tuple(sorted(found.places, key=lambda place: (-place.pct, place.key)))
    texts = {Path(name).name: text.splitlines() for name, text in report.files.items()}
    for place in found.places:
        assert len(place.text) <= LONGEST
        if not place.sass:
            assert place.line and " ".join(texts[place.file][place.line - 1].split())[:LONGEST] == place.text
    for part, pct in found.means.items():
        held = math.fsum(place.pct for place in found.places if place.part == part)
        assert held <= pct + 1e-6
        if part in ("data_wait", "issue", "epilogue") and pct > 1.0:
            assert held > 0.8 * pct, f"{part}: {held} of {pct} is on lines"


def source(rows: list[tuple[str, int, float, dict[str, float]]]) -> pd.DataFrame:
    """SASS, line, executed and samples by reason of each instruction of ``/src/a.cu``."""
    reasons = sorted({reason for *_, samples in rows for reason in samples})
    table = [
        (
            *(0, 16 * i, sass, opcode(sass), "/src/a.cu" if line else "", line, sum(held.values()), executed),
            *(held.get(reason, 0.0) for reason in reasons),
        )
        for i, (sass, line, executed, held) in enumerate(rows)
    ]
    names = ["launch", "pc", "sass", "opcode", "file", "line", "samples", "executed", *reasons]
    return pd.DataFrame(table, columns=names)


LOOP = [
    ("LDGSTS.E [R1], [R2]", 2, 100.0, {"lg_throttle": 100.0}),
    ("HMMA.16816 R4, R8, R12, R4", 3, 100.0, {"math_pipe_throttle": 40.0, "wait": 360.0}),
    ("BRA 0x0", 3, 100.0, {"wait": 50.0}),
    ("STG.E [R1], R4", 5, 1.0, {"lg_throttle": 200.0}),
    ("EXIT", 6, 1.0, {}),
]
TEXT = "loop {\n  copy();\n  mma();\n}\nstore();\n}\n"


class FakeLaunch:
    """One launch of ``LOOP``, of whose cycles none are without a CTA."""

    report = SimpleNamespace(files={"/src/a.cu": TEXT})

    def __init__(self, frame: pd.DataFrame) -> None:
        self.source = frame


def read(monkeypatch: pytest.MonkeyPatch, frame: pd.DataFrame, **parts: float) -> Account:
    found = build(Evidence(busy=Busy("tensor", 20.0), with_cta=1.0, source=frame))
    found = replace(found, parts={**found.parts, **parts}) if parts else found
    monkeypatch.setattr(accounts, "bubble_account", lambda launch: found)
    read = account_of(FakeLaunch(frame))  # type: ignore[arg-type]
    assert read
    return read


def test_latency_at_the_mma_beyond_its_busy_time_lies_at_the_mma(monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(monkeypatch, source(LOOP))
    held = {place.text: place.pct for place in found.places if place.part == "issue"}
    assert set(held) == {"mma();"}
    assert held["mma();"] == pytest.approx(found.means["issue"]), "all of it, the branch's own wait on the same line"


def test_gaps_between_waves_lie_on_what_runs_outside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = source(LOOP)
    without = read(monkeypatch, frame)
    found = read(monkeypatch, frame, wave_gap=10.0, tensor_busy=without.means["tensor_busy"] - 10.0)
    gap = [place for place in found.places if place.part == "wave_gap"]
    assert [(place.text, place.line, place.pct) for place in gap] == [("store();", 5, pytest.approx(10.0))]
    assert not [place for place in without.places if place.part == "wave_gap"]


def test_without_lines_places_are_opcodes(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = source([(sass, 0, executed, held) for sass, _, executed, held in LOOP])
    found = read(monkeypatch, frame)
    (copy,) = [place for place in found.places if place.part == "copy_cost"]
    assert (copy.file, copy.line, copy.text, copy.sass) == ("", None, "LDGSTS.E [R1], [R2]", True)
    assert copy.key == replace(copy, text="LDGSTS.E [R9], [R3]").key, "registers may change"


def test_lines_of_the_same_text_are_told_by_what_stands_above(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeLaunch.report, "files", {"/src/a.cu": "a\nsync();\nmma();\nb\n\nsync();\n"})
    moved = [(sass, 6 if line == 5 else line, executed, held) for sass, line, executed, held in LOOP]
    found = read(monkeypatch, source(moved))
    assert {(place.line, place.below) for place in found.places if place.text == "sync();"} == {(2, "a"), (6, "b")}


def test_code_that_contradicts_itself_costs_the_places_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = source(LOOP)
    found = build(Evidence(busy=Busy("tensor", 20.0), with_cta=1.0, source=frame))
    monkeypatch.setattr(accounts, "bubble_account", lambda launch: found)
    odd = frame.assign(line=math.nan)
    read = account_of(FakeLaunch(odd))  # type: ignore[arg-type]
    assert read and read.places == () and read.means == found.parts


def place(text: str, pct: float, line: int = 7, part: str = "data_wait", **more: object) -> CodePlace:
    return replace(CodePlace(part, "a.cu", line, text, pct), **more)  # type: ignore[arg-type]


def account(*places: CodePlace, **parts: float) -> Account:
    return Account({part: (pct,) for part, pct in parts.items()}, places, unit="tensor")


BEFORE = account(place("wait();", 8.0), tensor_busy=60.0, issue=30.0, data_wait=10.0)


def at(found: tuple[Move, ...]) -> CodePlace:
    """The place within ``data_wait``."""
    (move,) = [one for one in found if one.part == "data_wait"]
    assert move.place
    return move.place


def test_growth_is_counted_in_cycles_before_so_that_what_takes_as_long_has_not_moved() -> None:
    after = account(place("wait();", 40.0), place("load();", 15.0), tensor_busy=30.0, issue=15.0, data_wait=55.0)
    found = moves(BEFORE, after, 2.0)
    assert [(one.part, pytest.approx(one.points)) for one in found] == [
        ("data_wait", 100.0),
        ("tensor_busy", 0.0),
        ("issue", 0.0),
    ]
    assert at(found) == replace(place("wait();", 40.0), pct=pytest.approx(72.0))
    assert math.fsum(one.points for one in found) == pytest.approx(100.0), "that of the cycles"


def test_the_place_that_grew_most_is_named_not_the_largest() -> None:
    after = account(place("wait();", 9.0), place("load();", 6.0, 20), tensor_busy=55.0, issue=30.0, data_wait=15.0)
    assert at(moves(BEFORE, after, 1.0)) == place("load();", 6.0, 20)


def test_a_second_line_of_the_same_text_is_not_taken_for_the_first() -> None:
    before = account(place("sync();", 8.0, 7), issue=90.0, data_wait=10.0)
    now = (place("sync();", 9.0, 8, below="load();"), place("sync();", 6.0, 40, below="mma();"))
    found = at(moves(before, account(*now, issue=84.0, data_wait=16.0), 1.0))
    assert (found.line, found.pct) == (40, 6.0), "the nearer one is the one that was there"
    both = account(*(replace(one, pct=7.0) for one in now), issue=84.0, data_wait=16.0)
    grown = replace(both, places=(replace(now[0], line=90, pct=9.5), replace(now[1], pct=8.0)))
    assert at(moves(both, grown, 1.0)).below == "load();", "wherever the line has gone"


def test_without_source_on_one_side_lines_are_told_by_their_numbers() -> None:
    after = account(
        place("BAR.SYNC 0x0", 20.0, 7, sass=True), place("LDG.E R1", 9.0, 9, sass=True), issue=60.0, data_wait=40.0
    )
    before = account(place("sync();", 18.0, 7), place("load();", 1.0, 9), issue=80.0, data_wait=20.0)
    assert (at(moves(before, after, 1.0)).line, at(moves(before, after, 1.0)).pct) == (9, 8.0)
    assert at(moves(after, before, 3.0)).text == "sync();", "as it is now"


def test_instructions_without_lines_are_told_by_opcode() -> None:
    was = replace(place("@P0 LDG.E R1, [R2]", 18.0), file="", line=None, sass=True)
    now = replace(was, text="@!P1 LDG.E R9, [R4]", pct=19.0)
    new = replace(was, text="STL [R1], R2", pct=5.0)
    found = at(moves(account(was, issue=80.0, data_wait=20.0), account(now, new, issue=75.0, data_wait=25.0), 1.0))
    assert found == new


def test_a_busier_unit_is_no_cause_where_anything_else_grew() -> None:
    after = account(tensor_busy=66.0, issue=31.0, data_wait=3.0)
    assert [one.part for one in moves(BEFORE, after, 1.0)] == ["issue", "tensor_busy", "data_wait"]
    work = account(tensor_busy=66.0, issue=30.1, data_wait=3.9)
    (first, *_) = moves(BEFORE, work, 1.0)
    assert first.part == "tensor_busy"
    assert sentence(first) == "the work itself grew: tensor_busy grew by 6.0 points of the baseline's time"


def test_parts_that_one_side_cannot_split_are_merged_and_have_no_place() -> None:
    merged = {"idle": ("data_wait", "issue")}
    after = replace(account(tensor_busy=50.0, idle=50.0), merged=merged)
    found = moves(BEFORE, after, 1.0)
    assert [(one.part, one.points, one.place) for one in found] == [
        ("idle", pytest.approx(10.0), None),
        ("tensor_busy", pytest.approx(-10.0), None),
    ]
    back = moves(after, BEFORE, 1.0)
    assert [one.part for one in back] == ["tensor_busy", "idle"] and back[1].place is None


def test_a_sentence_names_part_points_line_and_text() -> None:
    found = Move("data_wait", 23.42, place("loop_sync(`x`);", 23.3, 191))
    assert sentence(found) == (
        "data_wait grew by 23.4 points of the baseline's time, most at a.cu:191 `loop_sync('x');` (+23.3)"
    )
    no_line = replace(found, place=replace(place("LDG.E R1", 2.0), file="", line=None, sass=True))
    assert sentence(no_line).endswith("most at `LDG.E R1` (+2.0)")
    assert sentence(Move("tail", 1.0)) == "tail grew by 1.0 points of the baseline's time"
    assert sentence(Move("tail", -1.0, place("x", 1.0))) == "tail fell by 1.0 points of the baseline's time"


def test_one_stage_of_a_recorded_kernel_waits_for_data_at_its_mbarrier() -> None:
    reports = [Report.open(ROOT / "gemm_tma" / variant) for variant in ("stages3", "stages1")]
    before, after = (gather([account_of(report.launch(0))]) for report in reports)
    assert before and after
    cycles = [report.launch(0).identity.cycles for report in reports]
    first, *_ = moves(before, after, cycles[1] / cycles[0])
    assert first.part == "data_wait" and first.points > 30.0
    assert first.place and first.place.file == "gemm_tma.cu" and "mbarrier_wait(&full" in first.place.text
    assert first.place.pct > 0.9 * first.points
    assert before.overlap == after.overlap == "asynchronous"
    assert all(abs(one.points) < 1e-9 for one in moves(before, before, 1.0))


@pytest.mark.parametrize(
    "run",
    [
        "h200/tensor_core_gemm/stages1",
        "h200/gemm_ws/default",
        "h200/triton_gemm/stages4",
        "h100/softmax_online/default",
    ],
)
def test_a_rule_on_a_part_holds_the_part_that_report_shows(run, tmp_path):
    (one,) = ncubble.load(ROOT.parent / run)
    assert one.verdict.account
    work = ("tensor_busy", "unit_busy", "other")
    shown = {part: pct for part, pct in one.verdict.account.items() if pct > 0.5 and part not in work}
    assert len(shown) >= 2
    for change, verdict in ((-0.01, "limit_broken"), (0.01, "pass")):
        rules = [f"{part} <= {pct + change:.4f}" for part, pct in shown.items()]
        found = ncubble.check(ROOT.parent / run, rules=rules, baseline=tmp_path, allow_new=True, config=False)
        limits = found.to_json()["kernels"][0]["limits"]
        assert [limit["verdict"] for limit in limits] == [verdict] * len(shown)
        assert [limit["value"] for limit in limits] == list(shown.values())
