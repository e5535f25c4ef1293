"""Results that are made before they are asked for."""

from __future__ import annotations

import threading
from concurrent.futures import wait

import pytest

from ncubble.dashboard.data import ahead
from ncubble.dashboard.data.ahead import MOST, Ahead


def settled(results: Ahead) -> None:
    wait([future for _, future in results._begun.values()], 10)


def test_what_was_begun_is_taken_once() -> None:
    made, results = list[str](), Ahead()
    results.begin("a", lambda: made.append("ahead") or "ahead")
    settled(results)
    assert results.take("a", lambda: "now") == "ahead" and made == ["ahead"]
    assert results.take("a", lambda: "now") == "now"


def test_what_is_being_made_is_waited_for_and_what_waits_is_made_by_the_taker() -> None:
    results, go, begun = Ahead(), threading.Event(), threading.Event()
    results.begin("slow", lambda: begun.set() or (go.wait(10) and "slow"))
    assert begun.wait(10)
    results.begin("left", lambda: 1 / 0)
    results.begin("next", lambda: 1 / 0)
    assert results.take("next", lambda: "now") == "now", "behind the slow one it would take longer"
    threading.Timer(0.05, go.set).start()
    assert results.take("slow", lambda: "now") == "slow"
    assert not results._begun, "a page that was left does not hold up the next"


def test_old_results_are_not_taken_and_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    results = Ahead()
    for number in range(MOST + 3):
        results.begin(number, lambda: "ahead")
        settled(results)
    assert len(results._begun) == MOST
    monkeypatch.setattr(ahead, "FRESH_S", 0.0)
    assert results.take(MOST, lambda: "now") == "now"


def test_errors_reach_the_taker() -> None:
    results = Ahead()
    results.begin("a", lambda: 1 / 0)
    settled(results)
    with pytest.raises(ZeroDivisionError):
        results.take("a", lambda: "now")


def test_the_end_of_the_program_does_not_wait_for_it() -> None:
    results = Ahead()
    results.begin("a", lambda: None)
    assert results._thread is not None and results._thread.daemon
