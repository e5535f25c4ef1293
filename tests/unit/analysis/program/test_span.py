"""Which time counts: ranges, the profiler's window, the steady state, all but first launches."""

import numpy as np
import pandas as pd
import pytest

from ncubble.analysis.program.account import program_work
from ncubble.analysis.program.span import DEEPEST, SpanChoice, measured_span, named, paths, range_rows, windows_of
from ncubble.errors import MeasurementError
from tests.helpers.stream_frames import Script


def span(script, **choice):
    recording = script.recording()
    return measured_span(recording.rows, program_work(recording).of(1, 0), 1, SpanChoice(**choice))


def in_us(windows):
    return [(start / 1e3, end / 1e3) for start, end in windows]


def steps(count, slow=0):
    """Steps of two kernels in 100 us, the first ``slow`` of them in 400."""
    script, at = Script(), 1000.0
    script.row("kernel", "fill", 10, 20, stream=1)
    for step in range(count):
        length = 400 if step < slow else 100
        script.row("range", "step", at, at + length - 5, thread=5)
        script.kernel(at + 1, at + 10, at + 50, flags=256 | 1 << 11 | 1 << 22, source=4, target=1 | 1 << 16)
        script.kernel(at + 4, at + 50, at + 60, flags=64 | 1 << 11 | 1 << 22, source=1, target=1 | 1 << 16)
        at += length
    return script


def test_the_steady_state_counts_without_what_is_slower_at_its_start():
    found = span(steps(8, slow=2))
    assert in_us(found.windows) == [(1810.0, 2310.0)]
    assert (found.steady.period, found.steady.repeats) == (2, 5)
    assert found.rule == "5 repetitions of 2 launches; 2 slower before them left out"
    assert [(what.partition(":")[0], ns / 1e3) for what, ns in found.excluded] == [
        ("before the first work of the GPU", 10.0),
        ("from the first work to the span", 1000.0),
        ("of slower repetitions before the span", 800.0),
        ("after the span", 50.0),
    ]


def test_only_the_same_work_before_the_span_is_called_warm_up():
    """A load of weights half a second before two steps is none; ranges that were slower are."""
    script = Script()
    script.kernel(0, 10, 20)
    for at in (500_000.0, 500_100.0, 500_200.0):
        script.kernel(at, at + 10, at + 60, source=4)
        script.kernel(at, at + 60, at + 90, source=8)
    shown = (span(script), span(script, skip_first=1), span(steps(4), nvtx="step", skip_first=1))
    assert not any("warm-up" in what for found in shown for what, _ in found.excluded)
    slower = ("of slower repetitions before the span: warm-up", 400_000)
    assert slower in span(steps(4, slow=1), nvtx="step").excluded


@pytest.mark.parametrize(
    ("lengths", "repeats", "rule"),
    [
        ((50, 50), 2, "2 repetitions of 2 launches"),
        ((50, 400), None, ": 2 repetitions of 2 launches (90.0 µs to 440 µs each) are no steady state"),
        ((400, 50), None, ": 2 repetitions of 2 launches (90.0 µs to 440 µs each) are no steady state"),
        ((400, 50, 50), 2, "2 repetitions of 2 launches; 1 slower before them left out"),
        ((50, 50, 50, 50, 400, 50), 5, "5 repetitions of 2 launches (100 µs to 450 µs each)"),
    ],
)
def test_few_repetitions_must_agree_and_a_spread_is_told(lengths, repeats, rule):
    script, at = Script(), 1000.0
    for length in lengths:
        script.kernel(at, at + 10, at + 30, source=4)
        script.kernel(at, at + length + 20, at + length + 50, source=8)
        at += length + 50
    found = span(script)
    assert rule in found.rule
    assert (found.steady and found.steady.repeats) == repeats


def test_steps_of_changing_shapes_repeat_by_the_names_of_their_kernels():
    script = Script()
    for step in range(8):
        at = 1000.0 + 100 * step
        for name, begin, grid in (("gather", 10, 4 + step), ("product", 40, 8), ("scatter", 70, 9 * step + 1)):
            script.kernel(at + begin - 8, at + begin, at + begin + 20, flags=64 | 1 << 11 | 1 << 22, source=grid)
            script.rename(name)
    found = span(script)
    assert (found.steady.period, found.steady.repeats) == (3, 7)
    assert in_us(found.windows) == [(1010.0, 1710.0)]


def test_ranges_of_a_name_count_from_the_end_of_the_work_before_them():
    found = span(steps(4, slow=1), nvtx="step")
    assert found.rule == "3 ranges 'step'; 1 slower before them left out"
    assert in_us(found.windows) == [(1400.0, 1495.0), (1500.0, 1595.0), (1600.0, 1695.0)]
    assert in_us(span(steps(4, slow=1), nvtx="step/", skip_first=2).windows) == [(1500.0, 1595.0), (1600.0, 1695.0)]


def test_a_range_that_the_gpu_reaches_late_counts_where_the_gpu_is():
    script = Script()
    script.kernel(0, 5, 100)
    script.row("range", "step", 10, 20, thread=5)
    script.kernel(12, 100, 150)
    script.row("range", "step", 20, 30, thread=5)
    script.kernel(22, 155, 180)
    assert in_us(span(script, nvtx="step").windows) == [(100.0, 150.0), (150.0, 180.0)]


def test_stretches_within_and_across_each_other_are_counted_once():
    script = steps(3)
    work = program_work(script.recording()).of(1, 0)
    outer, inner = (1_000_000, 1_290_000), (1_100_000, 1_180_000)
    assert windows_of([outer, inner], work) == ((1_000_000, 1_290_000),)
    assert windows_of([(0, 1), (5_000_000, 6_000_000)], work) == ()


def test_a_range_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(MeasurementError, match="no range is named 'stp'") as refused:
        span(steps(2), nvtx="stp")
    assert refused.value.remedy == "ranges that were recorded: 'step'"
    bare = Script()
    bare.kernel(0, 5, 10)
    with pytest.raises(MeasurementError, match="named 'step'") as refused:
        span(bare, nvtx="step")
    assert "no range was recorded" in refused.value.remedy
    bare.row("range", "idle", 20, 30)
    with pytest.raises(MeasurementError, match="the GPU did nothing in the range 'idle'"):
        span(bare, nvtx="idle")
    with pytest.raises(MeasurementError, match="--skip-first 9: there are 2"):
        span(steps(2), nvtx="step", skip_first=9)


def test_the_profilers_window_counts_from_its_first_work_to_its_last():
    script = Script()
    script.kernel(0, 5, 10)
    script.call("cudaProfilerStart", 20, 21)
    script.kernel(30, 40, 50)
    script.kernel(45, 60, 70)
    script.call("cudaProfilerStop", 65, 66)
    script.kernel(80, 90, 99)
    assert in_us(span(script).windows) == [(40.0, 70.0)]
    assert in_us(span(script, whole=True).windows) == [(5.0, 99.0)]
    assert in_us(span(script, skip_first=2).windows) == [(60.0, 99.0)]
    with pytest.raises(MeasurementError, match="4 launches"):
        span(script, skip_first=4)


def test_without_a_repeating_sequence_everything_counts_and_that_is_said():
    script = Script()
    script.kernel(0, 5, 10)
    found = span(script)
    assert in_us(found.windows) == [(5.0, 10.0)]
    assert "no sequence of launches repeats" in found.rule


@pytest.mark.parametrize(
    ("pushed", "launches", "expected"),
    [
        # Launches belong to the ranges around them, and of threads without any to the last begun.
        (
            [("step", 0, 100, 5), ("mine@forward", 10, 30, 5), ("a/b", 40, 60, 6), ("all", 90, 200, 0)],
            [(5, 5), (20, 5), (45, 5), (45, 6), (50, 7), (95, 5), (150, 5), (300, 5)],
            ["step", "step/mine@forward", "step", "a|b", "a|b", "step/all", "all", ""],
        ),
        # Ranges of a library lie within those of the thread that began last.
        (
            [("step", 0, 100, 5), ("backward", 40, 90, 5), ("CCCL@sort", 50, 60, 6), ("own", 70, 80, 6)],
            [(55, 6), (75, 6), (95, 6)],
            ["step/backward/CCCL@sort", "own", "step"],
        ),
        ([("empty", 10, 10, 5)], [(10, 5), (20, 5)], ["", ""]),
        # Ranges that are never popped do not nest without end.
        (
            [(f"r{number}", number, 500, 5) for number in range(100)],
            [(200, 5)],
            ["/".join(f"r{number}" for number in range(DEEPEST))],
        ),
    ],
)
def test_launches_have_the_path_of_the_ranges_that_they_were_queued_in(pushed, launches, expected):
    script = Script()
    for name, start, end, thread in pushed:
        script.row("range", name, start, end, thread=thread)
    queued, threads = (np.array(column) for column in zip(*launches, strict=True))
    assert paths(range_rows(script.recording().rows, 1), queued * 1000, threads) == expected


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("step *", ["step 1", "torch@step 2"]),
        ("step 1", ["step 1"]),
        ("step 2/", ["torch@step 2"]),
        ("torch@*", ["torch@step 2"]),
        ("step .", []),
        ("*", ["step 1", "torch@step 2", "load"]),
    ],
)
def test_a_star_stands_for_any_text_in_the_name_of_a_range(wanted: str, names: list[str]) -> None:
    ranges = pd.DataFrame({"name": ["step 1", "torch@step 2", "load"]})
    assert named(ranges, wanted)["name"].tolist() == names
