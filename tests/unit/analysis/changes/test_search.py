"""Which changes are tried, what is left out, and what a timing says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ncubble.analysis.changes.search import Check, Knob, Refusal, Search
from ncubble.analysis.changes.tried import (
    DIFFERS,
    FAILED,
    FILE,
    LEFT,
    OK,
    REFUSED,
    SPILLS,
    Built,
    Settings,
    Tried,
    TriedChange,
    gain,
)
from ncubble.errors import MeasurementError, ReportError


@dataclass
class PlayedBench:
    """A kernel whose time is a function of stages and warps."""

    base: Settings = field(default_factory=lambda: {"stages": 2, "warps": 4})
    knobs: Sequence[Knob] = (Knob("stages", "stages", (1, 2, 3, 4)), Knob("warps", "warps", (2, 4, 8)))
    built: Mapping[tuple[int, int], Built | Refusal] = field(default_factory=dict)
    checked: Mapping[tuple[int, int], Check | Refusal] = field(default_factory=dict)
    sm_mhz: int = 1980
    most_rounds: int = 15

    def build(self, variants: Sequence[Settings]) -> list[Built | Refusal]:
        return [self.built.get(self._key(one), Built(100, 0, 1024)) for one in variants]

    def check(self, settings: Settings) -> Check | Refusal:
        return self.checked.get(self._key(settings), Check(0.0))

    def time(self, variants: Sequence[Settings], rounds: int) -> list[list[float]]:
        return [[self._us(*self._key(one))] * rounds for one in variants]

    @staticmethod
    def _key(settings: Settings) -> tuple[int, int]:
        return int(settings["stages"]), int(settings["warps"])

    @staticmethod
    def _us(stages: int, warps: int) -> float:
        return 100.0 - 10.0 * min(stages, 3) + 5.0 * abs(warps - 8)


def searched(bench: PlayedBench, **more: object) -> Search:
    search = Search(**more)  # type: ignore[arg-type]
    search.run(bench)
    return search


def changes(search: Search) -> dict[str, TriedChange]:
    return {f"{change.name}={change.after}": change for change in search.rounds[0].changes}


def test_every_single_change_is_made_once_and_the_best_is_named() -> None:
    search = searched(PlayedBench())
    assert list(changes(search)) == ["stages=1", "stages=3", "stages=4", "warps=2", "warps=8"]
    best = search.rounds[0].best
    assert best is not None
    assert (best.name, best.after, best.gain_pct) == ("warps", 8, pytest.approx(20.0))
    assert changes(search)["warps=2"].gain_pct == pytest.approx(-10.0)
    assert search.stopped == "every single change was tried"


def test_the_best_change_becomes_the_base_until_none_gains() -> None:
    search = searched(PlayedBench(), repeat=True)
    assert [dict(made.settings) for made in search.rounds] == [
        {"stages": 2, "warps": 4},
        {"stages": 2, "warps": 8},
        {"stages": 3, "warps": 8},
    ]
    assert search.stopped == "no change gains 1 %"


def test_what_spills_more_or_does_not_fit_or_differs_is_said_and_not_timed() -> None:
    search = searched(
        PlayedBench(
            built={(3, 4): Built(255, 64, 1024), (4, 4): Refusal("OutOfResources: shared memory")},
            checked={
                (2, 2): Check(0.5),
                (1, 4): Check(0.0, "it writes beyond its tensors"),
                (2, 8): Refusal("a fault"),
            },
        )
    )
    told = {name: (change.outcome, change.gain_pct) for name, change in changes(search).items()}
    assert told == {
        "stages=1": (DIFFERS, None),
        "stages=3": (SPILLS, None),
        "stages=4": (REFUSED, None),
        "warps=2": (DIFFERS, None),
        "warps=8": (FAILED, None),
    }
    assert changes(search)["warps=2"].why == "results differ by 0.5 of the largest value"
    assert search.rounds[0].best is None


def test_rounding_is_no_difference() -> None:
    search = searched(PlayedBench(checked={(3, 4): Check(0.004)}))
    assert changes(search)["stages=3"].outcome == OK


def test_settings_that_ended_the_program_are_not_tried_again() -> None:
    search = searched(PlayedBench(), lost=[{"stages": 3, "warps": 4}])
    assert changes(search)["stages=3"].outcome == FAILED


def test_a_base_that_cannot_be_launched_is_an_error() -> None:
    with pytest.raises(MeasurementError, match="the base itself: a fault"):
        searched(PlayedBench(checked={(2, 4): Refusal("a fault")}))


def test_after_the_budget_nothing_new_begins() -> None:
    search = searched(PlayedBench(), budget_s=-1.0)
    assert {change.outcome for change in search.rounds[0].changes} == {LEFT}
    assert search.stopped == "the time was up"


def test_an_interrupt_keeps_what_was_timed() -> None:
    class Interrupted(PlayedBench):
        calls = 0

        def time(self, variants: Sequence[Settings], rounds: int) -> list[list[float]]:
            self.calls += 1
            if self.calls == stops_at:
                raise KeyboardInterrupt
            return super().time(variants, rounds)

    kept = {}
    for stops_at in (2, 3):  # the first call warms up
        search = Search()
        with pytest.raises(KeyboardInterrupt):
            search.run(Interrupted())
        search.keep_open_round()
        kept[stops_at] = [changes(search)["stages=3"].gain_pct] if search.rounds else []
    assert kept == {2: [], 3: [pytest.approx(10.0)]}


def test_a_gain_is_the_median_of_ratios_and_its_interval_shrinks_with_the_noise() -> None:
    middle, low, high = gain([100.0, 110.0, 90.0, 100.0, 105.0], [80.0, 88.0, 72.0, 80.0, 84.0])
    assert (middle, low, high) == pytest.approx((20.0, 20.0, 20.0))
    middle, low, high = gain([100.0] * 5, [80.0, 70.0, 90.0, 75.0, 85.0])
    assert middle == pytest.approx(20.0)
    assert low < middle < high


def tried(search: Search) -> Tried:
    return Tried(kernel="gemm", language="triton", device="GPU", compared="its own", rounds=search.rounds)


def test_the_elites_are_the_fastest_of_all_rounds_relative_to_the_first_base() -> None:
    elites = tried(searched(PlayedBench(), repeat=True)).elites
    assert [dict(settings) for _, settings in elites] == [
        {"stages": 3, "warps": 8},
        {"stages": 4, "warps": 8},
        {"stages": 2, "warps": 8},
    ]
    assert elites[0][0] == pytest.approx(30.0)


def test_a_saved_run_is_read_back(tmp_path: Path) -> None:
    made = tried(searched(PlayedBench(built={(4, 4): Refusal("no")})))
    made.save(tmp_path)
    assert Tried.load(tmp_path) == made
    assert Tried.load(tmp_path / "none") is None


@pytest.mark.parametrize("content", ["", "{}", '{"kernel": 3}', "[]"])
def test_a_damaged_file_is_an_error(content: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(ReportError, match="cannot be read"):
        Tried.load(tmp_path)
