"""A Chromium, a dashboard that is served in this process, and pages that fail on errors and foreign
requests."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from ncubble.dashboard.app.app import create_app
from ncubble.dashboard.app.serving import Server
from ncubble.dashboard.data.store import ReportStore
from tests.helpers import dashboard_frames as frames

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
SCREENSHOTS = Path(__file__).parent / "screenshots"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run a failed browser test once more; the summary names it. On a busy machine the browser may
    draw later than any sensible wait, and such a failure says nothing of the page."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    # The shell is the same Chromium without windows: those take a third of the time of a page.
    path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    expect.set_options(timeout=20_000)  # a busy machine draws late
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield started
        started.close()


@contextmanager
def serving(store: ReportStore, token: str | None = None) -> Iterator[str]:
    """The address of a dashboard of ``store`` that answers as long as the context lasts, without
    the last slash."""
    server = Server(create_app([], store=store, token=token), "127.0.0.1", 0)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server.url.rstrip("/")
    finally:
        server.close()
        thread.join(20)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The dashboard of the made-up reports."""
    with serving(frames.store(tmp_path_factory.mktemp("reports"))) as url:
        yield url


@pytest.fixture
def open_page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Callable[..., Page]]:
    """Opens pages (options of a browser context); afterwards none may have logged an error or asked
    another host."""
    contexts: list[Any] = []
    wrong: list[str] = []

    def open_one(url: str, **options: Any) -> Page:
        options.setdefault("viewport", {"width": 1280, "height": 800})
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        own = urlparse(url).netloc
        page.on("pageerror", lambda error: wrong.append(f"page error: {error}"))
        page.on("console", lambda message: wrong.append(f"{message.type}: {message.text}") if _bad(message) else None)
        page.on("request", lambda asked: wrong.append(f"foreign: {asked.url}") if _foreign(asked.url, own) else None)
        page.goto(url)
        return page

    yield open_one
    for context in contexts:
        context.close()
    expected = getattr(request.node, "expected_errors", ())
    assert [line for line in wrong if not any(part in line for part in expected)] == []


def _bad(message: Any) -> bool:
    return message.type in ("error", "warning")


def _foreign(url: str, own: str) -> bool:
    parsed = urlparse(url)
    return parsed.scheme in ("http", "https", "ws", "wss") and parsed.netloc != own


def eventually(page: Page, script: str, wanted: Any, seconds: float = 20.0) -> None:
    """Wait until ``script`` evaluates to ``wanted``, from outside: the policy keeps the page from
    evaluating text."""
    deadline = time.monotonic() + seconds
    while (found := page.evaluate(script)) != wanted:
        assert time.monotonic() < deadline, f"{found!r} is not {wanted!r} after {seconds} s: {script}"
        page.wait_for_timeout(50)


for_the_eye = pytest.mark.skipif(
    "NCUBBLE_SCREENSHOTS" not in os.environ, reason="pictures for people, nothing is judged: make screenshots"
)


def photograph(page: Page, name: str) -> None:
    """Pictures of a page for people (tests/browser/screenshots, not committed): on a screen and a
    phone, light and dark."""
    SCREENSHOTS.mkdir(exist_ok=True)
    for width, height in ((1440, 900), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            page.wait_for_timeout(250)
            taken = page.screenshot(path=SCREENSHOTS / f"{name}-{width}-{scheme}.png", full_page=True)
            assert len(taken) > 25_000, f"{name} is nearly empty at {width}, {scheme}"
