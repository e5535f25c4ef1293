"""Occupancy limits: what binds, what one more CTA would need, and how the page says it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from ncubble.analysis.account.occupancy_limits import ctas_by_registers, limits_of, registers_for, setmaxnreg
from ncubble.analysis.report.report import open_reports
from ncubble.dashboard.pages.kernel.head import limits_sentence, occupancy
from ncubble.profiling.runs import find_runs
from ncubble.recordings import ROOT
from tests.helpers import dashboard_frames as frames

H200: dict[str, float] = {
    "launch__block_size": 256,
    "launch__grid_size": 1024,
    "launch__registers_per_thread": 112,
    "launch__occupancy_limit_registers": 2,
    "launch__occupancy_limit_shared_mem": 3,
    "launch__occupancy_limit_warps": 8,
    "launch__occupancy_limit_blocks": 32,
    "launch__occupancy_limit_barriers": 32,
    "launch__shared_mem_per_block_static": 0,
    "launch__shared_mem_per_block_dynamic": 65536,
    "launch__shared_mem_per_block_driver": 1024,
    "launch__shared_mem_config_size": 233472,
    "launch__waves_per_multiprocessor": 3.88,
    "launch__sm_count": 132,
    "launch__cluster_size": 0,
    "device__attribute_max_registers_per_multiprocessor": 65536,
    "device__attribute_max_shared_memory_per_multiprocessor": 233472,
    "device__attribute_max_warps_per_multiprocessor": 64,
    "sm__maximum_warps_per_active_cycle_pct": 25.0,
    "sm__warps_active.avg.pct_of_peak_sustained_active": 24.2,
}


def limit(name: str, **changes: float) -> Any:
    found = limits_of(H200 | {f"launch__{key}": value for key, value in changes.items()})
    return next(one for one in found.limits if one.resource == name)


def test_the_tightest_resource_binds() -> None:
    found = limits_of(H200)
    assert (found.ctas, found.binding, found.warps) == (2, ("registers",), 8)
    assert (found.theoretical_pct, found.achieved_pct, found.waves) == (25.0, 24.2, 3.88)


def test_one_more_cta_needs_registers_by_whole_steps() -> None:
    assert limit("registers").one_more == "32 registers per thread fewer (80)"
    assert ctas_by_registers(80, 8, 65536) == 3 and ctas_by_registers(88, 8, 65536) == 2
    assert registers_for(3, 8, 65536) == 80
    assert registers_for(1000, 8, 65536) == 0


def test_one_more_cta_needs_shared_memory_or_a_larger_carve_out() -> None:
    tight = {"occupancy_limit_registers": 8, "occupancy_limit_shared_mem": 3}
    assert limit("shared memory", **tight).one_more == "8 KiB less per CTA (56 KiB)"
    small = tight | {"shared_mem_config_size": 102400, "occupancy_limit_shared_mem": 1}
    assert limit("shared memory", **small).one_more.startswith("a larger carve-out (the SM has up to 228 KiB), or 15")


def test_what_the_arithmetic_does_not_reproduce_is_not_told() -> None:
    assert limit("registers", occupancy_limit_registers=1).one_more == ""
    assert limit("shared memory", occupancy_limit_shared_mem=1, occupancy_limit_registers=8).one_more == ""


def test_a_resource_with_room_needs_nothing() -> None:
    assert limit("warps").one_more == "" and limit("CTA slots").one_more == ""


def test_what_is_not_collected_is_nan_and_limits_nothing() -> None:
    found = limits_of({})
    assert not found.known and found.binding == () and math.isnan(found.theoretical_pct)
    assert math.isnan(limit("barriers", occupancy_limit_barriers=0).ctas)
    assert limits_of(H200 | {"launch__occupancy_limit_barriers": 0}).ctas == 2


def test_theoretical_occupancy_follows_from_the_limits_where_it_is_not_told() -> None:
    known = {name: value for name, value in H200.items() if not name.startswith("sm__maximum")}
    assert limits_of(known).theoretical_pct == 25.0


def test_the_sentence_says_what_limits() -> None:
    assert limits_sentence(limits_of(H200)).startswith("An SM holds 2 CTAs; registers bind.")
    few = limits_of(H200 | {"launch__grid_size": 100})
    assert few.grid_binds and "the grid size limits occupancy" in limits_sentence(few)
    full = limits_of(H200 | {"sm__maximum_warps_per_active_cycle_pct": 100.0})
    assert "occupancy cannot grow" in limits_sentence(full)
    shared = limits_of(H200 | {"launch__occupancy_limit_shared_mem": 1})
    assert "An SM holds 1 CTA; shared memory binds." in limits_sentence(shared)


def test_the_section_marks_what_binds_and_says_what_is_missing(tmp_path: Path) -> None:
    report = frames.gemm()
    report.numbers[0] = H200
    store = frames.store(tmp_path, [report])
    known, unknown = (frames.sent(occupancy(frames.view(store, launch=launch))) for launch in (0, 1))
    assert "registers (binds)" in known and "32 registers per thread fewer (80)" in known
    assert "--set pipeline" in unknown and "not collected" in unknown


def test_the_arithmetic_agrees_with_every_recording() -> None:
    if not any(find_runs([ROOT])):
        pytest.skip("no recorded run yet")
    reports, failed = open_reports([ROOT], details=False)
    assert not failed
    for report in reports:
        scalars = report.launch(0).scalars
        found = limits_of(scalars)
        told = scalars["sm__maximum_warps_per_active_cycle_pct"]
        most = scalars["device__attribute_max_warps_per_multiprocessor"]
        assert 100.0 * found.ctas * found.warps / most == pytest.approx(told, abs=0.01), report.path
        by_name = {one.resource: one for one in found.limits}
        used = scalars["launch__registers_per_thread"]
        assert ctas_by_registers(used, found.warps, 65536) == by_name["registers"].ctas, report.path


@pytest.mark.parametrize("value", [math.inf, -math.inf, 1e300, 1e16, math.nan])
def test_sizes_that_no_gpu_has_are_not_collected(value: float) -> None:
    for name in H200:
        found = limits_of({**H200, name: value})
        assert name != "launch__block_size" or math.isnan(found.warps)
    assert math.isnan(limits_of({**H200, "launch__block_size": 1e6}).warps)
    assert not limits_of(dict.fromkeys(H200, value)).known


def test_registers_that_warpgroups_share_out_are_explained() -> None:
    said = setmaxnreg(["MOV R0, R1", "USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8", "USETMAXREG.DEALLOC.CTAPOOL 0x28"])
    assert "40 or 232 registers while they run" in said
    assert setmaxnreg(["MOV R0, R1"]) == ""
