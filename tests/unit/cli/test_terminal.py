"""What commands print: tables that keep to the width of a terminal and break no word, and notes of
the libraries on stderr."""

from __future__ import annotations

import logging
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncubble.cli.main import main
from ncubble.cli.terminal import cell, cut, fitting, folded, table_lines, tied, wrapped

WORDS = st.text(alphabet="abc_/ ,-", max_size=40)


@given(st.lists(st.lists(WORDS, min_size=3, max_size=3), min_size=1, max_size=5), st.integers(20, 100))
def test_every_line_fits_or_is_a_single_word_and_nothing_is_lost(rows: list[list[str]], width: int) -> None:
    header, *body = rows
    lines = list(table_lines(header, body, [False, True, False], width))
    if fitting([[row[index] for row in rows] for index in range(3)], width) is not None:
        assert all(len(line) <= width for _, line in lines)
    for number, row in enumerate(body):
        shown = "".join("".join(line.split()) for at, line in lines if at == number)
        assert sorted(shown) == sorted("".join(row).replace(" ", "") + _names(header, lines, number))


def _names(header: list[str], lines: list[tuple[int, str]], number: int) -> str:
    """In blocks each row repeats the names."""
    return "" if any(at == -1 for at, _ in lines) or not lines else "".join(header).replace(" ", "")


def test_columns_give_way_down_to_their_longest_piece() -> None:
    assert fitting([["a b c d"], ["exact"]], 14) == [7, 5]
    assert fitting([["a b c d"], ["exact"]], 10) == [3, 5]
    assert fitting([["a b c d"], ["exact"]], 8) is None
    assert folded("tensor_elapsed_pct", 9) == ["tensor_", "elapsed_", "pct"]
    assert folded("", 5) == [""]


def test_numbers_are_not_torn_from_their_digits_or_their_units() -> None:
    assert folded("1,423,548 cycles on 2026-11-26", 9) == ["1,423,548", "cycles on", "2026-11-26"]
    assert folded(f"GPU 1 {tied('7,025,663 ± 0.04 %')} 5", 12) == ["GPU 1", "7,025,663 ± 0.04 %", "5"]
    assert fitting([[tied("7,025,663 ± 0.04 %")], ["NVIDIA H200"]], 27) == [18, 7]


@pytest.mark.parametrize(("cells", "text"), [(9, "BAR.SYNC"), (8, "BAR.SYNC"), (7, "BAR.SY…"), (4, "BAR…"), (3, "")])
def test_what_is_cut_says_so_or_is_left_out(cells: int, text: str) -> None:
    assert cut("BAR.SYNC", cells) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3713310.0, "3713310"),
        (524992.0, "524992"),
        (48.04581, "48.0458"),
        (0.0507969, "0.0507969"),
        (1.5e-7, "1.5e-07"),
        (math.nan, "nan"),
        (None, "–"),
        ([], "–"),
        ("a\x1b[31m", "a\\x1b[31m"),
        (12, "12"),
    ],
)
def test_values_have_plain_digits(value: object, text: str) -> None:
    assert cell(value) == text


def test_long_lines_are_wrapped_and_indented() -> None:
    assert wrapped("short", 10) == ["short"]
    assert wrapped("one two three four", 10) == ["one two", "  three", "  four"]


def errors_of_version(capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        main(["--version"])
    return capsys.readouterr().err


def test_a_warning_of_a_room_is_one_line_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    errors_of_version(capsys)
    errors_of_version(capsys)
    logging.getLogger("ncubble.analysis.report.cache").warning("reading %s was cut off", "a\n\x1b[31mb")
    assert capsys.readouterr() == ("", "ncubble: reading a\\n\\x1b[31mb was cut off\n")


def test_what_is_no_warning_is_not_shown_and_a_traceback_is(capsys: pytest.CaptureFixture[str]) -> None:
    errors_of_version(capsys)
    logging.getLogger("ncubble.analysis.report.cache").info("nothing to see")
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("ncubble.dashboard.data.store").exception("unexpected")
    said = capsys.readouterr().err
    assert "nothing to see" not in said
    assert "ncubble: unexpected" in said and "ValueError: why" in said
