"""How a gated test is measured: its body, or what it gives to the fixture ``ncubble``, runs in a process under ncu."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import pytest

from ncubble.cli.pytest_plugin.result import (
    OPTIONS,
    Result,
    check_request,
    failed,
    gate_of,
    refusals,
    refuse_unknown,
    settle,
)
from ncubble.cli.pytest_plugin.settings import MARKER, REQUIRE, REQUIRED
from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling import driver as device
from ncubble.profiling.metrics.metrics import DEFAULT_SETS
from ncubble.profiling.ncu import Filters
from ncubble.profiling.processes import Stream
from ncubble.profiling.recorders.ncu import NcuSettings, profile
from ncubble.profiling.runs import Run
from ncubble.profiling.session import Observer, Session
from ncubble.profiling.subject import Subject
from ncubble.store import lock
from ncubble.text.markup import printable
from ncubble.text.values import file_name, some

SCOPES = ("call", "process")
TURN_S = 3600.0
"""Seconds to wait for tests of other workers and sessions."""
_MOST_NAMED = 20


@dataclass(frozen=True)
class MeasurePlan:
    """How to measure launches. ``repeats`` calls are measured after ``warmup`` unmeasured ones.
    With ``scope`` ``process`` all launches of the process and its children are measured, including
    imports and fixtures, without warm-up calls. ``kernel`` (a regular expression) and ``nvtx`` (an
    include expression of ncu) select launches; ``timeout`` is in seconds. Raises UsageError.
    """

    kernel: str = ""
    repeats: int = 5
    warmup: int = 1
    nvtx: str = ""
    scope: str = "call"
    sets: Sequence[str] | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        if type(self.repeats) is not int or self.repeats < 1:
            raise UsageError(f"repeats={self.repeats!r}: not a number of calls", "use 1 or more; a gate needs 5")
        if type(self.warmup) is not int or self.warmup < 0:
            raise UsageError(f"warmup={self.warmup!r}: not a number of calls", "use 0 or more")
        if self.scope not in SCOPES:
            raise UsageError(f"scope={self.scope!r}", f"choose one of {', '.join(SCOPES)}")
        if isinstance(self.sets, str):
            raise UsageError(f"sets={self.sets!r}: a single string", f"pass a list: sets=[{self.sets!r}]")
        _ = self.filters

    @property
    def filters(self) -> Filters:
        """Which launches ncu profiles."""
        return Filters(self.kernel, self.nvtx, window=self.scope == "call")

    @property
    def metric_sets(self) -> Sequence[str]:
        """Metric sets by name: the default ones unless others were chosen."""
        return tuple(self.sets or DEFAULT_SETS)

    @property
    def order(self) -> dict[str, Any]:
        """What the process under ncu is told of it."""
        window = self.scope == "call"
        return {"path": sys.path, "warmup": self.warmup if window else 0, "repeats": self.repeats, "window": window}

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> MeasurePlan:
        """The plan among the options of a marker or a call; raises UsageError."""
        return cls(**{name: options[name] for name in cls.__dataclass_fields__ if name in options})


def options_of(marker: pytest.Mark) -> dict[str, Any]:
    """The options of a marker; raises UsageError for one that it does not have."""
    if marker.args:
        raise UsageError(f"{marker.name}: {marker.args[0]!r} has no name", "pass options by name, for example min=50")
    given = dict(marker.kwargs)
    refuse_unknown(given, (*OPTIONS, *MeasurePlan.__dataclass_fields__), f"{marker.name}: ")
    return given


def take_over(item: pytest.Item) -> None:
    """Have ``item`` measured instead of called. Its fixtures are set up in the process under ncu, not in this one."""

    def runtest() -> None:
        marker = item.get_closest_marker(MARKER)
        assert marker is not None  # noqa: S101 (only marked tests are taken over)
        with refusals():
            options = options_of(marker)
            gate, plan = gate_of(options), MeasurePlan.of(options)
            check_request(gate, item)
        require_gpu(item.config)
        with _folder(item) as folder, refusals():
            result = Result([_run(item, plan, folder)], item)
            result.profiled = True
            result.refuse_suspicious()
            settle(result, gate, item)

    vars(item).update(setup=lambda: None, runtest=runtest, teardown=lambda: None)


def _run(item: pytest.Item, plan: MeasurePlan, folder: Path) -> Path:
    """Profile the test into ``folder``. What the test says for itself (failed, skipped) is this test's outcome."""
    outcome, place, order = folder / "outcome.json", folder / "run", folder / "order.json"
    outcome.unlink(missing_ok=True)
    params, worker = item.config.invocation_params, getattr(item.config, "workerinput", None)
    no_cov = ["--no-cov"] if item.config.pluginmanager.hasplugin("pytest_cov") else []
    told = {
        "nodeid": item.nodeid,
        "file": str(item.path),
        "arguments": ["--capture=no", *map(str, params.args), *no_cov],
        "folder": str(params.dir),
        "worker": worker and {key: value for key, value in worker.items() if isinstance(value, _PLAIN)},
        "basetemp": str(folder / "tmp"),
        "outcome": str(outcome),
    }
    order.write_text(json.dumps({**plan.order, **told}), encoding="utf-8")
    problem: MeasurementError | None = None
    try:
        record([*_CHILD, str(order), item.nodeid], place, plan)
    except MeasurementError as error:
        problem = error
    ended = json.loads(outcome.read_text(encoding="utf-8")) if outcome.is_file() else {"phases": [], "notes": []}
    _pass_on(ended["phases"], problem)
    if problem is not None:
        raise _explained(problem, plan, ended["notes"])
    return place


_CHILD = (sys.executable, "-P", "-m", "ncubble.cli.pytest_plugin.child")
"""Runs an order in this interpreter, never in a module of that name in the current folder."""
_PLAIN = (str, int, float, list, type(None))
"""What of pytest-xdist's input to a worker can be written as JSON."""


def _pass_on(phases: list[dict[str, str]], problem: MeasurementError | None) -> None:
    """Fail, skip or xfail as the inner test did."""
    for phase in phases:
        if phase["outcome"] == "failed":
            pytest.fail(f"the test failed under ncu ({phase['when']}):\n{phase['text']}", pytrace=False)
    for phase in phases:
        if phase["outcome"] == "skipped":
            pytest.skip(phase["text"])
        if phase["outcome"] == "xfailed":
            pytest.xfail(phase["text"])
    if not phases and problem is None:
        raise MeasurementError("the test was not found in the process under ncu", "run it alone: pytest NODEID")


def _explained(problem: MeasurementError, plan: MeasurePlan, notes: list[str]) -> MeasurementError:
    """``problem`` with what the plugin knows of it beside ncu: where launches would have counted."""
    from ncubble.profiling.failures import NoKernelError

    if not isinstance(problem, NoKernelError):
        return problem
    where = "inside the test's call" if plan.scope == "call" else "by the process"
    ran = f"; these ran: {', '.join(problem.ran)}" if problem.ran else ""
    named = {f"kernel={plan.kernel!r}": plan.kernel, f"nvtx={plan.nvtx!r}": plan.nvtx}
    filters = " and ".join(text for text, given in named.items() if given)
    chosen = f" that matches {filters}" if filters else ""
    remarks = "".join(f"\n  note: {note}" for note in notes)
    remedy = "launch it in the test's body, or correct kernel=; to also count launches of fixtures and child processes,"
    return MeasurementError(f"no kernel{chosen} was launched {where}{ran}{remarks}", f"{remedy} use scope='process'")


class Profiler:
    """Measures targets for a test. Each call returns a ``Result``; if nothing could be measured the
    test fails, and on a machine without a GPU it is skipped (``report`` needs none)."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._results: list[Result] = []
        self._stack = ExitStack()
        self._folder: Path | None = None

    def __enter__(self) -> Profiler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def profile(
        self,
        program: Sequence[str | Path],
        **options: Any,
    ) -> Result:
        """Launches of a program (a list of texts), measured under ncu; it is run completely once
        per repeat. ``options`` are those of ``MeasurePlan``: kernel, repeats, nvtx, sets, timeout.
        """
        with refusals():
            plan = replace(self._plan(options), scope="process")
            if isinstance(program, str) or not isinstance(program, Sequence) or not program:
                remedy = "pass a list: [program, …]; to measure what a test calls, mark it with tensor_util"
                raise UsageError(f"{program!r} is not an argv", remedy)
        return self._measured([os.fspath(part) for part in program], plan, plan.repeats)

    def catalog(
        self,
        name: str,
        shape: Mapping[str, int] | None = None,
        catalog: Path | None = None,
        parameters: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Result:
        """Launches of a catalog kernel, or of a kernel of your own ``catalog`` (a folder). A repeat
        is one launch."""
        from ncubble.api.subjects import as_pairs, catalog_subject

        with refusals():
            plan = self._plan(options)
            subject = catalog_subject(name, [*as_pairs(parameters), *as_pairs(shape)], catalog, plan.repeats)
        return self._measured(subject.argv, replace(plan, scope="process", kernel=plan.kernel or subject.function), 1)

    def report(self, *paths: Path | str, kernel: str = "") -> Result:
        """Launches of run directories, report files (``.ncu-rep``, ``.ncu-repz``), or folders of
        them, relative to pytest's root. ``kernel`` (default: the marker's) is a regular expression
        over name and label. Needs no GPU."""
        with refusals():
            plan = self._plan({"kernel": kernel} if kernel else {})
            return self._checked([self._item.config.rootpath / path for path in paths], plan.kernel)

    def hold(self, marker: pytest.Mark) -> None:
        """Hold everything that was measured to a marker; called when the test's body has passed."""
        with refusals():
            gate = gate_of(options_of(marker))
            if not self._results:
                _fail("the test called none of profile, catalog and report", "call one of them in its body")
            for result in self._results:
                settle(result, gate, self._item)

    def _plan(self, options: Mapping[str, Any]) -> MeasurePlan:
        """Options of the call over those of the marker, whose gate must be one before anything is measured."""
        marker = self._item.get_closest_marker(MARKER)
        marked = options_of(marker) if marker is not None else {}
        if marker is not None:
            check_request(gate_of(marked), self._item)
        refuse_unknown(options, MeasurePlan.__dataclass_fields__)
        return MeasurePlan.of({**marked, **options})

    def _place(self, name: str) -> Path:
        """A path of that name, with the number of the measurement, in the folder of this test."""
        if self._folder is None:
            self._folder = self._stack.enter_context(_folder(self._item))
        return self._folder / f"{len(self._results)}-{name}"

    def _measured(self, argv: Sequence[str], plan: MeasurePlan, runs: int) -> Result:
        require_gpu(self._item.config)
        with refusals():
            places = [self._place(f"run{number}") for number in range(runs)]
            for place in places:
                record(argv, place, plan)
            result = self._checked(places)
            result.profiled = True
            return result

    def _checked(self, paths: Sequence[Path], kernel: str = "") -> Result:
        """The launches in ``paths``; raises MeasurementError where there is none, or one is suspicious."""
        result = Result(paths, self._item, kernel)
        if not result.kernels:
            raise MeasurementError(*_nothing(result))
        result.refuse_suspicious()
        self._results.append(result)
        return result


def _nothing(result: Result) -> tuple[str, str]:
    """Why reports gave no launch, and the remedy."""
    why = [message if path in message else f"{path}: {message}" for path, message in result.errors]
    remedies = list(result.remedies)
    if ran := [printable(label) for label in result.others]:
        why.append(f"no launch matches kernel={result.wanted!r}; these ran: {some(ran, _MOST_NAMED)}")
        remedies.append("correct kernel=")
    if not why:
        return "the reports have no launches", "correct the path; `ncubble report` shows the content of a report"
    return "; ".join(why), "; ".join(remedies)


def require_gpu(config: pytest.Config) -> None:
    """Skip the test on a machine without a GPU, or fail it there if that was asked for. A GPU that its driver cannot
    reach is no machine without one: ncu says what is wrong there."""
    try:
        device.describe()
    except device.DriverError as error:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES") == ""
        if any(Path("/dev").glob("nvidia[0-9]*")) and not hidden:
            _fail(f"the machine has a GPU that cannot be used: {error}", "see `ncubble doctor`")
        if os.environ.get(REQUIRE) or config.getoption(REQUIRED):
            _fail(
                f"this machine has no GPU ({error}), and one is required",
                f"run on a machine with a GPU, or without {REQUIRED} and {REQUIRE}",
            )
        pytest.skip(f"ncubble measured nothing: no GPU ({error})")


def _fail(what: str, remedy: str) -> NoReturn:
    """End the test as failed because nothing was measured."""
    raise failed(f"nothing measured: {what}", remedy) from None


@contextmanager
def _folder(item: pytest.Item) -> Iterator[Path]:
    """An empty folder for the runs of one test: below ``--ncubble-runs`` and kept, else removed in the end."""
    kept: Path | None = item.config.getoption("--ncubble-runs")
    if kept is None:
        with tempfile.TemporaryDirectory(prefix="ncubble-") as scratch:
            yield Path(scratch)
        return
    digest = hashlib.sha256(item.nodeid.encode()).hexdigest()[:8]
    place = item.config.rootpath / kept / f"{file_name(item.nodeid.rpartition('/')[2], 80)}-{digest}"
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
