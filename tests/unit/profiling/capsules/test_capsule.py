"""Recorded launches: what is refused, and what memory they hold."""

from __future__ import annotations

import json
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncubble.errors import MeasurementError
from ncubble.profiling.capsules.capsule import PAGE, Capsule, Region
from ncubble.profiling.capsules.replay import _GRANULE, _spans

FACTS: dict[str, Any] = {
    "function": "_Z4gemmv",
    "kernel": "gemm()",
    "regions": [{"base": 0x7F0000000000, "size": 3 * PAGE + 100}, {"base": 0x7F0000400000, "size": 8}],
}


def kept(folder: Path, facts: Any = FACTS, complete: bool = True) -> Path:
    """A folder as the recorder leaves it."""
    folder.mkdir(exist_ok=True)
    (folder / "launch.json").write_text(facts if isinstance(facts, str) else json.dumps(facts))
    if complete:
        (folder / "complete").touch()
    return folder


def test_a_launch_says_what_it_is(tmp_path: Path) -> None:
    capsule = Capsule.load(kept(tmp_path))
    assert (capsule.function, capsule.kernel) == ("_Z4gemmv", "gemm()")
    assert capsule.regions == [Region(0x7F0000000000, 3 * PAGE + 100), Region(0x7F0000400000, 8)]
    assert capsule.size == 3 * PAGE + 108
    assert capsule.cubin == tmp_path / "kernel.cubin"
    assert capsule.before(capsule.regions[1]).name == "before-7f0000400000.bin"


def test_changed_pages_are_read_with_their_offsets(tmp_path: Path) -> None:
    capsule = Capsule.load(kept(tmp_path))
    pages = [(PAGE, b"a" * PAGE), (3 * PAGE, b"b" * 100)]
    file = tmp_path / "after-7f0000000000.bin"
    file.write_bytes(b"".join(struct.pack("<Q", offset) + page for offset, page in pages))
    assert list(capsule.changes(capsule.regions[0])) == pages, "the last page ends with its region"
    (tmp_path / "after-7f0000400000.bin").touch()
    assert list(capsule.changes(capsule.regions[1])) == []


@pytest.mark.parametrize(
    ("facts", "complete", "message"),
    [(FACTS, False, "incomplete"), ("{", True, "no recorded launch"), ("[]", True, "no recorded launch")],
)
def test_what_is_no_whole_launch_is_refused(tmp_path: Path, facts: Any, complete: bool, message: str) -> None:
    with pytest.raises(MeasurementError, match=message) as caught:
        Capsule.load(kept(tmp_path, facts, complete))
    assert caught.value.remedy == "record it again"


def test_a_missing_folder_or_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="incomplete"):
        Capsule.load(tmp_path / "nothing")
    (tmp_path / "complete").touch()
    with pytest.raises(MeasurementError, match="no recorded launch"):
        Capsule.load(tmp_path)


def test_regions_of_one_granule_are_mapped_once() -> None:
    regions = [Region(5 * _GRANULE + 512, 100), Region(5 * _GRANULE, 512), Region(9 * _GRANULE - 1, 2)]
    assert _spans(regions) == [(5 * _GRANULE, _GRANULE), (8 * _GRANULE, 2 * _GRANULE)]
    assert _spans([]) == []


@given(st.lists(st.builds(Region, st.integers(1, 1 << 26), st.integers(1, 1 << 24)), max_size=6))
def test_what_is_mapped_covers_every_region_and_never_twice(regions: list[Region]) -> None:
    spans = _spans(regions)
    assert all(start % _GRANULE == size % _GRANULE == 0 < size for start, size in spans)
    for region in regions:
        inside = [start <= region.base and region.base + region.size <= start + size for start, size in spans]
        assert inside.count(True) == 1
    assert all(first + size < second for (first, size), (second, _) in pairwise(spans))
