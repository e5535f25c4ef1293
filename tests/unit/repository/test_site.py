"""The documentation site: it is built without a warning, holds every command, and loads nothing
from elsewhere."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import ncubble
from tests.helpers.site import built_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    return built_site(tmp_path_factory)


@pytest.fixture
def module(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(repository / "docs" / "site"))
    return importlib.import_module


class Loaded(HTMLParser):
    """Addresses that a page loads by itself: scripts, styles, pictures, frames."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag in {"script", "img", "iframe", "source"} or (tag == "link" and named.get("rel") != "canonical"):
            self.addresses += [address for key in ("src", "href") if (address := named.get(key))]


def loaded(page: Path) -> list[str]:
    parser = Loaded()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser.addresses


def test_a_page_loads_only_what_lies_in_the_site(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 60
    foreign = {
        f"{page.relative_to(site)}: {address}"
        for page in pages
        for address in loaded(page)
        if "://" in address or address.startswith("//") or not _inside(site, page, address)
    }
    # 404.html is the one page that a server shows at any address, with addresses from its root.
    assert {line for line in foreign if not line.startswith("404.html")} == set()


def _inside(site: Path, page: Path, address: str) -> bool:
    target = (page.parent / re.split(r"[?#]", address)[0]).resolve()
    return address.startswith("data:") or (target.is_relative_to(site.resolve()) and target.exists())


def test_every_command_has_a_page_with_its_options(site: Path) -> None:
    for name, option in {"report": "--explain", "baseline": "--out"}.items():
        assert f"<code>{option}" in (site / "reference" / "commands" / f"{name}.html").read_text(encoding="utf-8")


def test_docstrings_are_in_the_reference(site: Path) -> None:
    pages = site / "reference" / "python"
    page, public = ((pages / f"{name}.html").read_text(encoding="utf-8") for name in ("accounts", "api"))
    assert 'id="ncubble.analysis.account.account.BubbleAccount"' in page
    assert [name for name in ncubble.__all__ if f'.{name}"' not in public] == []


NESTED = """
import markdown, site_lists
print(markdown.markdown("1. one\\n\\n   more\\n\\n   - inner\\n\\n2. two\\n", extensions=[site_lists.NestedLists()]))
"""


def test_lists_that_commonmark_nests_are_nested(repository: Path) -> None:
    # In a process of its own: here, "markdown" is a helper of the tests.
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    environment = {"PYTHONPATH": str(repository / "docs" / "site")}
    page = subprocess.run(
        [sys.executable, "-P", "-c", NESTED], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert "".join(page.split()) == "<ol><li><p>one</p><p>more</p><ul><li>inner</li></ul></li><li><p>two</p></li></ol>"


def test_the_search_finds_texts_commands_and_code(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    places = {entry["location"].split("#")[0] for entry in index["docs"]}
    assert {"account.html", "reference/commands/report.html", "reference/python/kernels.html"} <= places
    assert not any(place.startswith("source/") for place in places)


def test_links_that_leave_docs_lead_to_pages_of_the_site(module: Any, tmp_path: Path) -> None:
    links: ModuleType = module("site_links")
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "a.py").touch()
    text = "[a](../kernels/a.py#L3) [b](../kernels) [c](../CONTRIBUTING.md) [d](x.md) [e](../gone.py)\n"
    expected = (
        "[a](source/kernels/a.py.md#L3) [b](source/kernels/index.md) [c](contributing.md) [d](x.md) [e](../gone.py)"
    )
    assert links.rewritten(text, "trace.md", tmp_path) == f"{expected}\n"
    fenced = f"```\n{text}```\n"
    assert links.rewritten(fenced, "trace.md", tmp_path) == fenced
    assert links.rewritten("[g](docs/gate.md#x)", "contributing.md", tmp_path) == "[g](gate.md#x)"


def test_a_page_that_the_navigation_lacks_stands_in_the_section_of_its_folder(module: Any) -> None:
    nav: ModuleType = module("site_nav")
    given = [
        {"Home": "README.md"},
        {"User guide": ["a.md"]},
        {"Reference": ["=commands"]},
        {"Method and validation": []},
    ]
    pages = ["README.md", "a.md", "new.md", "validation/new.md"]
    assert nav.complete(given, {"=commands": ["c/x.md"]}, pages) == [
        {"Home": "README.md"},
        {"User guide": ["a.md", "new.md"]},
        {"Reference": [["c/x.md"]]},
        {"Method and validation": ["validation/new.md"]},
    ]


def test_help_texts_are_not_taken_for_markup(module: Any) -> None:
    commands: ModuleType = module("site_commands")
    names = {"opts": ["--where"], "secondary_opts": [], "metavar": "A|B", "name": "where"}
    option = SimpleNamespace(**names, is_flag=False, default="x", help="a_b < `c_d` | e")
    assert commands._option(option) == ("`--where A\\|B`", "a\\_b \\< `c_d` \\| e Default: `x`.")
