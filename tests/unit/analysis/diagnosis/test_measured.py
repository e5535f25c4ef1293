"""What an ablation says of the first cause, in words."""

from dataclasses import replace

import pytest

from ncubble.analysis.ablation.result import MeasuredPart
from ncubble.analysis.diagnosis.verdict import Cause
from ncubble.analysis.diagnosis.words import as_measured, differs, largest_part, measured_sentence, sentence
from tests.helpers.ablations import REST, ablation
from tests.helpers.dashboard_frames import verdict


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
            "is equally large within the noise.",
            False,
        ),
        (
            [part("data_wait+copy_cost", 38.0), part("epilogue", 2.0)],
            "data wait and copy cost is the largest cost, 38.0 ± 0.1 % of the time, as estimated.",
            False,
        ),
        (
            [part("epilogue", 2.0, None), REST],
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


WAIT, COPY = (
    Cause("data_wait", "single_buffer", 9.0, fix="go deeper", predicted_gain_pct=8.0),
    Cause("copy_cost", None, 4.0),
)


@pytest.mark.parametrize(
    ("parts", "causes"),
    [
        ([part("data_wait", 30.0)], [("data_wait", 30.0, True, 8.0), ("copy_cost", 4.0, False, None)]),
        (
            [part("copy_cost", 20.0), part("data_wait", 9.0)],
            [("copy_cost", 20.0, True, None), ("data_wait", 9.0, True, 8.0)],
        ),
        (
            [part("copy_cost", 9.2), part("data_wait", 9.0)],  # within the noise
            [("data_wait", 9.0, True, 8.0), ("copy_cost", 9.2, True, None)],
        ),
        ([part("data_wait+copy_cost", 38.0)], [("data_wait+copy_cost", 38.0, True, 8.0)]),
        (
            [part("sync_wait", 10.0)],  # what is first by estimate was not removed, and is smaller
            [("sync_wait", 10.0, True, None), ("data_wait", 9.0, False, 8.0), ("copy_cost", 4.0, False, None)],
        ),
        ([part("sync_wait", 8.0)], [("data_wait", 9.0, False, 8.0), ("copy_cost", 4.0, False, None)]),
    ],
)
def test_measured_causes_stand_in_place_of_estimated_ones(
    parts: list[MeasuredPart], causes: list[tuple[str, float, bool, float | None]]
) -> None:
    judged = as_measured(verdict("gemm", 30.0, "data_wait", causes=[WAIT, COPY]), ablation(parts))
    found = [(cause.cause, cause.pct, cause.measured, cause.predicted_gain_pct) for cause in judged.causes]
    assert found == causes and judged.cause == causes[0][0]
    assert ("measured" in sentence(judged)) == causes[0][2]


def test_a_verdict_that_names_no_part_stays() -> None:
    measured = ablation([part("copy_cost", 20.0), part("data_wait", 9.0)])
    for cause in ("none", "memory_bound", "no_tensor_work"):
        judged = as_measured(verdict("gemm", 30.0, cause, causes=[WAIT, COPY]), measured)
        assert (judged.cause, judged.causes[0].cause) == (cause, "copy_cost")
    alone = verdict("gemm", 30.0, "none", causes=[])
    assert as_measured(alone, measured).cause == "none" and as_measured(alone, None) is alone


def test_the_largest_part_is_measured_where_it_was_removed() -> None:
    account = {"tensor_busy": 60.0, "issue": 25.0, "data_wait": 15.0}
    assert largest_part(account, None) == ("issue", 25.0, False)
    assert largest_part(account, ablation([part("data_wait", 30.0), REST])) == ("data_wait", 30.0, True)
    assert largest_part(account, ablation([part("data_wait", 5.0)])) == ("issue", 25.0, False)
    assert largest_part(account, ablation([part("data_wait+copy_cost", 38.0)])) == ("data_wait+copy_cost", 38.0, True)
    assert largest_part(None, None) is None
