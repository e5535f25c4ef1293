"""What an ablation measured: kept and read again, and shared out among parts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ncubble.analysis.ablation.experiment import measured_parts, vanished
from ncubble.analysis.ablation.result import (
    FILE,
    Ablation,
    MeasuredLine,
    MeasuredPart,
    MeasuredVariant,
)
from ncubble.errors import ReportError
from tests.helpers.ablations import REST, WHOLE, ablation

ABLATION = Ablation(
    kernel="gemm",
    device="NVIDIA H200",
    cycles=1000.0,
    se_pct=0.5,
    rounds=2,
    faithful=None,
    parts=[MeasuredPart("data_wait", None, 12.0, 0.5, 13.0)],
    interactions={"wait_sync": -1.5},
    variants=[MeasuredVariant("wait", "ok", 4, [880.0, 860.0], 13.0, 1.0), MeasuredVariant("copy", "hangs", 9)],
    slack=[MeasuredVariant("slack tensor", "changes results", 3)],
    lines=[MeasuredLine(None, None, "LDS R1, [R2]", "smem_wait", 3.0), MeasuredLine("k.cu", 7, "", "data_wait", 1.0)],
    notes=["a note"],
    seconds={"profile": 4.5},
)
ACCOUNT = {"data_wait": 10.0, "copy_cost": 5.0, "sync_wait": 4.0, "epilogue": 2.0, "unit_busy": 60.0}


def variants(**gone: float | None) -> list[MeasuredVariant]:
    """Variants with what vanishes with each; None: it failed."""
    return [MeasuredVariant(name, "ok" if pct is not None else "hangs", 1, [], pct, 0.1) for name, pct in gone.items()]


def told(*measured: MeasuredVariant, present: tuple[str, ...] = ()) -> tuple[dict[str, float], list[str]]:
    rows, notes = measured_parts(measured, ACCOUNT, 60.0, present)
    return {row.part: row.measured for row in rows}, notes


def test_what_is_saved_is_read_again(tmp_path: Path) -> None:
    ABLATION.save(tmp_path)
    assert Ablation.load(tmp_path) == ABLATION
    assert (tmp_path / FILE).read_text().endswith("}\n")


def test_an_unknown_error_is_kept(tmp_path: Path) -> None:
    rest = MeasuredPart("rest", None, 3.0, None, None)
    replace(ABLATION, parts=[rest]).save(tmp_path)
    loaded = Ablation.load(tmp_path)
    assert loaded is not None and loaded.parts == [rest]

    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is not JSON")

    json.loads((tmp_path / FILE).read_text(), parse_constant=refuse)


def test_a_run_without_one_has_none(tmp_path: Path) -> None:
    assert Ablation.load(tmp_path) is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not an ablation"),
        ("[]", "schema 1 is wanted"),
        ("{}", "schema 1 is wanted"),
        ('{"schema": 2}', "schema 1 is wanted"),
        ('{"schema": 1}', "missing"),
        (json.dumps({**ABLATION.to_json(), "cycles": "many"}), "'cycles'"),
        (json.dumps({**ABLATION.to_json(), "variants": [{"name": 5}]}), "variants"),
        (json.dumps({**ABLATION.to_json(), "parts": 5}), "not an ablation"),
        (json.dumps({**ABLATION.to_json(), "parts": [5]}), "not an ablation"),
        ("\xff\xfe", "not an ablation"),
    ],
)
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / FILE).write_bytes(content.encode("latin-1"))
    with pytest.raises(ReportError, match=message) as caught:
        Ablation.load(tmp_path)
    assert str(tmp_path / FILE) in caught.value.message and "ncubble ablate" in caught.value.remedy


def test_what_vanishes_has_the_errors_of_both_means() -> None:
    found = vanished(MeasuredVariant("wait", "ok", 1, [76.0, 84.0]), [97.0, 103.0])
    assert found.gone_pct == pytest.approx(20.0)
    assert found.se == pytest.approx(5.0), "4 and 3 percent of the whole kernel's mean"


def test_parts_of_the_loop_and_the_epilogue_are_shared_out() -> None:
    made = variants(wait=10.0, copy=16.0, sync=4.0, wait_sync=14.0, copy_sync=20.0, epilogue=2.0, all=22.0)
    rows, notes = measured_parts(made, ACCOUNT, 60.0, ["wait", "copy", "sync", "epilogue"])
    assert [(row.part, row.estimated, row.alone) for row in rows] == [
        ("data_wait", 10.0, 10.0),
        ("copy_cost", 5.0, 16.0),
        ("sync_wait", 4.0, 4.0),
        ("epilogue", 2.0, 2.0),
        ("rest", None, None),
    ]
    assert [row.measured for row in rows] == pytest.approx([10.0, 6.0, 4.0, 2.0, 18.0])
    assert notes == [] and rows[-1].se is None


def test_plain_copies_and_their_waits_are_one_part() -> None:
    made = variants(copy=16.0, sync=4.0, copy_sync=20.0)
    rows, notes = measured_parts(made, ACCOUNT, 60.0, ["copy", "sync"])
    assert [(row.part, row.measured, row.estimated, row.alone) for row in rows] == [
        ("data_wait+copy_cost", 16.0, 15.0, 16.0),
        ("sync_wait", 4.0, 4.0, 4.0),
        ("rest", 20.0, None, None),
    ]
    assert notes == []


def test_special_functions_and_the_whole_kernel_are_no_parts() -> None:
    parts, notes = told(*variants(none=0.0, sync=4.0, special=9.0), present=("sync",))
    assert parts == {"sync_wait": 4.0, "rest": 36.0} and notes == []


def test_without_a_usable_variant_nothing_is_told() -> None:
    for made in ([], variants(none=0.0), variants(wait=None, sync=None), variants(special=3.0)):
        assert told(*made, present=("wait", "sync")) == ({}, ["no variant could be measured"])


def test_where_sets_are_missing_each_part_stands_for_itself() -> None:
    made = variants(wait=10.0, sync=4.0, wait_sync=None, epilogue=2.0, all=None)
    parts, notes = told(*made, present=("wait", "sync", "epilogue"))
    assert parts == {"data_wait": 10.0, "sync_wait": 4.0, "epilogue": 2.0}
    (note,) = notes
    assert note.startswith("not every combination was measured, so parts are taken individually: ") and "\n" not in note


def test_a_part_that_failed_alone_is_left_out() -> None:
    parts, notes = told(*variants(wait=None, copy=16.0), present=("wait", "copy"))
    assert parts == {"data_wait+copy_cost": 16.0, "rest": 24.0} and notes == []


def test_an_account_is_measured_where_every_set_was_and_sums_to_100() -> None:
    whole = ablation([*WHOLE, REST])
    assert whole.account(ACCOUNT) == {"unit_busy": 60.0, "data_wait": 30.0, "sync_wait": -2.0, "remainder": 12.0}
    failed = MeasuredVariant("copy", "hangs", 9)
    assert ablation(WHOLE).account(ACCOUNT) is None
    assert replace(whole, variants=[failed]).account(ACCOUNT) is None
    assert whole.account({}) is None
