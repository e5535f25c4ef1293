"""The search over rows and graphs: the planted candidate is among the suspects whatever could not
be judged, and alone where everything could."""

import random

import pytest

from ncubble.analysis.gate.bisect.search import Candidates, Search


def graph(rng, number):
    """A history with merges: each commit has one or two of the last few as parents."""
    names = [f"c{index}" for index in range(number)]
    parents = {}
    for index, name in enumerate(names[1:], 1):
        near = names[max(index - 4, 0) : index]
        parents[name] = tuple(dict.fromkeys(rng.choice(near) for _ in range(rng.choice((1, 1, 2)))))
    return Candidates(tuple(names), parents)


def reach(candidates, name):
    """Whether each candidate has ``name`` as itself or an ancestor."""
    bit = 1 << candidates.order.index(name)
    return {other: bool(mask & bit) for other, mask in candidates.masks.items()}


def searched(candidates, culprit, broken=()):
    """The suspects at the end, and the names that were judged."""
    bad, search, judged = reach(candidates, culprit), Search(candidates), []
    while (name := search.next()) is not None:
        assert name not in judged
        judged.append(name)
        search.judge(name, "skipped" if name in broken else "bad" if bad[name] else "good")
    return search.left, judged


@pytest.mark.parametrize("number", [1, 2, 3, 7, 8, 9, 64, 100])
def test_a_row_names_each_culprit_in_as_many_steps_as_it_says(number):
    candidates = Candidates.in_a_row([str(index) for index in range(number)])
    for culprit in candidates.order:
        left, judged = searched(candidates, culprit)
        assert left == [culprit]
        assert len(judged) <= candidates.steps


def test_a_graph_with_merges_names_each_culprit_that_the_bad_end_has():
    for seed in range(40):
        candidates = graph(random.Random(seed), 24)  # noqa: S311
        had = [name for name in candidates.order if reach(candidates, name)[candidates.order[-1]]]
        for culprit in had:
            left, judged = searched(candidates, culprit)
            assert left == [culprit], seed
            assert len(judged) < 12, seed


def test_what_cannot_be_judged_stays_under_suspicion_and_the_culprit_is_among_it():
    for seed in range(60):
        rng = random.Random(seed)  # noqa: S311
        candidates = graph(rng, 30) if seed % 2 else Candidates.in_a_row([str(index) for index in range(30)])
        last = candidates.order[-1]
        culprit = rng.choice([name for name in candidates.order if reach(candidates, name)[last]])
        broken = set(rng.sample(candidates.order[:-1], 10))
        left, judged = searched(candidates, culprit, broken)
        assert culprit in left, seed
        assert set(left[:-1]) <= broken | {culprit}, seed
        assert len(judged) <= len(candidates.order)


def test_a_stretch_that_does_not_build_is_left_by_jumps():
    candidates = Candidates.in_a_row([str(index) for index in range(256)])
    broken = {str(index) for index in range(100, 156)}
    left, judged = searched(candidates, "200", broken)
    assert left == ["200"]
    assert len(judged) <= candidates.steps + 4


def test_the_set_is_the_stretch_and_the_first_bad_one_behind_it():
    candidates = Candidates.in_a_row([str(index) for index in range(16)])
    left, _ = searched(candidates, "7", {"6", "7", "8"})
    assert left == ["6", "7", "8", "9"]


def test_a_parent_behind_its_child_is_refused():
    with pytest.raises(ValueError, match="is a parent of a but comes after it"):
        Search(Candidates(("a", "b"), {"a": ("b",)}))
