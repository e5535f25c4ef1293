"""How the pytest plugin runs ncu: one program at a time, into a folder of the session, failures as test outcomes."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from ncubble.cli.pytest_plugin.plan import MeasurePlan
from ncubble.cli.pytest_plugin.settings import REQUIRE, REQUIRED, needs_gpu
from ncubble.errors import NcubbleError, UsageError
from ncubble.profiling import driver as device
from ncubble.profiling.ncu import Stream
from ncubble.profiling.recorders.ncu import NcuSettings, profile
from ncubble.profiling.runs import Run
from ncubble.profiling.session import Observer, Session
from ncubble.profiling.subject import Subject
from ncubble.store import lock

TURN_S = 3600.0
"""Seconds to wait for tests of other workers and sessions."""


def python(module: str, *arguments: str) -> list[str]:
    """The argv that runs a module of ncubble in this interpreter, never one of that name in the current folder."""
    return [sys.executable, "-P", "-m", f"ncubble.cli.pytest_plugin.{module}", *arguments]


def require_gpu(config: pytest.Config) -> None:
    """Skip the test on a machine without a GPU, or fail it there if that was asked for. A GPU that its driver cannot
    reach is no machine without one: ncu says what is wrong there."""
    try:
        device.describe()
    except device.DriverError as error:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES") == ""
        if any(Path("/dev").glob("nvidia[0-9]*")) and not hidden:
            fail(f"the machine has a GPU that cannot be used: {error}", "see `ncubble doctor`")
        if needs_gpu(config):
            fail(
                f"this machine has no GPU ({error}), and one is required",
                f"run on a machine with a GPU, or without {REQUIRED}, {REQUIRE} and --ncubble-no-gpu=fail",
            )
        pytest.skip(f"ncubble measured nothing: no GPU ({error})")


def fail(what: str, remedy: str = "") -> NoReturn:
    """End the test as failed because nothing was measured."""
    raise _failed(f"nothing measured: {what}", remedy) from None


def _failed(what: str, remedy: str) -> BaseException:
    return pytest.fail.Exception(f"ncubble: {what}" + (f"\n  remedy: {remedy}" if remedy else ""), pytrace=False)


@contextmanager
def folder(item: pytest.Item) -> Iterator[Path]:
    """An empty folder for the runs of one test: below ``--ncubble-runs`` and kept, else removed in the end."""
    kept: Path | None = item.config.getoption("--ncubble-runs")
    if kept is None:
        with tempfile.TemporaryDirectory(prefix="ncubble-") as scratch:
            yield Path(scratch)
        return
    digest = hashlib.sha256(item.nodeid.encode()).hexdigest()[:8]
    clean = re.sub(r"[^A-Za-z0-9._-]+", "-", item.nodeid.rpartition("/")[2]).strip("-.")[:80]
    place = item.config.rootpath / kept / f"{clean}-{digest}"
    place.mkdir(parents=True, exist_ok=True)
    yield place


def record(program: Sequence[str], out: Path, plan: MeasurePlan) -> Run:
    """Run a program under ncu as ``plan`` says; the run is then at ``out``. Two at once take turns, so that workers of
    one machine do not disturb each other. What the program prints goes to stdout and stderr. Raises NcubbleError."""
    session = Session(Subject(program), out, True, plan.timeout, Observer(output=_show))
    with lock(f"gpu-{os.environ.get('CUDA_VISIBLE_DEVICES', '')}", "the GPU and its profiler", TURN_S):
        return profile(session, NcuSettings(plan.metric_sets, filters=plan.filters))


def _show(stream: Stream, text: str) -> None:
    (sys.stdout if stream == "stdout" else sys.stderr).write(text)


@contextmanager
def refusals() -> Iterator[None]:
    """Errors of ncubble inside the block fail the test with their message and remedy, and without a traceback."""
    try:
        yield
    except NcubbleError as error:
        what = error.message if isinstance(error, UsageError) else f"nothing measured: {error.message}"
        raise _failed(what, error.remedy) from None
