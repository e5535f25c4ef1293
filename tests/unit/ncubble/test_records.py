"""Values of a wrong type are named by their whole path, also within mappings, where msgspec names
no key."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest

from ncubble.records import WrongFieldError, typed


@dataclass(frozen=True)
class Inner:
    size: int
    values: list[float | None] = field(default_factory=list)


@dataclass(frozen=True)
class Outer:
    name: str
    inner: dict[str, Inner] = field(default_factory=dict)


def test_what_fits_becomes_the_type() -> None:
    raw = {"name": "a", "inner": {"x": {"size": 1, "values": [2, None]}}, "more": "ignored"}
    assert typed(raw, Outer) == Outer("a", {"x": Inner(1, [2.0, None])})


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([], "the file is []: expected `object`, got `array`"),
        ({}, "the file object missing required field `name`"),
        ({"name": 1}, "field 'name' is 1: expected `str`, got `int`"),
        ({"name": "a", "inner": {"x": {}}}, "field 'inner.x' object missing required field `size`"),
        ({"name": "a", "inner": {"x": {"size": 1}, "y": {"size": True}}}, "field 'inner.y.size' is True"),
        ({"name": "a", "inner": {"z": {"size": 1, "values": [1, "b"]}}}, r"field 'inner.z.values[1]' is 'b'"),
        ({"name": "b" * 99, "inner": "c" * 99}, f"field 'inner' is '{'c' * 39}…"),
    ],
)
def test_the_wrong_value_is_shown_with_its_path(raw: Any, message: str) -> None:
    with pytest.raises(WrongFieldError) as caught:
        typed(raw, Outer)
    assert message in str(caught.value)


def test_a_path_begins_with_what_it_lies_within() -> None:
    with pytest.raises(WrongFieldError, match=r"'reports\[3\].size'"):
        typed({"size": "1"}, Inner, "reports[3]")


def test_threads_may_be_the_first_to_convert_a_type() -> None:
    """msgspec 0.22 alone ends most of these processes by a signal."""
    code = """if True:
        import sys
        from concurrent.futures import ThreadPoolExecutor
        from ncubble.profiling.metrics.generations import load_generations
        sys.setswitchinterval(1e-6)
        with ThreadPoolExecutor(4) as pool:
            for _ in range(4):
                pool.submit(load_generations)
    """
    for _ in range(10):
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
