"""The benchmark's plan names what the catalog has, and its tables show what was measured."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.kernels import tables
from benchmarks.validation.planted import PLANTED
from benchmarks.validation.planted.pairs import PAIRS, WASTE
from ncubble.kernels.catalog.registry import SPECS, find_spec, user_specs
from ncubble.kernels.spec.case import make_case
from tests.helpers.markdown import formatted


@pytest.fixture
def ladder(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return importlib.import_module("benchmarks.kernels.ladder")


def test_every_row_of_the_plan_can_be_launched_and_has_its_library(ladder: ModuleType) -> None:
    for entry in ladder.against():
        spec = find_spec(entry.kernel)
        make_case(spec, entry.parameters, entry.shape)
        assert spec.peer, entry.label
    labels = [entry.label for entry in ladder.against()]
    assert len(labels) == len(set(labels))


def test_every_group_of_the_plan_can_be_launched_and_compares_something(ladder: ModuleType) -> None:
    for group in ladder.pairs():
        cases = {make_case(find_spec(entry.kernel), entry.parameters, entry.shape).label for entry in group.entries}
        assert len(cases) == len(group.entries) > 1, group.about


def test_every_way_to_share_a_tile_stands_beside_none_in_a_cluster_of_its_size(ladder: ModuleType) -> None:
    group = next(group for group in ladder.pairs() if group.entries[0].kernel == "cluster_dsmem")
    timed = {(entry.parameters["share"], entry.parameters["cluster"]) for entry in group.entries}
    assert timed >= {("none", size) for _, size in timed} | {("multicast", 2)}
    assert group.entries[0].parameters == {"share": "none", "cluster": 2}


def bench(name: str, p50: float, ratio: float, label: str = "") -> dict[str, object]:
    timing = {"p50_us": p50, "p90_us": p50, "clocks": {"sm_mhz": 1500}}
    return {
        "label": label or name,
        "kernel": name,
        "parameters": {"stages": 3},
        "shape": {"m": 2, "n": 3},
        "bench": {
            "device": {"name": "Some GPU", "driver": "1.0"},
            "timing": timing,
            "rates": {"tflops": 500.0, "gb_per_s": 10.0, "fraction": 0.5},
            "against": {
                "library": "cuBLAS (torch.matmul)",
                "version": "cuBLAS 13.1, torch 2.11",
                "timing": {**timing, "p50_us": p50 * ratio, "clocks": {"sm_mhz": 1400}},
                "ratio": ratio,
                "ratio_low": ratio - 0.01,
                "ratio_high": ratio + 0.01,
            },
        },
    }


def test_a_row_shows_time_rate_and_ratio(ladder: ModuleType) -> None:
    row = tables.ladder_table([bench("gemm", 100.0, 1.05)]).splitlines()[-1]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == [
        *("`gemm`", "stages=3", "2×3", "100.0", "500.0 TFLOP/s", "50.0 %", "**1.050** (1.04–1.06)", "cuBLAS"),
    ]


def test_what_failed_is_shown_as_failed(ladder: ModuleType) -> None:
    row = {"label": "gemm", "kernel": "gemm", "parameters": {}, "shape": {"m": 2}, "error": "wrong result"}
    found = {"against": [bench("other", 1.0, 1.0), row], "pairs": [{"about": "depth", "error": "no"}]}
    assert "failed" in tables.ladder_table(found["against"]).splitlines()[-1]
    assert "failed" in tables.pairs_table(found["pairs"])
    assert ladder.failed(found)


def test_a_group_is_compared_with_its_first_setting(ladder: ModuleType) -> None:
    rows = [
        {"kernel": "copy", "parameters": {"stages": count}, "p50_us": time, "p90_us": time, "sm_mhz": 1500}
        for count, time in ((1, 200.0), (2, 100.0))
    ]
    lines = tables.pairs_table([{"about": "depth", "rows": rows}]).splitlines()[2:]
    assert "| 1.000 |" in lines[0] and lines[0].startswith("| depth |")
    assert "| 2.000 |" in lines[1] and lines[1].startswith("|  |")


def test_what_a_kernel_reaches_names_the_gpu_and_what_it_is_compared_with() -> None:
    times = (("old", {"causal": 1}, 200.0), ("new", {}, 160.0), ("new", {"fast": 1}, 180.0))
    rows = [{"kernel": name, "parameters": chosen, "p50_us": time} for name, chosen, time in times]
    found = {"against": [bench("gemm", 100.0, 1.05)], "pairs": [{"device": "NVIDIA H100 80GB HBM3", "rows": rows}]}
    assert tables.reached(found, "gemm") == "500 TFLOP/s, 50 % of the roof; 1.05 × cuBLAS (Some)"
    assert tables.reached(found, "new") == "1.25 × `old` (H100)"
    assert tables.reached(found, "old") == "causal=1: 1.00 × causal=1 (H100)"


def test_a_row_measured_again_takes_the_place_of_the_old_one(ladder: ModuleType) -> None:
    rows = [bench("a", 1.0, 1.0), bench("b", 1.0, 1.0)]
    again = ladder.merged(rows, bench("a", 2.0, 1.0), "label")
    assert [(row["label"], row["bench"]["timing"]["p50_us"]) for row in again] == [("a", 2.0), ("b", 1.0)]
    assert len(ladder.merged(rows, bench("c", 1.0, 1.0), "label")) == 3


def test_the_figures_name_device_and_versions(ladder: ModuleType) -> None:
    found = {"against": [bench("a", 1.0, 1.0)], "pairs": []}
    assert tables.blocks(found)["ladder"].startswith("Measured on Some GPU, driver 1.0 with cuBLAS 13.1, torch 2.11.")


def test_the_page_holds_what_was_measured_and_what_is_planted(ladder: ModuleType) -> None:
    text = ladder.DOCUMENT.read_text(encoding="utf-8")
    found = json.loads(ladder.RESULTS.read_text(encoding="utf-8"))
    assert formatted(ladder.fill(text, tables.blocks(found))) == text, (
        "run: python -m benchmarks.kernels.ladder --write"
    )


def test_each_kernel_of_the_catalog_is_a_rung(ladder: ModuleType) -> None:
    assert {spec.name for spec in SPECS if tables.rung(spec) == "Numba"} == {
        spec.name for spec in SPECS if spec.language == "numba"
    }
    table = tables.rungs_table({"against": [], "pairs": []})
    assert all(f"`{spec.name}`" in table for spec in SPECS)


def test_every_planted_kernel_and_pair_stands_in_the_table_of_pairs(ladder: ModuleType) -> None:
    table = tables.blocks({"against": [], "pairs": []})["planted"]
    assert [line.split(" | ")[0] for line in table.splitlines()[2:]] == [f"| `{pair.name}`" for pair in PAIRS]
    waste = {side.kernel for pair in WASTE for side in (pair.sick, pair.cured) if side}
    assert all(f"`{spec.name}`" in table or spec.name in waste for spec in user_specs(PLANTED))


def test_each_device_has_tables_of_its_own() -> None:
    rows = [bench("a", 1.0, 1.0), bench("b", 1.0, 1.0), bench("c", 1.0, 1.0)]
    rows[1]["bench"]["device"] = {**rows[1]["bench"]["device"], "name": "Other GPU"}
    timed = {"kernel": "copy", "parameters": {}, "p50_us": 1.0, "p90_us": 1.0, "sm_mhz": 1500}
    groups = [{"about": name, "device": device, "rows": [timed]} for name, device in (("x", "A"), ("y", "B"))]
    blocks = tables.blocks({"against": rows, "pairs": groups})
    first, other = blocks["ladder"].split("Measured on ")[1:]
    assert first.startswith("Some GPU") and "`a`" in first and "`c`" in first and "`b`" not in first
    assert other.startswith("Other GPU") and "`b`" in other
    assert blocks["pairs"].index("On A:") < blocks["pairs"].index("| x |") < blocks["pairs"].index("On B:")
