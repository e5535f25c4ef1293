"""What the source of a Triton kernel says may be changed."""

from __future__ import annotations

from typing import Any

import pytest

from ncubble.analysis.changes.offered import Offered, offered_by
from ncubble.analysis.diagnosis.diagnose import launch_verdict
from ncubble.analysis.report.report import Launch, Report
from ncubble.recordings import VALIDATION

CHANGES = VALIDATION / "changes/h100"
SOURCE = """
import triton, triton.language as tl

@triton.jit
def inner(acc, n: tl.constexpr):
    for _ in range(n):
        acc += 1
    return acc

class Holder:
    @triton.jit
    def kernel(
        x_ptr, n,
        BLOCK_SIZE_M: tl.constexpr, BK: "tl.constexpr", HEAD_DIM: tl.constexpr,
        GROUP_M: tl.constexpr = 8,
    ):
        acc = BODY
        # below: another function
    @triton.jit
    def other(x_ptr, BLOCK_N: tl.constexpr):
        pass
"""


class FakeLaunch:
    """The part of a launch that is asked."""

    def __init__(self, text: str, name: str = "kernel") -> None:
        self.report = type("Files", (), {"files": {"other.py": "x = 1", "a.py": text}})()
        self.identity = type("Identity", (), {"demangled": name})()
        self.memo: dict[Any, Any] = {}


def offered(text: str, monkeypatch: pytest.MonkeyPatch) -> Offered | None:
    function: Any = offered_by
    return function.__wrapped__(FakeLaunch(text))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("body", "loops"), [("inner(0, 4)", True), ("0\n        while n:\n            n -= 1", True), ("n + 1", False)]
)
def test_constants_are_named_by_kind_and_a_loop_is_found_where_the_kernel_or_what_it_calls_has_one(
    body: str, loops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = offered(SOURCE.replace("BODY", body), monkeypatch)
    assert found == Offered({"tile_m": "BLOCK_SIZE_M", "tile_k": "BK", "cta_order": "GROUP_M"}, loops)


@pytest.mark.parametrize(
    "text", ["", "def kernels(x): pass", "def kernel(:\n", "def kernel(x):\n\tx = '\x00'", "def kernel(" + "(" * 5000]
)
def test_a_source_that_does_not_hold_the_kernel_or_is_no_python_says_nothing(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert offered(text, monkeypatch) is None


def launches() -> list[Launch]:
    return [launch for run in sorted(CHANGES.glob("0[2468]")) for launch in Report.open(run)]


def test_no_change_is_named_of_a_constant_that_the_kernel_does_not_have() -> None:
    seen = 0
    for launch in launches():
        found = offered_by(launch)
        assert found is not None, launch.identity.demangled
        for change in launch_verdict(launch).changes:
            if change.kind.startswith("tile") or change.kind == "cta_order":
                seen += 1
                assert change.kind in found.names
                assert found.names[change.kind] in change.text, "by its name in this kernel"
            assert change.kind != "stages" or found.loops
    assert seen > 10
