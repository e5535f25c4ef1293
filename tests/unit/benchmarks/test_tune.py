"""The search held against whole grids: the plan, the table, and the page."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.tune import TuneAdvice, TuneMove, space_of
from tests.helpers.fake_gpu import H200
from tests.helpers.tune_bench import PlayedBench, recorded_kernels


@pytest.fixture
def tune(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository))
    return importlib.import_module("benchmarks.tune.__main__")


def result(apart: float, launches: int) -> dict[str, Any]:
    search = {
        **{"from": "default", "start_us": 500.0, "found": {"stages": 4}, "apart_pct": apart, "launches": launches},
        **{"profiles": 2, "seconds": 12.3},
    }
    head = {"device": "H200", "driver": "580", "configurations": 24, "best": {"stages": 5}}
    return {"tensor_core_gemm": {**head, "searches": [search]}}


def test_the_kernels_were_named_have_grids_and_are_none_that_the_search_was_made_on(
    tune: ModuleType, repository: Path
) -> None:
    page = (repository / "docs" / "tune.md").read_text(encoding="utf-8").partition("<!-- generated: tune -->")[0]
    assert len(tune.PLAN) == 4 and not set(tune.PLAN) & set(recorded_kernels())
    for name in tune.PLAN:
        assert f"`{name}`" in page
        spec, searched = find_spec(name), tune.PLAN[name]
        held = {item.name: item.default for item in spec.parameters if searched and item.name not in searched}
        assert len(space_of(spec, {}, held, {}, H200).cases) >= 12


@pytest.mark.parametrize(
    ("apart", "launches", "said"),
    [
        (1.9, 8, "1 of 1 searches end within 2 % of the best of the grid, 1 of 1 at a third"),
        (2.1, 8, "0 of 1 searches end within 2 % of the best of the grid, 1 of 1 at a third"),
        (-0.3, 9, "1 of 1 searches end within 2 % of the best of the grid, 0 of 1 at a third"),
    ],
)
def test_the_sentence_says_whether_the_claim_holds(tune: ModuleType, apart: float, launches: int, said: str) -> None:
    text = tune.tables(result(apart, launches))
    assert said in text
    assert f"**{apart:+.1f} %** | {launches} of 24 (**{100 * launches / 24:.0f} %**)" in text
    assert "| `tensor_core_gemm` | default | 500.0 | stages=5 | stages=4 |" in text


class PlayedSubject(PlayedBench):
    """In place of the GPU: stages=5 is best, and a profile says so."""

    def __init__(self, *_: Any, **__: Any) -> None:
        advice = TuneAdvice("shallow_pipeline", (TuneMove("stages", (5,), "shallow pipeline 20 %"),))
        super().__init__(lambda parameters: 100.0 + abs(parameters["stages"] - 5) * 10.0, lambda parameters: advice)
        self.process, self.profiles = SimpleNamespace(close=lambda: None), True

    def device(self) -> Any:
        return H200

    def advise(self, case: Any) -> TuneAdvice | None:
        return super().advise(case) if self.profiles else None


@pytest.mark.parametrize(("seconds", "count"), [(600.0, 3), (-1.0, 0)])
def test_grid_and_searches_of_a_kernel_are_measured_and_written(
    tune: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seconds: float, count: int
) -> None:
    monkeypatch.setattr(tune, "GpuBench", PlayedSubject)
    monkeypatch.setattr(tune, "build", lambda case, arch: None)
    results = tune.measure(["tensor_core_gemm"], tmp_path / "tune.json", seconds)
    if not count:
        assert results == {}
        return
    assert json.loads((tmp_path / "tune.json").read_text(encoding="utf-8")) == results
    found = results["tensor_core_gemm"]
    assert found["best"]["stages"] == 5 and found["configurations"] == len(found["grid"]) == 24
    assert [(one["from"], one["profiles"]) for one in found["searches"]] == [
        *(("default", None), ("slowest", None)),
        ("slowest", 2),
    ]
    assert found["searches"][1]["start_us"] == 140.0
    assert all(one["launches"] <= 8 and one["apart_pct"] == 0.0 for one in found["searches"])
    text = tune.tables(results)
    assert "3 of 3 searches end within 2 %" in text
    assert "Not measured: `gemm_mma_swizzled`, its grid and all searches; `cluster_dsmem`" in text
    assert "`tensor_core_gemm` from" not in text


def test_what_the_rule_asks_for_and_was_not_measured_is_named(tune: ModuleType) -> None:
    results = result(1.9, 8)
    results["tensor_core_gemm"]["searches"][0]["profiles"] = None
    words = "Not measured: `tensor_core_gemm` from the slowest and the slowest with profiles; `gemm_mma_swizzled`, its"
    assert words in tune.tables(results)


def test_a_measured_grid_is_searched_again_from_every_start(tune: ModuleType, repository: Path) -> None:
    grid = json.loads(tune.RESULTS.read_text(encoding="utf-8"))["tensor_core_gemm"]
    text = tune.replayed(grid)
    assert text == "tensor_core_gemm: 14 of 24 starts end within 2 %, the worst 23.2 % away"
    page = (repository / "docs" / "tune.md").read_text(encoding="utf-8")
    assert "| `tensor_core_gemm` | 14 of 24 | 23.2 % |" in page


def test_the_page_is_what_the_measurements_give(tune: ModuleType, repository: Path) -> None:
    measured = json.loads(tune.RESULTS.read_text(encoding="utf-8"))
    page = (repository / "docs" / "tune.md").read_text(encoding="utf-8")
    assert list(measured) and set(measured) <= set(tune.PLAN)
    block = page.partition("<!-- generated: tune -->")[2].partition("<!-- end: tune -->")[0]
    plain = [re.sub(r"[\s|:-]+", " ", text).strip() for text in (block, tune.tables(measured))]
    assert plain[0] == plain[1], "run: python -m benchmarks.tune --write, then mdformat docs/tune.md"
