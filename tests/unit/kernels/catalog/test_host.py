"""Specs of pipelines that the host drives: their references, and what is too little or too much."""

from __future__ import annotations

import numpy as np
import pytest

from ncubble.kernels.catalog.host import EVENT_GRAPH, KV_LAYERS, WARP_PIPELINE
from ncubble.kernels.run.verify import draw_inputs
from ncubble.kernels.spec.case import make_case


def test_layers_attend_to_the_tokens_up_to_their_own():
    case = make_case(KV_LAYERS, {"layers": 4}, {"tokens": 5, "batch": 2})
    inputs = draw_inputs(case, 0)
    x = inputs["x"].astype(np.float64)
    for _ in range(4):
        y = np.empty_like(x)
        for token in range(5):
            for batch in range(2):
                for head in range(0, 1024, 64):
                    part = slice(head, head + 64)
                    keys = x[: token + 1, batch, part]
                    weights = np.exp(keys @ x[token, batch, part] / 8)
                    y[token, batch, part] = weights @ keys / weights.sum()
        x = y
    np.testing.assert_allclose(case.reference(inputs, np.array([0, 4]))["y"], x[[0, 4]], atol=1e-12)


def test_a_token_too_few_is_outside_the_tolerance():
    case = make_case(KV_LAYERS, {}, {"tokens": 6, "batch": 2})
    inputs = draw_inputs(case, 0)
    right = case.reference(inputs, np.array([5]))["y"]
    less = case.reference({"x": np.concatenate([inputs["x"][:4], inputs["x"][5:]])}, np.array([4]))["y"]
    assert (np.abs(right - less) > case.tolerance.absolute).mean() > 0.9


@pytest.mark.parametrize("work", [512, 2048])
def test_a_step_too_many_of_the_pipeline_or_an_input_that_lacks_is_seen(work):
    case = make_case(WARP_PIPELINE, {"work": work}, {"n": 4096})
    inputs, rows = draw_inputs(case, 1), np.arange(4096)
    right = case.reference(inputs, rows)["c"]
    without = case.reference({**inputs, "a": np.zeros_like(inputs["a"])}, rows)["c"]
    assert (np.abs(right - without) > case.tolerance.absolute).mean() > 0.9


def test_results_of_the_event_graph_are_of_both_paths():
    case = make_case(EVENT_GRAPH, {}, {"n": 4})
    found = case.reference({"x": np.arange(4), "w": np.ones(4)}, np.array([1, 3]))
    assert found["y"].tolist() == [8, 24] and found["z"].tolist() == [8, 8]


def test_launches_of_a_pipeline_see_a_chunk():
    case = make_case(WARP_PIPELINE, {"chunk": 1}, {"n": 5 * 2**18 + 1024})
    assert (case.launches, case.grid) == (6, (132, 1, 1))
    assert case.grid_on(10) == (10, 1, 1)
