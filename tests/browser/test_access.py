"""The token in a real browser: how it is exchanged, and what links of other pages lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.helpers import dashboard_frames as frames

from .conftest import serving

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
TOKEN = "token-of-the-browser-tests"  # noqa: S105


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A dashboard that asks for the token."""
    with serving(frames.store(tmp_path_factory.mktemp("reports")), TOKEN) as url:
        yield url


def test_the_printed_address_opens_all_pages_and_shows_no_token(closed: str, open_page: Open) -> None:
    page = open_page(f"{closed}/?token={TOKEN}")
    expect(page.locator(".ag-center-cols-container .ag-row").first).to_be_visible()
    assert page.url == f"{closed}/"
    page.goto(f"{closed}/kernel/0123456789abcdef/0")
    expect(page.locator("#page h1")).to_be_visible()
    assert page.evaluate("() => document.cookie") == ""
    (cookie,) = page.context.cookies()
    assert (cookie["name"], cookie["sameSite"]) == (f"ncubble-{closed.rsplit(':', 1)[1]}", "Strict")


def test_without_the_token_a_sentence_is_all_there_is(closed: str, browser: Browser) -> None:
    page = browser.new_page()
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url))
    answer = page.goto(f"{closed}/kernel/0123456789abcdef/0")
    assert answer is not None and answer.status == 403
    expect(page.locator("body")).to_contain_text("Use the address that ncubble dashboard printed in the terminal")
    assert [url for url in asked if not url.endswith("favicon.ico")] == [f"{closed}/kernel/0123456789abcdef/0"]
    page.context.close()


def test_a_link_from_another_page_works(closed: str, browser: Browser, tmp_path: Path) -> None:
    """The browser sends no strict cookie with what such a page leads to."""
    context = browser.new_context()
    page, door = context.new_page(), tmp_path / "door.html"
    door.write_text(f'<meta http-equiv="refresh" content="0;url={closed}/?token={TOKEN}">')
    page.goto(door.as_uri())
    expect(page.locator(".ag-center-cols-container .ag-row").first).to_be_visible(timeout=20_000)
    assert page.url == f"{closed}/"
    link = tmp_path / "link.html"
    link.write_text(f'<a href="{closed}/kernel/0123456789abcdef/0">the launch</a>')
    page.goto(link.as_uri())
    page.locator("a").click()
    expect(page.locator("#page h1")).to_be_visible(timeout=20_000)
    context.close()


def test_another_page_cannot_read_through_the_cookie(closed: str, browser: Browser, tmp_path: Path) -> None:
    context = browser.new_context()
    context.new_page().goto(f"{closed}/?token={TOKEN}")
    page = context.new_page()
    foreign = tmp_path / "foreign.html"
    foreign.write_text(f'<iframe src="{closed}/"></iframe>')
    statuses = list[int]()
    page.on("response", lambda answer: statuses.append(answer.status) if closed in answer.url else None)
    page.goto(foreign.as_uri())
    page.wait_for_timeout(500)
    read = f"() => fetch('{closed}/_dash-layout', {{credentials: 'include'}}).then(() => 'read', () => 'refused')"
    assert page.evaluate(read) == "refused"
    assert statuses and set(statuses) <= {403}
    context.close()
