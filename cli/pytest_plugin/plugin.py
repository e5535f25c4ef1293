"""The pytest plugin: marker ``tensor_util``, fixture ``ncubble``, options ``--ncubble-*`` (docs/pytest.md).

What is heavy is imported when a gated test runs: a session without one pays for this file alone.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ncubble.cli.pytest_plugin.settings import ALLOW_SUSPICIOUS, FIXTURE, INNER, MARKER, REQUIRED, STARTED

if TYPE_CHECKING:
    from ncubble.cli.pytest_plugin.gated import Profiler

_LINE, _RECORDED = "ncubble", "ncubble_recorded"
_SKIPPED = "skipped (ncubble gate)"
"""Label of gated tests that measured nothing, in the last line of a session."""
_USE = (
    f"{MARKER}(min=None, baseline=None, rules=None, kernel='', repeats=5, warmup=1, nvtx='', scope='call', sets=None, "
    "timeout=None): measure this test's kernel launches with Nsight Compute; each kernel must "
    "meet the baseline and keep the tensor pipe busy for min percent of the elapsed cycles."
)
_PROFILER = pytest.StashKey["Profiler"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and the ini values of the same meaning."""
    group = parser.getgroup("ncubble", "tensor-core utilization (ncubble)")
    group.addoption("--ncubble-record", action="store_true", help="Record the named baselines instead of checking.")
    group.addoption("--ncubble-force", action="store_true", help="Let --ncubble-record replace baselines.")
    required = "Fail gated tests that would be skipped without a GPU. Without this plugin, pytest stops with an error."
    group.addoption(REQUIRED, action="store_true", help=required)
    group.addoption("--ncubble-runs", type=Path, metavar="DIR", help="Keep the profiled runs below DIR.")
    group.addoption("--ncubble-history", type=Path, metavar="DIR", help="Add results to the history in DIR.")
    ignore = "Ignore the limits in pyproject.toml or ncubble.toml."
    group.addoption("--ncubble-no-config", action="store_true", help=ignore)
    accept = "Judge and record launches even if their values contradict each other."
    group.addoption(ALLOW_SUSPICIOUS, action="store_true", help=accept)
    parser.addini(
        "ncubble_history", "Folder of the history to which results are added, relative to the root.", default=""
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _USE)
    config.stash[STARTED] = time.time()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Gated tests that do not ask for the fixture are measured themselves, in a process under ncu."""
    if config.pluginmanager.hasplugin(INNER):
        return
    for item in items:
        if item.get_closest_marker(MARKER) and FIXTURE not in getattr(item, "fixturenames", ()):
            from ncubble.cli.pytest_plugin.gated import take_over

            take_over(item)


@pytest.fixture(name=FIXTURE)
def _profiler(request: pytest.FixtureRequest) -> Iterator[Profiler]:
    """Measures programs and kernels of the catalog, or reads reports. See docs/pytest.md."""
    from ncubble.cli.pytest_plugin.gated import Profiler

    profiler = request.node.stash[_PROFILER] = Profiler(request.node)
    with profiler:
        yield profiler


@pytest.hookimpl(trylast=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """After a marked test that used the fixture and passed, hold what it measured to the marker's limits."""
    profiler, marker = item.stash.get(_PROFILER, None), item.get_closest_marker(MARKER)
    if profiler is not None and marker is not None:
        profiler.hold(marker)


@pytest.hookimpl(hookwrapper=True)  # the old kind: this file must not break a session with an old pluggy
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """A gated test that ended without figures gets a line that says so; so does one that skipped with the fixture."""
    report = (yield).get_result()
    ended = report.when == "call" or (report.when == "setup" and not report.passed)
    gated = item.get_closest_marker(MARKER) or (report.skipped and FIXTURE in getattr(item, "fixturenames", ()))
    if ended and gated and not any(name == _LINE for name, _ in report.user_properties):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        first = next((line.strip() for line in why.splitlines() if line.strip()), "the test ended early")
        words = first.removeprefix("Skipped: ").removeprefix("ncubble: ").rstrip(":")
        report.user_properties.append((_LINE, f"{report.outcome}: {words}"))


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
    """Skipped gates are counted apart from other skipped tests, also in the last line of the session."""
    gated = any(name == _LINE for name, _ in getattr(report, "user_properties", ()))
    if report.skipped and gated and not hasattr(report, "wasxfail"):
        return _SKIPPED, "s", "SKIPPED"
    return None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line per gated test, how many were skipped, and the baselines that were written."""
    lines, recorded = [], []
    for reports in terminalreporter.stats.values():
        for report in reports:
            properties = getattr(report, "user_properties", ()) if getattr(report, "when", "") != "teardown" else ()
            lines += [f"{report.nodeid}: {text}" for name, text in properties if name == _LINE]
            recorded += [text for name, text in properties if name == _RECORDED]
    if lines:
        terminalreporter.section("ncubble")
    for line in lines:
        terminalreporter.write_line(line)
    if skipped := len(terminalreporter.stats.get(_SKIPPED, ())):
        tests = "1 gated test was" if skipped == 1 else f"{skipped} gated tests were"
        terminalreporter.write_line(f"{tests} skipped, nothing was measured ({REQUIRED} makes that fail)", yellow=True)
    for path in recorded:
        terminalreporter.write_line(f"recorded {path}: review and commit it")
