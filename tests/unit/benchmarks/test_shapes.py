"""The draw of shapes keeps its rule, and does not move; its table shows what was measured."""

from __future__ import annotations

import json
import math

import pytest

from benchmarks.kernels.shapes import (
    DOCUMENT,
    DRAWS,
    LAYERS,
    MODELS,
    MOST_FLOP,
    RESULTS,
    SIZES,
    block,
    drawn,
    score,
)
from tests.helpers.markdown import formatted


@pytest.mark.parametrize("name", ["test", "tuning"])
def test_a_draw_keeps_the_rule(name):
    shapes = drawn(name)
    assert len(shapes) == DRAWS[name][1]
    for shape in shapes:
        assert 2 * math.prod(shape.values()) <= MOST_FLOP
        for dim, (lowest, highest, multiple) in SIZES.items():
            size = shape[dim]
            assert lowest <= size <= highest
            assert size % multiple == 0
            assert size & (size - 1)


@pytest.mark.parametrize("name", ["models", "models-tuning", "models-second", "models-third", "rows-tuning"])
def test_layers_of_models_are_drawn_and_a_quarter_of_them_is_odd(name):
    layers = {layer(*model) for layer in LAYERS.values() for model in MODELS.values()}
    shapes = drawn(name)
    assert len(shapes) == DRAWS[name][1]
    for index, shape in enumerate(shapes):
        most = 256 if name.startswith("rows") else 8192
        assert 2 * math.prod(shape.values()) <= MOST_FLOP and 1 <= shape["m"] <= most
        sizes = shape["n"], shape["k"]
        if index % 4 == 3:
            assert all(size % 8 == 0 and size % 64 for size in sizes)
            assert any(0 < n - sizes[0] < 64 and 0 < k - sizes[1] < 64 for n, k in layers)
        else:
            assert sizes in layers


def test_the_draws_are_what_they_were_and_share_nothing():
    assert drawn("test")[0] == {"m": 1272, "n": 6336, "k": 4608}
    assert drawn("tuning")[0] == {"m": 14416, "n": 1152, "k": 576}
    assert drawn("models")[0] == {"m": 9, "n": 12288, "k": 49152}
    assert drawn("models-tuning")[0] == {"m": 8, "n": 1536, "k": 8960}
    assert drawn("models-second")[0] == {"m": 48, "n": 22016, "k": 4096}
    assert drawn("models-third")[0] == {"m": 150, "n": 4608, "k": 4096}
    assert drawn("rows-tuning")[0] == {"m": 47, "n": 1152, "k": 896}
    learned = [shape for name in ("tuning", "models-tuning", "rows-tuning") for shape in drawn(name)]
    for scored in ("test", "models", "models-second", "models-third"):
        assert not [shape for shape in drawn(scored) if shape in learned]


def row(ratio: float, **more: object) -> dict[str, object]:
    parameters = {"tile_m": 176, "tile_n": 192, "schedule": "cooperative", "band": 2048}
    shape = {"m": 1272, "n": 6336, "k": 4608}
    return {"shape": shape, "parameters": parameters, "tflops": 700.4, "ratio": ratio, "library": "cuBLAS 13", **more}


def test_the_table_has_a_column_pair_a_device_and_its_score_counts_failures() -> None:
    failed = {"shape": row(1)["shape"], "parameters": {}, "error": "wrong"}
    devices = [
        {"device": "NVIDIA H100 80GB HBM3", "rows": [row(0.98), row(1.08)]},
        {"device": "NVIDIA H200", "rows": [row(1.01), failed]},
    ]
    text = block({"devices": devices})
    assert "- NVIDIA H100 80GB HBM3 with cuBLAS 13: geometric mean **1.029**, worst **0.980**, 1 of 2" in text
    assert "| m × n × k | chosen | H100 TFLOP/s | H100 ratio | H200 TFLOP/s | H200 ratio |" in text
    assert "| 1272×6336×4608 | tile_m=176 tile_n=192 schedule=cooperative | 700 | **0.980** | 700 | **1.010** |" in text
    assert "| 700 | **1.080** | – | failed |" in text
    assert score([row(0.98), failed]) == {
        "geometric_mean": 0.98,
        "worst": 0.98,
        "faster": 0,
        "shapes": 2,
        "failed": 1,
    }


@pytest.mark.parametrize("name", RESULTS)
def test_the_document_shows_the_committed_results(name: str) -> None:
    found = json.loads(RESULTS[name].read_text(encoding="utf-8"))
    assert formatted(block(found)) in DOCUMENT.read_text(encoding="utf-8")
