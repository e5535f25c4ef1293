"""What runs under ncu: ``python -m ncubble.cli.pytest_plugin.child ORDER``, one test in this process, its calls
inside ncu's window.

ORDER is a JSON file, written by ``gated``. What came of a test is written to the file that it names.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ncubble.cli.pytest_plugin.settings import INNER
from ncubble.profiling.driver import DriverError, measured

_OFF: dict[str, Any] = {
    **{"numprocesses": None, "dist": "no", "tx": [], "looponfail": False, "loadgroup": False},  # pytest-xdist
    **{"keyword": "", "markexpr": "", "deselect": None, "pyargs": False, "maxfail": 0},
    **{"lf": False, "failedfirst": False, "newfirst": False, "stepwise": False, "stepwise_skip": False},
    **{"cacheclear": False, "usepdb": False, "trace": False, "reruns": 0, "log_file": os.devnull},
    **{"xmlpath": None, "report_log": None, "htmlpath": None, "json_report": False, "allure_report_dir": None},
}
"""Options of the outer session that select tests or write files; the inner session runs one known
test and writes nothing."""


def window(wanted: bool, note: Callable[[str], object]) -> ExitStack:
    """An open window of ncu, which ends with the block; or nothing where none is ``wanted``.

    Where the driver cannot be told, ``note`` hears why: ncu then measures nothing, and says so.
    """
    stack = ExitStack()
    try:
        if wanted:
            stack.enter_context(measured())
    except DriverError as error:
        note(f"the start of the measurement could not be signalled to the driver: {error}")
    return stack


class Inner:
    """Runs the one test that ``order`` names, ``repeats`` times inside the window, and notes what came of it."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.__name__ = INNER  # the name that pytest registers it under
        self.order = order
        self.phases: list[dict[str, str]] = []
        self.notes: list[str] = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> Generator[None, Any, Any]:
        """Point the session at the test's file, before any plugin acts on its options."""
        for name, value in _OFF.items():
            if hasattr(config.option, name):
                setattr(config.option, name, value)
        config.option.basetemp = self.order["basetemp"]
        config.args = [self.order["file"]]
        if (worker := self.order["worker"]) is not None:
            config.workerinput, config.workeroutput = worker, {}  # type: ignore[attr-defined]
        return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Without a terminal: the outer session reports."""
        config.pluginmanager.unregister(name="terminalreporter")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the one test."""
        items[:] = [item for item in items if item.nodeid == self.order["nodeid"]][:1]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be imported has no tests: say why."""
        if report.failed:
            self._note("collect", "failed", report.longreprtext)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Call the test ``warmup`` times, then ``repeats`` times inside the window; the last is pytest's own call."""
        for _ in range(self.order["warmup"]):
            item.runtest()
        with window(self.order["window"], self.notes.append):
            for _ in range(self.order["repeats"] - 1):
                item.runtest()
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        """Note how a phase ended: by the exception, which is there once pytest has fetched that of a ``unittest`` case.
        Markers such as xfail are left to the outer session."""
        report = yield
        error = call.excinfo
        if error is None:
            self._note(call.when, "passed", "")
        elif error.errisinstance(pytest.skip.Exception):
            self._note(call.when, "skipped", str(error.value))
        elif error.errisinstance(pytest.xfail.Exception):
            self._note(call.when, "xfailed", str(error.value))
        else:
            self._note(call.when, "failed", str(item.repr_failure(error)))
        return report

    def _note(self, when: str, outcome: str, text: str) -> None:
        self.phases.append({"when": when, "outcome": outcome, "text": text})


def main(path: str) -> int:
    """Run the test of the order at ``path``; 0 unless it failed or did not run."""
    order = json.loads(Path(path).read_text(encoding="utf-8"))
    sys.path[:] = order["path"]
    os.chdir(order["folder"])
    inner = Inner(order)
    pytest.main(order["arguments"], plugins=[inner])
    ended = {"phases": inner.phases, "notes": inner.notes}
    Path(order["outcome"]).write_text(json.dumps(ended), encoding="utf-8")
    outcomes = {phase["outcome"] for phase in inner.phases}
    return 0 if outcomes and "failed" not in outcomes else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
