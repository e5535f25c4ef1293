"""No room has more code lines than its ceiling in ceilings.toml."""

from __future__ import annotations

from benchmarks import house


def test_no_room_is_above_its_ceiling(repository: object) -> None:
    limits = house.ceilings()
    assert {room: size for room, size in house.rooms().items() if size > limits[room]} == {}


def test_comments_docstrings_and_blank_lines_are_no_code() -> None:
    assert (
        house.code_lines('"""Of two\nlines."""\n\n# comment\nx = [\n    1,  # one\n]\n\n\ndef f():\n    """Text."""\n')
        == 4
    )


def test_strings_that_are_values_are_code() -> None:
    assert house.code_lines('TEXT = """two\nlines"""\n') == 2
