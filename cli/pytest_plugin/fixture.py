"""The fixture ``ncubble``: profiles callables, programs and catalog kernels, and reads reports."""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from ncubble.cli.pytest_plugin import ncu as pytest_ncu
from ncubble.cli.pytest_plugin.plan import MeasurePlan, gate_of, importable, options_of, plan_of
from ncubble.cli.pytest_plugin.result import Result
from ncubble.cli.pytest_plugin.settings import MARKER
from ncubble.errors import UsageError
from ncubble.text.markup import printable

_MOST_NAMED = 20


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
        target: Callable[..., object] | Sequence[str],
        *arguments: Any,
        setup: Callable[[], object] | None = None,
        **options: Any,
    ) -> Result:
        """Launches of a callable, or of a program (a list of texts), measured under ncu.

        A callable is called in a separate process as ``target(*arguments)``: it must be importable
        there by module and name, and the arguments must be picklable. ``setup`` is called first,
        unmeasured; its result (a tuple, or one value) precedes ``arguments``. A repeat is one call.
        A program is run completely once per repeat. ``options`` are those of ``MeasurePlan``:
        kernel, repeats, warmup, nvtx, scope, sets, timeout.
        """
        with pytest_ncu.refusals():
            plan = self._plan(options)
            if callable(target):
                argv, runs = self._call(target, arguments, setup, plan), 1
            else:
                argv, runs = _program(target, arguments, setup), plan.repeats
                plan = replace(plan, scope="process")
        return self._measured(argv, plan, runs)

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
        with pytest_ncu.refusals():
            plan = self._plan(options)
            chosen = plan.kernel or _entry(name, shape, catalog, parameters)
        argv = [sys.executable, "-P", "-m", "ncubble.kernels", name, "--once", "--no-verify"]
        argv += ["--launches", str(plan.repeats)]
        argv += [text for key, value in (parameters or {}).items() for text in ("-p", f"{key}={value}")]
        argv += ["--shape", ",".join(f"{key}={value}" for key, value in shape.items())] if shape else []
        argv += ["--catalog", str(catalog)] if catalog else []
        return self._measured(argv, replace(plan, scope="process", kernel=chosen), 1)

    def report(self, *paths: Path | str, kernel: str = "") -> Result:
        """Launches of run directories, report files (``.ncu-rep``, ``.ncu-repz``), or folders of
        them, relative to pytest's root. ``kernel`` (default: the marker's) is a regular expression
        over name and label. Needs no GPU."""
        with pytest_ncu.refusals():
            plan = self._plan({"kernel": kernel} if kernel else {})
            result = Result.read([self._item.config.rootpath / path for path in paths], self._item, plan.kernel)
            return self._checked(result)

    def hold(self, marker: pytest.Mark) -> None:
        """Hold everything that was measured to a marker; called when the test's body has passed."""
        from ncubble.cli.pytest_plugin import verdict as pytest_verdict

        with pytest_ncu.refusals():
            gate = gate_of(options_of(marker))
            if not self._results:
                pytest_ncu.fail("the test called none of profile, catalog and report", "call one of them in its body")
            for result in self._results:
                pytest_verdict.settle(result, gate, self._item)

    def _plan(self, options: Mapping[str, Any]) -> MeasurePlan:
        """Options of the call over those of the marker, whose gate must be one before anything is measured."""
        from ncubble.cli.pytest_plugin import verdict as pytest_verdict

        marker = self._item.get_closest_marker(MARKER)
        marked = options_of(marker) if marker is not None else {}
        if marker is not None:
            pytest_verdict.check_request(gate_of(marked), self._item)
        given = {**marked, **options}
        known = MeasurePlan.__dataclass_fields__
        if wrong := [name for name in options if name not in known]:
            raise UsageError(f"unknown option {', '.join(wrong)}", f"options: {', '.join(known)}")
        return plan_of(given)

    def _call(
        self,
        target: Callable[..., object],
        arguments: Sequence[Any],
        setup: Callable[[], object] | None,
        plan: MeasurePlan,
    ) -> list[str]:
        """The argv that calls ``target`` in another process; raises UsageError where that cannot be done."""
        try:
            pickled = pickle.dumps(tuple(arguments))
        except Exception as error:  # whatever an argument's own __reduce__ raises
            raise UsageError(
                f"the arguments cannot be passed to another process ({error})",
                "create them there, in setup=FUNCTION, whose result is passed on",
            ) from error
        order = {
            "target": importable(target),
            "setup": importable(setup, "setup") if setup is not None else None,
            "arguments": pickled.hex(),
            "path": sys.path,
            "warmup": plan.warmup if plan.scope == "call" else 0,
            "repeats": plan.repeats,
            "window": plan.scope == "call",
        }
        path = self._place("order.json")
        path.write_text(json.dumps(order), encoding="utf-8")
        return pytest_ncu.python("call", str(path))

    def _place(self, name: str) -> Path:
        """A path of that name, with the number of the measurement, in the folder of this test."""
        if self._folder is None:
            self._folder = self._stack.enter_context(pytest_ncu.folder(self._item))
        return self._folder / f"{len(self._results)}-{name}"

    def _measured(self, argv: Sequence[str], plan: MeasurePlan, runs: int) -> Result:
        pytest_ncu.require_gpu(self._item.config)
        with pytest_ncu.refusals():
            places = [self._place(f"run{number}") for number in range(runs)]
            for place in places:
                pytest_ncu.record(argv, place, plan)
            result = self._checked(Result.read(places, self._item))
            result.profiled = True
            return result

    def _checked(self, result: Result) -> Result:
        if not result.kernels:
            pytest_ncu.fail(*_nothing(result))
        result.refuse_suspicious()
        self._results.append(result)
        return result


def _nothing(result: Result) -> tuple[str, str]:
    """Why reports gave no launch, and the remedy."""
    why = [message if path in message else f"{path}: {message}" for path, message in result.errors]
    remedies = list(result.remedies)
    if ran := [printable(label) for label in result.others]:
        more = f" and {len(ran) - _MOST_NAMED} more" if len(ran) > _MOST_NAMED else ""
        why.append(f"no launch matches kernel={result.wanted!r}; these ran: {', '.join(ran[:_MOST_NAMED])}{more}")
        remedies.append("correct kernel=")
    if not why:
        return "the reports have no launches", "correct the path; `ncubble report` shows the content of a report"
    return "; ".join(why), "; ".join(remedies)


def _program(target: Sequence[str], arguments: Sequence[Any], setup: object) -> list[str]:
    argv = [os.fspath(text) for text in target] if not isinstance(target, str) else []
    if not argv or arguments or setup is not None:
        raise UsageError(f"{target!r} is neither a callable nor an argv", "pass a function, or a list: [program, …]")
    return argv


def _entry(
    name: str, shape: Mapping[str, int] | None, catalog: Path | None, parameters: Mapping[str, Any] | None
) -> str:
    """The kernel function of a catalog kernel; raises UsageError for one that there is not."""
    from ncubble.kernels.run.session import KernelRequest

    return KernelRequest(name, dict(parameters or {}), dict(shape or {}), catalog).case().spec.entry
