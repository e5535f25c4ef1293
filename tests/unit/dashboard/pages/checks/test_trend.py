"""Lasting changes on the Checks page: lines in the figure, the sentence, and the table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ncubble.analysis.gate.check import check
from ncubble.analysis.gate.verdicts import CheckOptions
from ncubble.analysis.history.checked import checks_of, of_metric, subjects
from ncubble.analysis.history.file import HistoryReader, append
from ncubble.analysis.history.rows import Occasion, rows
from ncubble.dashboard.pages.addresses import ChecksAddress
from ncubble.dashboard.pages.checks import layout as checks
from ncubble.dashboard.pages.checks import trend as checks_trend
from ncubble.dashboard.pages.checks.figures import HEIGHT, trend_figure
from ncubble.dashboard.pages.checks.trend import changes, in_words, lines, marks, trend_of
from tests.helpers import dashboard_frames as frames
from tests.helpers.gate_frames import STEADY_CYCLES, groups, recorded, report

WHEN = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)
HOSTILE = "<b>x</b>"


def made(folder: Path, tensor: Sequence[float], gpus: Sequence[str] = ()) -> Any:
    """Rows of tensor utilization and their trend, one check a day."""
    for day, mean in enumerate(tensor):
        manifest: dict[str, Any] = {"git": {"sha": f"{day + 1:040x}"[::-1], "dirty": False}}
        manifest["device"] = {"uuid": gpus[day]} if gpus else {}
        values = [mean + 0.03 * (day % 3) + 0.01 * i for i in range(5)]
        found = groups(report(values, STEADY_CYCLES, key=f"{day:016x}", manifest=manifest))
        result = check(found, recorded(report()), CheckOptions())
        append(folder, rows(result, Occasion(checked=WHEN + timedelta(days=day))))
    history = HistoryReader(folder).read()
    (subject,) = subjects(history)
    shown = of_metric(checks_of(history, subject), "tensor_elapsed_pct")
    return shown, trend_of(shown, subject)


def texts(component: Any) -> list[str]:
    if isinstance(component, str | int | float):
        return [str(component)]
    if isinstance(component, list | tuple):
        return [text for child in component for text in texts(child)]
    return texts(getattr(component, "children", None) or [])


def test_a_change_is_a_line_with_a_sign_and_its_size(tmp_path: Path) -> None:
    shown, trend = made(tmp_path, [43.0] * 6 + [42.0] * 6)
    (mark,) = marks(shown, trend)
    assert (mark.place, mark.text) == (6, "▼ -2.32 %")
    figure = trend_figure(shown, True, [mark])
    (line,) = figure.layout.shapes
    assert line.x0 == line.x1 == 6.5  # between the sixth check and the seventh
    assert "▼ -2.32 %" in [note.text for note in figure.layout.annotations]
    assert figure.layout.height > HEIGHT == trend_figure(shown, True).layout.height


def test_the_table_says_when_where_by_how_much_and_how_surely(tmp_path: Path) -> None:
    _, trend = made(tmp_path, [43.0] * 6 + [42.0] * 6)
    said = texts(changes(trend))
    assert "The level changed lastingly on 2026-09-07 at 7000000000 by -2.32 % (worse; confidence > 99.99 %)." in said
    assert "2026-09-07 12:00 UTC" in said and "7000000000 after 6000000000" in said
    assert any(text.startswith("-2.32 % (-2.") for text in said) and "level worse" in said


def test_a_new_gpu_is_named_and_not_called_a_change(tmp_path: Path) -> None:
    shown, trend = made(tmp_path, [43.0] * 6 + [42.0] * 6, ["GPU-a"] * 6 + ["GPU-b"] * 6)
    (mark,) = marks(shown, trend)
    assert mark.text == "new GPU" and mark.dash == "dot"
    assert in_words(trend) == "No lasting change over 12 checks."
    assert any("new GPU a → b" in line[1] for line in lines(trend))


def test_an_odd_check_is_listed_and_no_line(tmp_path: Path) -> None:
    shown, trend = made(tmp_path, [43.0] * 6 + [39.0] + [43.0] * 5)
    assert not marks(shown, trend)
    (line,) = lines(trend)
    assert line[1] == "one outlier; the next check is back at the level" and line[5] == "7000000000"


@pytest.mark.parametrize(("count", "said"), [(3, "at least 4 are needed"), (5, "No lasting change over 5 checks.")])
def test_no_change_is_said(tmp_path: Path, count: int, said: str) -> None:
    _, trend = made(tmp_path, [43.0] * count)
    assert said in in_words(trend) and not lines(trend)


def test_texts_of_lines_that_stand_close_lie_in_rows() -> None:
    style = checks_trend.BOUNDARY
    found = [checks_trend.Mark(place, HOSTILE, style, "dot") for place in (1, 2, 3, 90)]
    edges = trend_edges(100)
    assert checks_trend._rows(found, edges) == [0, 1, 2, 0]
    assert checks_trend.room_of([], edges) == 0 < checks_trend.room_of(found, edges)


def trend_edges(count: int) -> Any:
    import numpy as np

    return np.arange(count + 1, dtype=float)


def test_text_of_a_history_stays_text(tmp_path: Path) -> None:
    shown, trend = made(tmp_path, [43.0] * 12, [HOSTILE] * 6 + ["GPU-b"] * 6)
    figure = json.loads(trend_figure(shown, False, marks(shown, trend)).to_json())
    assert HOSTILE not in json.dumps(figure)
    assert any(HOSTILE in text for text in texts(changes(trend)))  # a string child: React escapes it


def test_the_page_shows_them(tmp_path: Path) -> None:
    made(tmp_path / "checks", [43.0] * 6 + [42.0] * 6)
    store = frames.store(tmp_path)
    store.checks = tmp_path / "checks"
    (subject,) = subjects(HistoryReader(store.checks).read())
    said = texts(checks.layout(store, ChecksAddress.parse(f"?kernel={subject.kernel}&metric=tensor_elapsed_pct")))
    assert any("changed lastingly on 2026-09-07" in text for text in said)
    said = texts(checks.layout(store, ChecksAddress.parse(f"?kernel={subject.kernel}&metric=dram_pct")))
    assert "No lasting change over 12 checks." in said
