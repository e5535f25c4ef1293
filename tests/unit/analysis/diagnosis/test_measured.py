"""What an ablation says of the first cause, in words."""

import math
from dataclasses import replace

import pytest

from ncubble.analysis.ablation.result import MeasuredPart
from ncubble.analysis.diagnosis.measured import differs, measured_sentence
from ncubble.analysis.diagnosis.verdict import Cause
from tests.helpers.ablations import ablation
from tests.helpers.dashboard_frames import verdict

REST = MeasuredPart("rest", None, 40.0, math.nan, None)


def part(name: str, measured: float, se: float = 0.1) -> MeasuredPart:
    return MeasuredPart(name, 5.0, measured, se, None)


@pytest.mark.parametrize(
    ("parts", "said", "other"),
    [
        ([part("data_wait", 30.0)], "data wait is the largest cost, 30.0 ± 0.1 % of the time, as estimated.", False),
        (
            [part("copy_cost", 20.0), part("data_wait", 9.0)],
            "copy cost is the largest cost, 20.0 ± 0.1 % of the time. The estimate puts data wait first, "
            "which measures 9.0 ± 0.1 %.",
            True,
        ),
        (
            [part("sync_wait", 20.0), part("data_wait+copy_cost", 9.0)],
            "sync wait is the largest cost, 20.0 ± 0.1 % of the time. The estimate puts data wait first, "
            "which measures 9.0 ± 0.1 % with copy cost.",
            True,
        ),
        (
            [part("copy_cost", 9.2), part("data_wait", 9.0)],
            "copy cost is the largest cost, 9.2 ± 0.1 % of the time; data wait, first by estimate, "
            "is as large within the noise.",
            False,
        ),
        (
            [part("data_wait+copy_cost", 38.0), part("epilogue", 2.0)],
            "data wait and copy cost is the largest cost, 38.0 ± 0.1 % of the time, as estimated.",
            False,
        ),
        (
            [part("epilogue", 2.0, math.nan), REST],
            "of the removed parts epilogue is the largest cost, 2.0 % of the time.",
            False,
        ),
        ([part("data_wait", 0.9), REST], "no removed part costs 1 % of the time.", False),
        ([], "no removed part costs 1 % of the time.", False),
    ],
)
def test_measurement_names_its_first_cause(parts: list[MeasuredPart], said: str, other: bool) -> None:
    judged, measured = verdict("gemm", 30.0, "data_wait", causes=[Cause("data_wait", None, 9.0)]), ablation(parts)
    assert measured_sentence(judged, measured) == f"Measured by ablation (machine code, 5 rounds): {said}"
    assert differs(judged, measured) == other


def test_results_that_differ_are_said() -> None:
    measured = replace(ablation([part("data_wait", 30.0)]), faithful=False)
    said = measured_sentence(verdict("gemm", 30.0, "data_wait"), measured)
    assert "(machine code, 5 rounds; the replay's results differ from the program's): " in said
