"""The judgement on repeats at the edges, where a percentage does not exist."""

import pytest

from ncubble.analysis.gate.bisect.judging import weigh
from ncubble.analysis.gate.noise.metrics import BY_NAME
from ncubble.analysis.gate.noise.noise import Sample

TENSOR = BY_NAME["tensor_elapsed_pct"]
GOOD, NONE = Sample((50.0, 50.1, 49.9)), Sample((0.0, 0.0, 0.0))


@pytest.mark.parametrize(("candidate", "verdict"), [(GOOD, "good"), (NONE, "bad")])
def test_a_kernel_that_lost_its_tensor_instructions_is_judged(candidate, verdict):
    assert weigh(GOOD, candidate, NONE, TENSOR, 100.0).verdict == verdict
