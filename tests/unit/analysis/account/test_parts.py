"""Records of parts and verdicts: complete, apart from each other, and readable on both surfaces."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from ncubble import dashboard
from ncubble.analysis.account.palette import HATCH_NAMES, SIDE_STYLES, contrast, text_color
from ncubble.analysis.account.parts import (
    CAUSES,
    COARSE,
    OUTCOMES,
    PARTS,
    STEADY,
    WORK,
    display_order,
    part_color,
    part_label,
    part_style,
)

LIGHT, DARK = "#ffffff", "#17202b"


@pytest.mark.parametrize("name", list(PARTS))
def test_a_part_stands_out_from_both_surfaces_and_its_text_from_it(name: str) -> None:
    color = PARTS[name].color
    assert contrast(color, LIGHT) >= 3.0
    assert contrast(color, DARK) >= 3.0
    assert contrast(color, text_color(color)) >= 4.5


def test_neighbours_in_the_bar_differ_in_colour_and_hatching() -> None:
    bubbles = [part for part in PARTS.values() if part.name not in WORK]
    assert all((part.color, part.hatch) != (after.color, after.hatch) for part, after in pairwise(bubbles))
    assert len({(part.color, part.hatch) for part in PARTS.values()}) == len(PARTS)


def test_bubbles_have_letters_of_their_own_where_there_is_no_colour() -> None:
    letters = [part.letter for part in PARTS.values() if part.name not in WORK]
    assert len(set(letters)) == len(letters) and all(len(letter) == 1 for letter in letters)
    assert {PARTS[name].letter for name in WORK}.isdisjoint(letters)


def test_a_record_is_complete() -> None:
    for name, cause in CAUSES.items():
        assert name == cause.name and cause.label and cause.symbol
    for part in PARTS.values():
        assert part.meaning and part.launch_sd > 0 and part.gpu_sd > 0
        assert part.kind in ("work", "launch", "steady", "rest")
        assert not part.cause or PARTS[part.cause].fix == part.fix


def test_coarse_parts_stand_for_parts_of_the_account() -> None:
    assert set(COARSE) <= set(PARTS) and COARSE["idle"] == STEADY
    assert all(set(finer) <= set(PARTS) for finer in COARSE.values())


@pytest.mark.parametrize("color", [outcome.color for outcome in OUTCOMES.values() if outcome.color])
def test_colours_of_causes_stand_out_from_both_surfaces(color: str) -> None:
    assert contrast(color, LIGHT) >= 3.0
    assert contrast(color, DARK) >= 3.0


def test_an_unknown_name_is_shown_as_it_is_and_last() -> None:
    assert part_label("new_part") == "new part"
    assert part_label("unit_busy", "DRAM") == "DRAM busy"
    assert display_order(["zeta", "idle", "alpha", "ramp"]) == ["ramp", "idle", "zeta", "alpha"]


def test_every_hatch_has_a_class_of_its_own() -> None:
    sheet = (Path(dashboard.__file__).parent / "assets" / "ncubble.css").read_text()
    for style in (*PARTS.values(), *SIDE_STYLES):
        name = HATCH_NAMES[style.hatch]
        assert not name or f".{name} {{" in sheet
    assert len(set(HATCH_NAMES.values())) == len(HATCH_NAMES)


def test_joined_parts_are_named_together_and_look_like_the_first() -> None:
    assert part_label("data_wait+copy_cost") == "data wait and copy cost"
    assert part_style("data_wait+copy_cost") is PARTS["data_wait"]
    assert part_color("data_wait+copy_cost") == PARTS["data_wait"].color
