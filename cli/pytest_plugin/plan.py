"""Request of a gated test: how to measure (``MeasurePlan``) and what to require (``Gate``)."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ncubble.errors import UsageError
from ncubble.profiling.metrics.metrics import DEFAULT_SETS
from ncubble.profiling.ncu import Filters

if TYPE_CHECKING:
    from ncubble.analysis.gate.rules import GateRule

REPEATS = 5
SCOPES = ("call", "process")


@dataclass(frozen=True)
class MeasurePlan:
    """How to measure launches. ``repeats`` calls are measured after ``warmup`` unmeasured ones.
    With ``scope`` ``process`` all launches of the process and its children are measured, including
    imports and fixtures, without warm-up calls. ``kernel`` (a regular expression) and ``nvtx`` (an
    include expression of ncu) select launches; ``timeout`` is in seconds. Raises UsageError.
    """

    kernel: str = ""
    repeats: int = REPEATS
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


@dataclass(frozen=True)
class Gate:
    """Requirements on launches. ``min``: percent of elapsed cycles in which the tensor pipe is
    active, on the mean over the launches of each kernel. ``baseline``: folder of baselines or one
    file, relative to pytest's root, in which ``{test}`` stands for the test's name with its
    parameters. ``rules``: as in ``check.rules``; absolute ones need no baseline. Raises UsageError.
    """

    min: float | None = None
    baseline: str | None = None
    rules: tuple[GateRule, ...] = ()

    def __post_init__(self) -> None:
        number = type(self.min) in (int, float)
        if self.min is not None and not (number and 0 < self.min <= 100):
            raise UsageError(f"min={self.min!r}: not a percentage above 0", "for example min=50 for half of the cycles")

    def place(self, item: pytest.Item) -> Path:
        """Folder or file of the baselines of a test."""
        from ncubble.analysis.report.launch_key import slug

        return item.config.rootpath / str(self.baseline).replace("{test}", slug(item.name))

    def require(self) -> None:
        """Raise UsageError where nothing could fail, or a limit lacks the baseline that it is told from."""
        if self.min is None and not self.baseline and not self.rules:
            raise UsageError(
                "the gate has none of min, baseline and rules: it could never fail",
                "pass at least one of min=, baseline=, rules=",
            )
        relative = [rule.text for rule in self.rules if not rule.absolute]
        if relative and not self.baseline:
            raise UsageError(
                f"rules= {', '.join(map(repr, relative))}: a baseline is needed, but none is given",
                "pass baseline=, or only absolute limits: rules=['data_wait <= 10', 'cycles <= 2e6']",
            )


_GATE = tuple(item.name for item in fields(Gate))
_PLAN = tuple(item.name for item in fields(MeasurePlan))


def gate_of(options: Mapping[str, Any]) -> Gate:
    """The gate among the options of a marker or a call; raises UsageError."""
    given = {name: options[name] for name in _GATE if options.get(name) is not None}
    if "baseline" in given:
        given["baseline"] = str(given["baseline"])
    if "rules" in given:
        given["rules"] = _rules(given["rules"])
    return Gate(**given)


def plan_of(options: Mapping[str, Any]) -> MeasurePlan:
    """The plan among the options of a marker or a call; raises UsageError."""
    return MeasurePlan(**{name: options[name] for name in _PLAN if name in options})


def options_of(marker: pytest.Mark) -> dict[str, Any]:
    """The options of a marker; raises UsageError for one that it does not have."""
    if marker.args:
        raise UsageError(f"{marker.name}: {marker.args[0]!r} has no name", "pass options by name, for example min=50")
    known, given = (*_GATE, *_PLAN), current(marker.kwargs)
    if wrong := [name for name in given if name not in known]:
        raise UsageError(f"{marker.name}: unknown option {', '.join(wrong)}", f"options: {', '.join(known)}")
    return given


def current(options: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` with today's names: ``limits`` of 0.1 is ``rules``, which is said by a warning; raises UsageError."""
    if "limits" not in options:
        return dict(options)
    if "rules" in options:
        raise UsageError("both rules= and its old name limits= are given", "put both under rules=")
    warnings.warn("limits= is now called rules=; the next version drops the old name", DeprecationWarning, stacklevel=2)
    return {("rules" if name == "limits" else name): value for name, value in options.items()}


def _rules(given: Any) -> tuple[GateRule, ...]:
    from ncubble.analysis.gate.rules import parse_all

    if isinstance(given, Mapping):
        return parse_all(f"{name} {value}%" for name, value in given.items())
    if isinstance(given, (list, tuple)) and all(isinstance(text, str) for text in given):
        return parse_all(given)
    raise UsageError(f"rules={given!r}: not a list of rules", "write rules=['cycles 3%', 'data_wait +2']")


def importable(target: Any, what: str = "the callable") -> tuple[str, str, str]:
    """Module, qualified name and file by which another process finds ``target``; raises UsageError with the remedy."""
    import sys

    name = getattr(target, "__qualname__", "")
    module = sys.modules.get(getattr(target, "__module__", None) or "")
    where = f"{getattr(module, '__name__', '?')}.{name or type(target).__name__}"
    if "<" in name:
        kind = "a lambda" if "<lambda>" in name else "defined inside a function"
        raise _refused(what, where, f"it is {kind}")
    if inspect.ismethod(target) and not inspect.isclass(target.__self__):
        raise _refused(what, where, "it is bound to an object of this process")
    resolved: Any = module
    for part in name.split(".") if name else ():
        resolved = getattr(resolved, part, None)
    if not name or module is None or resolved != target:
        raise _refused(what, where, "no module has it under its name")
    return module.__name__, name, str(getattr(module, "__file__", None) or "")


def _refused(what: str, where: str, why: str) -> UsageError:
    return UsageError(
        f"{what} {where} cannot be called in another process, which ncu must start: {why}",
        (
            "define a function at module level and pass its inputs as arguments; or mark a test with "
            "tensor_util that launches the kernel itself, without the fixture"
        ),
    )
