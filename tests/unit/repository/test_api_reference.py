"""The reference of the Python API is that of today's docstrings."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.helpers.markdown import formatted


@pytest.fixture(scope="module")
def reference(repository: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location("api_reference", repository / "docs" / "api_reference.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_reference_is_current(repository: Path, reference: ModuleType) -> None:
    text = (repository / "docs" / "api.md").read_text(encoding="utf-8")
    fresh = formatted(reference.replaced(text, reference.block()))
    assert fresh == text, "run: python docs/api_reference.py --write, then mdformat docs/api.md"


def test_every_name_and_public_member_is_in_it(reference: ModuleType) -> None:
    text = reference.block()
    assert all(f"### {name}" in text for name in ("ncubble.load", "ncubble.profile", "ReportSet", "CheckResult"))
    for member in (".launches`", ".account`", ".plot(theme='light')", ".raise_for_verdict()`", ".to_json()"):
        assert member in text, member


def test_signatures_keep_what_is_keyword_only(reference: ModuleType) -> None:
    def call(first: int, *, second: int = 2) -> None: ...

    assert reference.signature(call) == "call(first, *, second=2)"
