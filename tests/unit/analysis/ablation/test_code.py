"""Which instructions are taken out of a kernel: on recordings, and on kernels of a few lines."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ncubble.analysis.ablation.code import SLACK_CLASSES, SPECIAL, RemovableParts, parts_of
from ncubble.analysis.account.account import account
from ncubble.analysis.report.report import Report
from tests.helpers.sass_frames import kernel

RECORDINGS = Path(__file__).resolve().parents[4] / "recordings" / "h200"
NAMES = (
    "gemm_tma/stages2",
    "gemm_ws/default",
    "tensor_core_gemm/stages1-plain",
    "tensor_core_gemm/stages2",
    "attention_fwd/default",
)
STAY = ("HGMMA", "HMMA", "WARPGROUP", "EXIT", "BRA", "SYNCS.EXCH", "SYNCS.ARRIVE", "WARPSYNC", "USETMAXREG", "RET")


@cache
def recorded(name: str) -> tuple[RemovableParts, list[str]]:
    """The parts of a recorded launch, and its instructions without guards."""
    launch = Report.open(RECORDINGS / name).launch(0)
    bubbles = account(launch)
    assert bubbles is not None
    return parts_of(launch.source, bubbles.unit), [plain(str(text)) for text in launch.source["sass"]]


def plain(sass: str) -> str:
    return sass.partition(" ")[2].strip() if sass.startswith("@") else sass


def texts(name: str, part: str) -> list[str]:
    parts, sass = recorded(name)
    return [sass[row] for row in parts.rows.get(part, ())]


def found(*lines: Any, executed: list[float] | None = None) -> dict[str, tuple[int, ...]]:
    """Parts of a hand-written kernel by row."""
    return dict(parts_of(kernel(*lines, executed=executed), "tensor").rows)


@pytest.mark.parametrize("name", NAMES)
def test_parts_do_not_overlap_and_leave_what_a_kernel_cannot_do_without(name: str) -> None:
    parts, sass = recorded(name)
    rows = [row for chosen in parts.rows.values() for row in chosen]
    assert len(rows) == len(set(rows)) and all(0 <= row < len(sass) for row in rows)
    assert all(list(chosen) == sorted(set(chosen)) != [] for chosen in parts.rows.values())
    taken = {*rows, *parts.free_running[0], *parts.bare}
    assert [sass[row] for row in sorted(taken) if sass[row].startswith(STAY)] == []
    assert set(parts.bare) <= set(parts.rows.get("copy", ()))
    assert all(sass[row].startswith("SYNCS.ARRIVE.TRANS64") for row in parts.expecting)
    assert not set(parts.expecting) & taken
    for name_of, chosen in parts.slack.items():
        assert all(sass[row].startswith(SLACK_CLASSES[name_of]) for row in chosen)


def test_copies_by_tma_are_awaited_at_mbarriers() -> None:
    parts, sass = recorded("gemm_tma/stages2")
    waits = texts("gemm_tma/stages2", "wait")
    assert len(waits) == 2 and all(text.startswith("SYNCS.PHASECHK.TRANS64.TRYWAIT") for text in waits)
    assert sum(text.startswith("UTMALDG.2D ") for text in texts("gemm_tma/stages2", "copy")) == 6
    assert len(parts.expecting) == 2
    assert sum(text.startswith("UTMASTG.2D ") for text in texts("gemm_tma/stages2", "epilogue")) == 2
    stores = [text for text in texts("gemm_tma/stages2", "epilogue") if text.startswith("DEPBAR")]
    assert len(stores) == 2, "what waits for stores goes with them, and not as a wait for data"
    assert len([text for text in sass if text.startswith("SYNCS.ARRIVE.TRANS64 ")]) == 2


def test_producers_wait_for_free_slots_on() -> None:
    parts, sass = recorded("gemm_ws/default")
    checks = [row for row, text in enumerate(sass) if text.startswith("SYNCS.PHASECHK")]
    waits = parts.rows["wait"]
    assert len(checks) == 4 and len(waits) == 2
    # Full barriers begin at 0x38000, free slots at 0x38020.
    assert all("+0x38000]" in sass[row] for row in waits)
    assert all("+0x38020]" in sass[row] for row in set(checks) - set(waits))
    assert parts.free_running == (tuple(checks), parts.expecting)
    assert "sync" not in parts.rows and "smem" not in parts.rows


def test_copies_through_registers_or_by_cp_async_take_their_addresses_along() -> None:
    parts, sass = recorded("tensor_core_gemm/stages2")
    assert texts("tensor_core_gemm/stages2", "wait") == ["DEPBAR.LE SB0, 0x0"]
    assert {re.split(r"[. ]", sass[row])[0] for row in parts.bare} == {"LDGSTS", "LDGDEPBAR", "LDS"}
    assert all(sass[row] == "LDS RZ, [RZ]" for row in parts.bare if sass[row].startswith("LDS"))
    assert len(parts.rows["copy"]) > 3 * len(parts.bare)
    assert all(text.startswith("LDSM") for text in texts("tensor_core_gemm/stages2", "smem"))
    assert sum(text.startswith("STG") for text in texts("tensor_core_gemm/stages2", "epilogue")) == 32
    assert parts.free_running == ((), ()), "nothing polls"
    whole, _ = recorded("tensor_core_gemm/stages1-plain")
    assert "wait" not in whole.rows
    copies = [text.split(".")[0] for text in texts("tensor_core_gemm/stages1-plain", "copy")]
    assert copies.count("LDG") == copies.count("STS") == 4


def test_special_functions_of_integer_divisions_stay() -> None:
    parts, sass = recorded("attention_fwd/default")
    special = parts.rows[SPECIAL]
    assert {sass[row].split(" ")[0] for row in special} == {"MUFU.EX2"} and len(special) > 100
    after = {row: " ".join(sass[row - 12 : row]) for row, text in enumerate(sass) if text.startswith("MUFU.RCP")}
    divisions = [row for row, text in after.items() if "I2F" in text]
    assert divisions and not set(divisions) & {row for rows in parts.rows.values() for row in rows}


def test_named_barriers_go_with_their_arrivals() -> None:
    parts, sass = recorded("attention_fwd/default")
    assert [sass[row].split(".")[1].split(" ")[0] for row in parts.rows["sync"]] == ["SYNC", "ARV"]
    assert "BAR.SYNC.DEFER_BLOCKING 0x0" not in texts("attention_fwd/default", "sync")


LOOP = ("LDGSTS.E [R2], [R4.64]", "LDGDEPBAR", "DEPBAR.LE SB0, 0x0", "BAR.SYNC.DEFER_BLOCKING 0x0")


def test_each_part_of_a_small_kernel_is_found() -> None:
    parts = found(*LOOP, "LDS R8, [R20]", "HMMA.16816.F32 R12, R8, R16, R12", "MUFU.EX2 R3, R12")
    assert parts == {"wait": (2,), "copy": (0, 1), "sync": (3,), "smem": (4,), SPECIAL: (6,)}


def test_a_wait_for_bulk_stores_is_no_wait_for_data() -> None:
    mma = "HMMA.16816.F32 R12, R8, R16, R12"
    assert "wait" in found("LDGSTS.E [R2], [R4.64]", "LDGDEPBAR", "DEPBAR.LE SB0, 0x0", mma)
    assert "wait" not in found("UTMASTG.2D [UR4], [UR6]", "UTMACMDFLUSH", "DEPBAR.LE SB0, 0x0", mma)


@pytest.mark.parametrize(
    "reader",
    [
        ("LDG.E R5, [R8.64]",),
        ("ISETP.GE.AND P0, PT, R8, R4, PT",),
        ("IADD3 R9, R8, 0x1, RZ", "LDG.E R5, [R9.64]"),
        ("R2UR UR4, R8",),
    ],
)
def test_a_shared_load_that_steers_stays(reader: tuple[str, ...]) -> None:
    mma = "HMMA.16816.F32 R12, R10, R16, R12"
    assert 0 not in found("LDS R8, [R20]", *reader, mma).get("smem", ())
    assert 0 in found("LDS R8, [R20]", "HMMA.16816.F32 R12, R8, R16, R12", "MOV R8, RZ", *reader).get("smem", ())


def test_a_schedule_that_is_read_far_behind_stays_in_every_copy_of_the_loop() -> None:
    mma = "HMMA.16816.F32 R12, R8, R16, R12"
    far = [mma] * 100
    lines = ["MOV R1, RZ", "LDS R6, [UR7+0x8]", "LDS R8, [R20]", *far, "R2UR UR5, R6", "LDS R6, [UR7+0x8]", *far]
    assert found(*lines, executed=[1.0] + [50.0] * (len(lines) - 1))["smem"] == (2,)


def test_a_shared_load_that_never_runs_is_no_part() -> None:
    assert 0 not in found("@!PT LDS RZ, [RZ]", "HMMA.16816.F32 R12, R8, R16, R12").get("smem", ())
