"""The documentation site, opened from its files: search, colours, a phone."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.helpers.site import built_site

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    return built_site(tmp_path_factory).as_uri()


def test_the_search_works_without_a_server(address: str, open_page: Callable[..., Page]) -> None:
    page = open_page(f"{address}/index.html")
    page.locator(".md-search__input").click()
    page.keyboard.type("bank conflicts")  # the search listens to keys
    expect(page.locator(".md-search-result__item").first).to_be_visible()
    expect(page.locator(".md-search-result__link").first).to_have_attribute("href", re.compile("html[?]h="))


@pytest.mark.parametrize("name", ["index", "account", "kernels", "reference/commands/profile", "validation/index"])
def test_a_page_fits_a_phone(address: str, open_page: Callable[..., Page], name: str) -> None:
    page = open_page(f"{address}/{name}.html", viewport={"width": 390, "height": 844})
    expect(page.locator("article h1")).to_be_visible()
    root = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert root[0] <= root[1]


def test_colours_follow_the_system(address: str, open_page: Callable[..., Page]) -> None:
    shades = []
    for scheme in ("light", "dark"):
        page = open_page(f"{address}/index.html", color_scheme=scheme)
        shades.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert shades[0] == "rgb(255, 255, 255)" != shades[1]
