"""Goldens show what a reader sees without noise of the last digit, and name lines that differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import goldens


def test_a_page_becomes_its_text_and_the_data_of_its_figures() -> None:
    html = (
        "<style>p {}</style><p>data  wait</p><script>let x = 1;</script>"
        '<script type="application/json">{"data": [{"y": [1.23456789]}], "layout": {}}</script>'
    )
    assert goldens.page_text(html) == 'data wait\n{"y": [1.23457]}'


def test_differing_lines_are_printed_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("old", "a\nb\n"), ("new", "a\nc\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.txt").write_text(text)
    assert goldens.compare(tmp_path / "old", tmp_path / "new") == 1
    assert "-b\n+c" in capsys.readouterr().out
    assert goldens.compare(tmp_path / "old", tmp_path / "old") == 0
