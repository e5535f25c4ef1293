"""The remedy for a misspelt name has the nearest one first, and all."""

import pytest

from ncubble.text.remedies import known_names


@pytest.mark.parametrize(
    ("name", "known", "remedy"),
    [
        ("stags", ["stages", "ablate"], "did you mean stages? It has: stages, ablate"),
        ("q", ["m", "n", "k"], "it has: m, n, k"),
        ("x", [], "it has none"),
    ],
)
def test_the_nearest_name_comes_first(name: str, known: list[str], remedy: str) -> None:
    assert known_names(name, known) == remedy
    assert known_names("tiem", ["time"], "orders") == "did you mean time? Orders: time"
