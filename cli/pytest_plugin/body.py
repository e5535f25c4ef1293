"""A gated test that launches kernels itself: its body runs in a process under ncu, and here it is judged."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ncubble.cli.pytest_plugin.plan import MeasurePlan, gate_of, options_of, plan_of
from ncubble.cli.pytest_plugin.settings import MARKER
from ncubble.errors import MeasurementError


def take_over(item: pytest.Item) -> None:
    """Have ``item`` measured instead of called. Its fixtures are set up in the process under ncu, not in this one."""

    def runtest() -> None:
        _measure(item)

    vars(item).update(setup=lambda: None, runtest=runtest, teardown=lambda: None)


def _measure(item: pytest.Item) -> None:
    """Run the test under ncu and hold its launches to the marker; raises the outcome."""
    from ncubble.cli.pytest_plugin import ncu as pytest_ncu
    from ncubble.cli.pytest_plugin import verdict as pytest_verdict
    from ncubble.cli.pytest_plugin.result import Result

    marker = item.get_closest_marker(MARKER)
    assert marker is not None  # noqa: S101 (only marked tests are taken over)
    with pytest_ncu.refusals():
        gate, plan = gate_of(options_of(marker)), plan_of(options_of(marker))
        pytest_verdict.check_request(gate, item)
    pytest_ncu.require_gpu(item.config)
    with pytest_ncu.folder(item) as folder, pytest_ncu.refusals():
        place = _run(item, plan, folder)
        result = Result.read([place], item)
        result.profiled = True
        result.refuse_suspicious()
        pytest_verdict.settle(result, gate, item)


def _run(item: pytest.Item, plan: MeasurePlan, folder: Path) -> Path:
    """Profile the test into ``folder``. What the test says for itself (failed, skipped) is this test's outcome."""
    from ncubble.cli.pytest_plugin import ncu as pytest_ncu

    outcome, place = folder / "outcome.json", folder / "run"
    outcome.unlink(missing_ok=True)
    order = folder / "order.json"
    order.write_text(json.dumps(_order(item, plan, folder, outcome)), encoding="utf-8")
    problem: MeasurementError | None = None
    try:
        pytest_ncu.record(pytest_ncu.python("inner", str(order), item.nodeid), place, plan)
    except MeasurementError as error:
        problem = error
    ended = json.loads(outcome.read_text(encoding="utf-8")) if outcome.is_file() else {"phases": [], "notes": []}
    _pass_on(ended["phases"], problem)
    if problem is not None:
        raise _explained(problem, plan, ended["notes"])
    return place


def _order(item: pytest.Item, plan: MeasurePlan, folder: Path, outcome: Path) -> dict[str, Any]:
    """What the inner process needs to find the test again, as JSON."""
    params = item.config.invocation_params
    arguments = ["--capture=no", *(str(text) for text in params.args)]
    if item.config.pluginmanager.hasplugin("pytest_cov"):
        arguments.append("--no-cov")
    worker = getattr(item.config, "workerinput", None)
    return {
        "nodeid": item.nodeid,
        "file": str(item.path),
        "arguments": arguments,
        "folder": str(params.dir),
        "path": sys.path,
        "worker": _plain(worker) if worker is not None else None,
        "basetemp": str(folder / "tmp"),
        "outcome": str(outcome),
        "warmup": plan.warmup if plan.scope == "call" else 0,
        "repeats": plan.repeats,
        "window": plan.scope == "call",
    }


def _plain(worker: dict[str, Any]) -> dict[str, Any]:
    """What of pytest-xdist's input to a worker can be written as JSON."""
    return {name: value for name, value in worker.items() if isinstance(value, str | int | float | list | None)}


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
    remedy = (
        "launch it in the test's body, or correct kernel=; to also count launches of fixtures and child processes, use "
    )
    return MeasurementError(f"no kernel{chosen} was launched {where}{ran}{remarks}", f"{remedy}scope='process'")
