"""The names of ``import ncubble``: the same for programs, type checkers and docs, and free until
they are used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ncubble


def test_package_and_stub_offer_the_same_names(repository: Path) -> None:
    stub = ast.parse((repository / "ncubble" / "__init__.pyi").read_text())
    typed = {alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert typed == set(ncubble.__all__)
    assert all(getattr(ncubble, name) is not None for name in ncubble.__all__)
    assert set(ncubble.__all__) <= set(dir(ncubble))


def test_a_wrong_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        ncubble.lod  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_package_loads_none_of_its_rooms(tmp_path: Path) -> None:
    code = "import sys; before = set(sys.modules); import ncubble; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert set(done.stdout.split()) <= {"ncubble", "__future__"} and "ncubble" in done.stdout


def test_figures_need_no_dash(tmp_path: Path) -> None:
    """In a notebook, its import opens a channel that the page does not know."""
    code = "import sys, ncubble; from ncubble.recordings import ROOT; r = ncubble.load(ROOT / 'gemm_tma'); " + (
        "r.plot(), r[1].plot(), r[1].plot_timeline(), r[1].plot_depths(), r._repr_html_(); print('dash' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["False"], done.stderr


def test_every_public_name_and_member_is_documented() -> None:
    for name in ncubble.__all__:
        thing = getattr(ncubble, name)
        assert thing.__doc__, name
        members = vars(thing).items() if isinstance(thing, type) else ()
        undocumented = [
            member
            for member, value in members
            if not member.startswith("_") and _described(value) and not value.__doc__
        ]
        assert undocumented == [], name


def _described(value: object) -> bool:
    return callable(value) or isinstance(value, property)
