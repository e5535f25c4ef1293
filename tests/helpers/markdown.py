"""Markdown as ``make format`` leaves it: generated blocks are compared in this form."""

from __future__ import annotations

import tomllib
from pathlib import Path

import mdformat

OPTIONS = tomllib.loads((Path(__file__).parents[2] / ".mdformat.toml").read_text(encoding="utf-8"))


def formatted(text: str) -> str:
    return mdformat.text(text, options=OPTIONS, extensions={"gfm", "tables"})
