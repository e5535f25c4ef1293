"""Changes that a report predicts: never what the kernel has, and the shallowest of equal depths."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.account.evidence import Evidence, evidence
from ncubble.analysis.changes.change import KINDS, Change, gain_of
from ncubble.analysis.diagnosis.diagnose import launch_verdict
from ncubble.analysis.diagnosis.predicted import Subject, _streaming, _untiled_ctas, _vectors
from ncubble.analysis.diagnosis.tiles import tile_of
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.model.pipeline import Pipeline, pipeline_of
from ncubble.analysis.report.report import Report
from ncubble.recordings import ROOT, VALIDATION

RECORDINGS = ROOT.parent


def verdict(run: Path, number: int = 0) -> LaunchVerdict:
    return launch_verdict(Report.open(run).launch(number))


def first(run: Path) -> Change:
    return verdict(run).changes[0]


def test_an_only_buffer_gets_the_shallowest_of_equally_good_depths() -> None:
    change = first(RECORDINGS / "h200/gemm_tma/stages1")
    assert (change.kind, change.before, change.part) == ("stages", 1, "data_wait")
    assert isinstance(change.after, int)
    assert change.after <= 4, "4 to 7 are predicted equal"


def test_no_depth_is_named_that_a_recorded_launch_contradicts() -> None:
    changes = verdict(RECORDINGS / "h200/triton_gemm/stages4").changes
    assert not any(change.kind == "stages" and change.known for change in changes), "3 stages took 8 % more"


def test_a_kernel_with_tma_or_wide_copies_is_not_told_to_copy_wider() -> None:
    for run in ("h200/gemm_tma/stages1", "h200/triton_gemm/stages3", "h200/gemm_ws/default"):
        if not (RECORDINGS / run).is_dir():
            continue
        assert not any(change.kind == "copies" for change in verdict(RECORDINGS / run).changes), run


def test_equal_accounts_get_equal_first_changes() -> None:
    plain, full = (
        first(RECORDINGS / run) for run in ("h200/tensor_core_gemm/stages1", "h200-full/tensor_core_gemm/stages1-full")
    )
    assert (plain.kind, plain.after) == (full.kind, full.after)


@pytest.mark.parametrize("run", sorted((VALIDATION / "changes/h100").glob("0[06]")), ids=lambda run: run.name)
def test_changes_of_triton_kernels_are_such_as_triton_offers_in_the_order_of_their_gain(run: Path) -> None:
    for launch in Report.open(run):
        changes = launch_verdict(launch).changes
        assert {change.kind for change in changes} <= {*KINDS}
        assert not {change.kind for change in changes} & {"shared_layout", "barriers", "epilogue", "copies"}
        gains = [change.gain_pct for change in changes if change.gain_pct is not None and not change.blocked]
        assert gains == sorted(gains, reverse=True)
        assert all(change.text for change in changes)
        for change in changes:
            if change.gain_pct is not None and change.low is not None and change.high is not None:
                assert change.low <= change.gain_pct <= change.high <= 100.0


def test_members_of_a_change_are_read_back() -> None:
    change = Change(kind="stages", before=2, after=3, text="use 3", part="data_wait", gain_pct=5.0, low=1.0, high=6.0)
    assert Change(**Change.members_of(change.to_json())) == change
    assert change.to_json()["from"] == 2


def test_a_part_takes_at_most_all_other_idle_time_along() -> None:
    gain = gain_of(20.0, 50.0)
    assert (gain.expected, gain.low, gain.high) == pytest.approx((26.0, 10.0, 32.0))
    assert gain_of(50.0, 50.0).expected == pytest.approx(50.0)


def test_a_kernel_of_numba_is_not_told_what_triton_calls_things() -> None:
    runs = sorted((RECORDINGS / "h200").glob("numba_t*/default"))
    assert runs
    for run in runs:
        assert not any("BLOCK_" in one.text or "num_stages" in one.text for one in verdict(run).changes), run.name


@pytest.mark.parametrize(("opcodes", "kinds"), [(["LDG.E", "STG.E"], ["warps"]), (["STG.E"], [])])
def test_a_kernel_without_loads_is_not_told_to_load_more_at_once(opcodes: list[str], kinds: list[str]) -> None:
    roles = ["load_global" if opcode.startswith("LD") else "store_global" for opcode in opcodes]
    found = SimpleNamespace(
        opcodes=opcodes, roles=roles, executed=[1.0] * len(opcodes), dram_pct=20.0, dram_read_B=0.0,
        quantity=lambda name: 0.0, executions=lambda *names: 0.0,
    )  # fmt: skip
    subject: Any = SimpleNamespace(found=found, account=SimpleNamespace(unit="dram", busy_pct=20.0))
    assert [change.kind for change in _streaming(subject, 4)] == kinds


WAITING = {"data_wait": 40.0, "issue": 20.0}


@pytest.mark.parametrize(
    ("load", "triton", "parts", "dram", "told"),
    [
        ("LDG.E R4, [R2.64]", False, WAITING, 40.0, "load 16 bytes per thread at once"),
        ("LDG.E.128 R4, [R2.64]", False, WAITING, 40.0, "load several values before the first is used"),
        ("LDG.E.64 R4, [R2.64]", True, WAITING, 40.0, "load more for each warp at once"),
        ("LDG.E R4, [R2.64]", False, {"data_wait": 14.0}, 40.0, ""),
        ("LDG.E R4, [R2.64]", False, {"data_wait": 20.0, "issue": 40.0}, 40.0, ""),
        ("LDG.E R4, [R2.64]", False, WAITING, 85.0, ""),
        ("LDG.E R2, [R2.64]", False, WAITING, 40.0, ""),
    ],
    ids=["narrow", "wide", "Triton", "hardly waits", "waits for issue", "DRAM full", "a list"],
)
def test_a_stream_that_waits_is_told_to_have_more_on_its_way(
    load: str, triton: bool, parts: dict[str, float], dram: float, told: str
) -> None:
    sass = [load, "FADD R8, R8, R4", "@P0 BRA 0x0"]
    found: Any = SimpleNamespace(
        roles=["load_global", "", ""], executed=[9.0] * 3, opcodes=[text.split()[0] for text in sass], dram_pct=dram,
        sectors=1.0, fetched=1.0, code=SimpleNamespace(sass=sass, loop=range(3)),
    )  # fmt: skip
    account = BubbleAccount(0, "l2", {"tensor_busy": 0.0, "unit_busy": 100.0 - sum(parts.values()), **parts})
    subject = Subject(found, account, None, None, triton, 32.0)
    assert [one.text.startswith(told) for one in _vectors(subject)] == ([True] if told else [])


@pytest.mark.parametrize(
    ("roles", "busy", "issue", "limit"),
    [(["mma"], 40.0, 34.0, True), (["mma"], 40.0, 36.0, False), ([""], 76.0, 24.0, True), ([""], 74.0, 26.0, False)],
    ids=["product", "product that waits for issue", "full unit", "idle unit"],
)
def test_none_needs_a_product_whose_depths_tell_or_a_full_unit(
    roles: list[str], busy: float, issue: float, limit: bool
) -> None:
    found: Any = SimpleNamespace(roles=roles)
    parts = {"tensor_busy": busy, "unit_busy": 0.0} if roles == ["mma"] else {"tensor_busy": 0.0, "unit_busy": busy}
    assert (
        Subject(
            found,
            BubbleAccount(0, "lsu", {**parts, "issue": issue, "other": 100.0 - busy - issue}),
            None,
            None,
            False,
            32.0,
        ).at_limit
        == limit
    )


@pytest.mark.parametrize(
    ("grid", "waves", "waits", "warps", "told"),
    [
        (132.0, 0.125, 53.0, 8.0, "launch more CTAs"),
        (132.0, 0.125, 5.0, 8.0, ""),
        (132.0, 1.0, 53.0, 8.0, ""),
        (5e5, 600.0, 5.0, 13.0, "let a thread do more"),
        (5e5, 600.0, 5.0, 60.0, ""),
        (5e4, 60.0, 5.0, 13.0, ""),
    ],
    ids=["rows", "it does not wait", "full grid", "short CTAs", "full SMs", "long CTAs"],
)
def test_grids_of_few_or_short_ctas_are_told_so(
    grid: float, waves: float, waits: float, warps: float, told: str
) -> None:
    """Rows of a public report of an H100, and one that fills an array on an A100."""
    load = SimpleNamespace(resident=8.0)
    sizes = {"grid": grid, "waves": waves, "active_warps": warps, "sms": 132.0, "cycles": 5e5, "block": 8.0}
    bubbles = dict(sorted({"data_wait": waits, "issue": 20.0}.items(), key=lambda item: -item[1]))
    subject: Any = SimpleNamespace(
        found=SimpleNamespace(tiled=False, load=load, **sizes),
        account=SimpleNamespace(busy_pct=40.0, bubbles=bubbles),
    )
    assert [one.text.startswith(told) for one in _untiled_ctas(subject)] == ([True] if told else [])


CUTLASS = VALIDATION / "changes/h100/cutlass_square-fair"


@pytest.mark.parametrize("number", [1, 2, 7, 17, 18], ids=lambda number: f"launch {number}")
def test_the_tile_of_a_kernel_with_roles_is_read_off_its_code(number: int) -> None:
    _, _, settings = json.loads((CUTLASS / "launches.json").read_text(encoding="utf-8"))[number]
    launch = Report.open(CUTLASS).launch(number)
    now = pipeline_of(launch)
    assert isinstance(now, Pipeline)
    tile = tile_of(evidence(launch), now, launch.value("launch__registers_per_thread"), roles=True)
    assert tile is not None
    assert (tile.m, tile.n, tile.k) == (settings["TILE_M"], settings["TILE_N"], settings["TILE_K"])
    assert (tile.warps, tile.math_warps) == (min(settings["WARPS"], 12), 8 if settings["TILE_M"] == 128 else 4)


def test_a_kernel_of_cutlass_is_told_of_its_tile_in_numbers() -> None:
    wider, deeper = (one.text for one in verdict(CUTLASS, 1).changes[:2])
    assert deeper == "use a tile of 128 x 64 x 64 (m, n, k) instead of 128 x 64 x 32"
    assert wider == "use a tile of 128 by 128 results instead of 64 by 128", "the code does not say which side is m"


def test_a_kernel_of_cutlass_that_spills_is_told_of_no_larger_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Evidence, "spilled_pct", property(lambda found: 30.0))
    assert not [one.text for one in verdict(CUTLASS, 1).changes if one.kind.startswith("tile")]


def test_k_is_divided_where_most_sms_have_no_tile_and_only_there() -> None:
    kinds = {number: [(one.kind, one.after) for one in verdict(CUTLASS, number).changes] for number in (0, 7, 19)}
    assert kinds[7][0] == ("ctas", 4), "32 tiles for 132 SMs"
    assert ("ctas", 4) not in kinds[0], "1,024 tiles"
    assert not any(kind == "ctas" and after for kind, after in kinds[19]), "adding up would take longer than 24 us"
