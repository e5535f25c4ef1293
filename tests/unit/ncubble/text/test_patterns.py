"""Regular expressions that others write take time linear in the text."""

from __future__ import annotations

import time

import pytest

from ncubble.api.reporting import Selection
from ncubble.errors import UsageError
from ncubble.text.values import LONGEST, TextPattern

ENDLESS = "(a+)+$"
LONG = "a" * 5000 + "!"
"""Python's own search for ``ENDLESS`` takes longer than anybody waits, at 40 characters already."""


def test_what_backtracks_without_end_elsewhere_is_answered_at_once() -> None:
    begin = time.process_time()
    assert TextPattern(ENDLESS).search([LONG, "aaa"]) == [False, True]
    assert Selection(ENDLESS).matches(LONG) is False
    assert time.process_time() - begin < 5.0


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("gemm.*", "my_gemm_ws", True),
        ("^gemm$", "gemm_ws", False),
        (r"\bgemm\b", "void gemm<float>", True),
        ("(?i)GEMM|conv", "gemm", True),
        ("größe", "größe", True),
        ("a.b", "a\ud800b", True),  # a name that is no text
    ],
)
def test_the_usual_syntax_is_understood(pattern: str, text: str, found: bool) -> None:
    assert TextPattern(pattern).search([text]) == [found]


@pytest.mark.parametrize("pattern", ["(", "(?=x)y", r"(a)\1", "(a{1000}){1000}", "x" * (LONGEST + 1), "\ud800"])
def test_what_is_no_such_expression_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError):
        TextPattern(pattern)
    with pytest.raises(UsageError, match="--kernel"):
        Selection(pattern)
