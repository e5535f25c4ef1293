"""The search held against whole grids: the plan, the table, and the page."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.tuning.space import space_of
from tests.helpers.fake_gpu import H200
from tests.helpers.tune_bench import recorded_kernels


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
        assert len(space_of(find_spec(name), {}, {}, {}, H200).cases) >= 12


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


def test_the_page_is_what_the_measurements_give(tune: ModuleType, repository: Path) -> None:
    if not tune.RESULTS.is_file():
        pytest.skip("docs/validation/tune.json is not there: nothing was measured yet")
    measured = json.loads(tune.RESULTS.read_text(encoding="utf-8"))
    page = (repository / "docs" / "tune.md").read_text(encoding="utf-8")
    assert list(measured) and set(measured) <= set(tune.PLAN)
    block = page.partition("<!-- generated: tune -->")[2].partition("<!-- end: tune -->")[0]
    plain = [re.sub(r"[\s|:-]+", " ", text).strip() for text in (block, tune.tables(measured))]
    assert plain[0] == plain[1], "run: python -m benchmarks.tune --write, then mdformat docs/tune.md"
