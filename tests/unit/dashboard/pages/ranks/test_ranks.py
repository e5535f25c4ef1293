"""The Ranks page: what it matches, what it says, and that texts of reports stay texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ncubble.analysis.compare.ranks import Program
from ncubble.analysis.compare.spreads import RankTime
from ncubble.dashboard.pages.addresses import RanksAddress, id_of
from ncubble.dashboard.pages.ranks import layout as ranks
from ncubble.profiling.ranks import Rank
from tests.helpers.dashboard_frames import HOSTILE


class Store:
    """As much of a store as the page reads."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def rows(self) -> list[dict[str, Any]]:
        return self._rows

    def progress(self) -> Any:
        return type("Progress", (), {"finished": True, "version": 1})


def row(path: str, launch: int, time: float | None, account: list[list[Any]] | None = None) -> dict[str, Any]:
    split = [["tensor_busy", 60.0], ["data_wait", 40.0]] if account is None else account
    return {
        "path": path, "launch": launch, "id": f"{'a' * 16}/{launch}", "kernel": HOSTILE, "name": HOSTILE, "label": "",
        "grid": "1,1,1", "block": None, "duration_ns": time, "tensor": 60.0, "dram": None, "account": split,
        "measured": None,
    }  # fmt: skip


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    told = {Path(f"/j/{n}"): Rank(n, 3, "RANK", HOSTILE) for n in range(3)}
    monkeypatch.setattr(ranks, "ranks_of", lambda paths: {path: told[path] for path in paths if path in told})
    rows = [row(f"/j/{n}", launch, 1000.0 + 500 * n * launch) for n in range(3) for launch in range(2)]
    return Store([*rows, row("/j/2", 5, None, []), row("/elsewhere", 0, 1.0)])


def texts(page: Any) -> str:
    return json.dumps(page.to_plotly_json(), default=lambda one: one.to_plotly_json(), ensure_ascii=False)


def test_the_launch_whose_ranks_lie_furthest_apart_is_shown_first(store: Store) -> None:
    shown = texts(ranks.layout(store, RanksAddress()))  # type: ignore[arg-type]
    assert "Rank 2 takes longest, 2.00 µs; the median is 1.50 µs and rank 0 is the fastest with 1.00 µs." in shown
    assert "1 of 3 launches are missing from the reports of some ranks." in shown
    other = RanksAddress(id_of(HOSTILE), 2)
    assert "have no durations" in texts(ranks.layout(store, other))  # type: ignore[arg-type]
    assert "No program has this address" in texts(ranks.layout(store, RanksAddress("0123456789ab")))  # type: ignore[arg-type]


def test_the_title_says_the_grid_once(store: Store) -> None:
    assert texts(ranks.layout(store, RanksAddress())).count("grid 1,1,1") == 1  # type: ignore[arg-type]
    for one in store.rows():
        one["label"] = "grid 1,1,1 × block 64,1,1"
    unnamed = texts(ranks.layout(Store(list(store.rows())), RanksAddress()))  # type: ignore[arg-type]
    assert "grid 1,1,1 × block 64,1,1 #1" in unnamed and "grid 1,1,1, 3 ranks" not in unnamed
    assert '"3 ranks"' in unnamed.replace("\\", "")


def test_texts_of_reports_stand_only_where_they_are_shown_as_text(store: Store) -> None:
    def walk(part: Any) -> None:
        for name, value in part.to_plotly_json()["props"].items() if hasattr(part, "to_plotly_json") else ():
            assert name in ("children", "aria-label") or HOSTILE not in json.dumps(value, default=lambda one: ""), name
            for one in value if isinstance(value, list) else [value]:
                walk(one)

    walk(ranks.layout(store, RanksAddress()))  # type: ignore[arg-type]


def test_without_ranks_the_page_says_how_to_record_them() -> None:
    assert "mpirun -n 4 ncubble profile" in texts(ranks.layout(Store([]), RanksAddress()))  # type: ignore[arg-type]


def test_bars_are_as_long_as_the_time_and_split_by_the_account() -> None:
    drawn = ranks.ranks_figure(
        {0: RankTime(2000.0, {"tensor_busy": 75.0, "tail": 25.0}), 4: RankTime(1000.0, {})}
    ).checked
    told = {trace.name: list(trace.x) for trace in drawn.data}
    assert told == {"tensor busy": [1.5, 0.0], "tail": [0.5, 0.0], "not split": [0.0, 1.0]}
    assert list(drawn.data[0].y) == ["rank 0", "rank 4"]
    many = ranks.ranks_figure({rank: RankTime(float(rank), {}) for rank in range(1, 100)})
    assert next(iter(many.checked.data[0].y)) == "rank 36"


@pytest.mark.parametrize("search", ["?program=XYZ&launch=-1", "program=" + "a" * 5000, "launch=99999999999", "", None])
def test_an_address_that_is_none_asks_for_nothing(search: str | None) -> None:
    assert RanksAddress.parse(search) == RanksAddress()


def test_rows_are_matched_anew_only_when_they_change(store: Store) -> None:
    found = ranks.matched.of(store)  # type: ignore[arg-type]
    assert found is ranks.matched.of(store)  # type: ignore[arg-type]
    [program] = found.programs
    assert isinstance(program, Program) and sorted(program.ranks) == [0, 1, 2]
    assert ranks.matched.of(Store([])).programs == []  # type: ignore[arg-type]


def test_measured_ranks_say_so_and_are_drawn_as_measured(store: Store) -> None:
    measured = [["tensor_busy", 60.0], ["data_wait", 35.0], ["remainder", 5.0]]
    for number, one in enumerate(store.rows()):
        one["measured"] = [*measured[:1], ["data_wait", 35.0 - number], ["remainder", 5.0 + number]]
    shown = texts(ranks.layout(store, RanksAddress()))  # type: ignore[arg-type]
    assert "% of the time, measured." in shown and "% measured, most on rank" in shown
    assert '"name": "remainder"' in shown.replace("\\", "")
