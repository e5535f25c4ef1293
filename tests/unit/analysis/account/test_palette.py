"""Contrast of colours, and of the controls in both themes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ncubble import dashboard
from ncubble.analysis.account.palette import contrast


def test_contrast_of_black_and_white_is_21() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)


def test_controls_have_an_edge_that_stands_out_in_both_themes() -> None:
    sheet = (Path(dashboard.__file__).parent / "assets" / "ncubble.css").read_text()
    themes = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in sheet.split("}") if "--bg:" in block]
    assert len(themes) == 3
    for tokens in themes:
        for surface in ("bg", "surface", "surface-2"):
            assert contrast(tokens["control"], tokens[surface]) >= 3.0
