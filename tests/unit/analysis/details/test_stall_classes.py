"""Warp samples by class of instruction."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from ncubble.analysis.details.source_columns import CLASSES, class_of, class_rows
from ncubble.sass.opcodes import role


def code(*lines: tuple[str, dict[str, float]]) -> pd.DataFrame:
    """Instructions of (opcode, samples by reason)."""
    reasons = sorted({reason for _, samples in lines for reason in samples})
    frame = pd.DataFrame({"opcode": [opcode for opcode, _ in lines]})
    frame["samples"] = [sum(samples.values()) for _, samples in lines]
    for reason in reasons:
        frame[reason] = [samples.get(reason, 0.0) for _, samples in lines]
    return frame


def by_class(source: pd.DataFrame, **given: Any) -> dict[str, float]:
    return {row.name: row.share for row in class_rows(source, **given)}


@pytest.mark.parametrize(
    ("opcode", "name"),
    [
        ("LDGSTS.E.BYPASS.128", "copy"),
        ("UTMALDG.2D", "copy"),
        ("HGMMA.64x128x16.F32", "mma"),
        ("LDSM.16.M88.4", "load_shared"),
        ("IMAD.MOV.U32", "integer"),
        ("UIADD3", "integer"),
        ("FFMA", "float"),
        ("MUFU.EX2", "convert"),
        ("BRA", "branch"),
        ("S2R", "move"),
        ("", "move"),
    ],
)
def test_opcodes_have_classes(opcode: str, name: str) -> None:
    assert class_of(opcode) == name and name in CLASSES
    assert role(opcode) in (name, "other")


def test_a_wait_counts_at_the_copy_or_barrier_that_it_is_for() -> None:
    source = code(
        ("LDGDEPBAR", {}), ("DEPBAR.LE", {}), ("UISETP.GT", {"long_scoreboard": 60.0, "wait": 10.0}),
        ("BAR.SYNC", {}), ("IADD3", {"barrier": 30.0}),
    )  # fmt: skip
    assert by_class(source) == pytest.approx({"copy_wait": 60.0, "barrier": 30.0, "integer": 10.0})


def test_a_wait_with_nothing_before_it_stays_where_it_was_taken() -> None:
    far = [("LDG.E", {})] + [("MOV", {})] * 20 + [("FADD", {"long_scoreboard": 5.0})]
    assert by_class(code(*far)) == {"float": 100.0}
    assert by_class(code(("IADD3", {"barrier": 5.0}), ("BAR.SYNC", {}))) == {"integer": 100.0}
