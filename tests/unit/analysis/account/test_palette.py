"""Colours of the account: complete, apart from each other, and readable on both surfaces."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from ncubble import dashboard
from ncubble.analysis.account import palette
from ncubble.analysis.account.account import PARTS
from ncubble.analysis.account.palette import CAUSE_COLORS, PART_STYLES, WORK_PARTS, contrast, part_label, text_color

LIGHT, DARK = "#ffffff", "#17202b"


def test_every_part_of_the_account_has_a_style_in_display_order() -> None:
    assert list(PART_STYLES) == list(PARTS)


@pytest.mark.parametrize("name", list(PART_STYLES))
def test_a_part_stands_out_from_both_surfaces_and_its_text_from_it(name: str) -> None:
    color = PART_STYLES[name].color
    assert contrast(color, LIGHT) >= 3.0
    assert contrast(color, DARK) >= 3.0
    assert contrast(color, text_color(color)) >= 4.5


def test_neighbours_in_the_bar_differ_in_colour_and_hatching() -> None:
    styles = [style for name, style in PART_STYLES.items() if name not in WORK_PARTS]
    assert all((one.color, one.hatch) != (other.color, other.hatch) for one, other in pairwise(styles))
    assert len({(style.color, style.hatch) for style in PART_STYLES.values()}) == len(PART_STYLES)


@pytest.mark.parametrize("color", CAUSE_COLORS.values())
def test_colours_of_causes_stand_out_from_both_surfaces(color: str) -> None:
    assert contrast(color, LIGHT) >= 3.0
    assert contrast(color, DARK) >= 3.0


def test_contrast_of_black_and_white_is_21() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)


def test_an_unknown_name_is_shown_as_it_is() -> None:
    assert part_label("new_part") == "new part"
    assert part_label("unit_busy", "DRAM") == "DRAM busy"


def test_controls_have_an_edge_that_stands_out_in_both_themes() -> None:
    sheet = (Path(dashboard.__file__).parent / "assets" / "ncubble.css").read_text()
    themes = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in sheet.split("}") if "--bg:" in block]
    assert len(themes) == 3
    for tokens in themes:
        for surface in ("bg", "surface", "surface-2"):
            assert contrast(tokens["control"], tokens[surface]) >= 3.0


def test_every_hatch_has_a_class_of_its_own() -> None:
    sheet = (Path(dashboard.__file__).parent / "assets" / "ncubble.css").read_text()
    for style in (*PART_STYLES.values(), *palette.SIDE_STYLES):
        name = palette.HATCH_NAMES[style.hatch]
        assert not name or f".{name} {{" in sheet
    assert len(set(palette.HATCH_NAMES.values())) == len(palette.HATCH_NAMES)
