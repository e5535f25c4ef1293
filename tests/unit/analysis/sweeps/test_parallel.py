"""Lines of parallel coordinates: which configurations and axes there are, and in which order."""

from __future__ import annotations

import pytest

from ncubble.analysis.sweeps.parallel import (
    CYCLES,
    LACKING,
    MOST_COORDINATES,
    MOST_LINES,
    ParallelCoordinates,
    parallel_coordinates,
)
from tests.helpers.sweep_rows import row


def names(drawn: ParallelCoordinates | None) -> list[str]:
    assert drawn is not None
    return [axis.name for axis in drawn.axes]


def test_axes_are_the_coordinates_that_differ_then_what_was_measured() -> None:
    rows = [row(i, 1e5 - i, stages=1 + i % 2, vec=4 + 4 * (i // 2)) for i in range(4)]
    assert names(parallel_coordinates(rows)) == ["stages", "vec", "time", "busy", "data_wait", "issue"]
    assert names(parallel_coordinates(rows, took=CYCLES, first="vec"))[:3] == ["vec", "stages", "cycles"]


def test_launches_that_differ_in_one_coordinate_or_hold_no_measurement_are_not_drawn() -> None:
    assert parallel_coordinates([row(i, stages=i) for i in range(4)]) is None
    assert parallel_coordinates([]) is None
    bare = [row(i, None, stages=i % 2, vec=i, busy=None, account=None) for i in range(4)]
    assert parallel_coordinates(bare) is None
    both = [row(i, stages=i % 2, vec=i // 2) for i in range(4)]
    assert parallel_coordinates(both, fixed=[("vec", "0")]) is None


def test_a_line_is_a_configuration_the_fastest_first_at_the_mean_of_its_repeats() -> None:
    rows = [row(0, 3e5, stages=1, vec=4), row(1, 1e5, stages=2, vec=8), row(2, 2e5, stages=2, vec=8)]
    drawn = parallel_coordinates(rows)
    assert drawn is not None and [len(line.rows) for line in drawn.lines] == [2, 1]
    time = next(axis for axis in drawn.axes if axis.name == "time")
    assert time.at == (1.5e5, 3e5) and drawn.tones(7) == [0, 6] and drawn.color == "time"


def test_texts_stand_in_order_at_even_distances_and_what_lacks_a_coordinate_says_so() -> None:
    values = ({"path": "tma", "t": "128x64"}, {"path": "async", "t": "64x64"}, {"t": "256x64"})
    drawn = parallel_coordinates([row(i, 1e5 + i, parameters=given) for i, given in enumerate(values)])
    assert drawn is not None
    path, tile = drawn.axes[:2]
    assert path.ticks == ("async", LACKING, "tma") and path.at == (2.0, 0.0, 1.0)
    assert tile.ticks == ("64x64", "128x64", "256x64") and [tile.share(at) for at in tile.at] == [0.5, 0.0, 1.0]


def test_dimensions_that_are_equal_in_each_launch_are_one_axis() -> None:
    cubes = [row(i, stages=i, dims={"m": 512 << i, "k": 512 << i}) for i in range(3)]
    assert names(parallel_coordinates(cubes))[:2] == ["stages", "k=m"]
    cubes.append(row(9, stages=9, dims={"m": 1, "k": 2}))
    assert names(parallel_coordinates(cubes))[:3] == ["stages", "k", "m"]


def test_what_few_launches_measured_is_no_axis_and_a_gap_in_the_others_is_counted() -> None:
    rows = [row(i, 1e5 + i, stages=i % 2, vec=i // 2) for i in range(6)]
    rows[5] |= {"busy": None}
    drawn = parallel_coordinates(rows)
    assert drawn is not None and drawn.lacking == 1 and len(drawn.lines) == 5
    without = [each | {"busy": None} if index else each for index, each in enumerate(rows)]
    assert "busy" not in names(parallel_coordinates(without))
    untimed = [each | {"duration_ns": None, "busy": 10.0 * index} for index, each in enumerate(rows[:4])]
    drawn = parallel_coordinates(untimed)
    assert drawn is not None and drawn.color == "busy" and drawn.tones(2) == [0, 0, 1, 1]


def test_many_lines_and_coordinates_are_cut_and_counted() -> None:
    many = parallel_coordinates([row(i, 1e5 + i, stages=i % 20, vec=i // 20) for i in range(MOST_LINES + 60)])
    assert many is not None and (len(many.lines), many.beyond) == (MOST_LINES, 60)
    wide = [row(i, parameters={f"p{at}": i + at for at in range(MOST_COORDINATES + 2)}) for i in range(3)]
    drawn = parallel_coordinates(wide)
    assert drawn is not None and drawn.left_out == ("p8", "p9")


def test_equal_values_stand_in_the_middle_of_their_axis() -> None:
    drawn = parallel_coordinates([row(i, stages=i, vec=i) for i in range(2)])
    assert drawn is not None
    busy = next(axis for axis in drawn.axes if axis.name == "busy")
    assert busy.ends == (59.5, 60.5) and [busy.share(at) for at in busy.at] == pytest.approx([0.5, 0.5])
