"""What each command can do on a machine, from the doctor's checks: everything, a part, or nothing.
Without permission for counters most commands still work: streams and traces need none, and
``ablate`` measures time instead of cycles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Works = Literal["yes", "partly", "no"]
READING = (
    *("report", "compare", "advise", "trend", "export", "dashboard", "demo", "skill"),
    *("baseline", "validate", "ingest", "query", "kernels", "augment", "note"),
)
"""Commands that work on recorded runs."""


class LackingCheck(Protocol):
    """An unmet check of the doctor."""

    @property
    def name(self) -> str:
        """Name of the check."""

    @property
    def remedy(self) -> str:
        """Remedy."""


@dataclass(frozen=True)
class CommandReach:
    """Reach of commands here. ``how``: what works, or what is missing; ``fix``: how to make
    everything work. Both are empty if everything works."""

    commands: tuple[str, ...]
    works: Works
    how: str = ""
    fix: str = ""


@dataclass(frozen=True)
class _Rule:
    """Commands, their full and partial requirements, and what works with the latter. ``shows``:
    they show recorded runs again, wherever runs can be viewed."""

    commands: tuple[str, ...]
    whole: str
    part: str = ""
    how: str = ""
    shows: bool = False


_RULES = (
    _Rule(READING, "view"),
    _Rule(("profile",), "profile"),
    _Rule(("mcp",), "agents"),
    _Rule(("check",), "profile", "view", "recorded reports only; no --profile or --against"),
    _Rule(("sweep",), "sweeps"),
    _Rule(
        ("ablate",),
        "profile",
        "gpu",
        "in time instead of cycles (--time), without estimates; needs nvdisasm and g++",
        True,
    ),
    _Rule(("program",), "profile", "gpu", "only the time between kernels, with --no-profile", True),
    _Rule(("tune",), "tuned", "kernels", "by timings only, without advice from profiles"),
    _Rule(("trace",), "kernels", shows=True),
    _Rule(("streams",), "streams", "gpu", "programs without Python; needs g++", True),
    _Rule(("verify",), "kernels", "compile", "only with --compile-only, which needs no GPU"),
    _Rule(("bench",), "kernels"),
)


def reach(lacking: Mapping[str, Sequence[LackingCheck]]) -> list[CommandReach]:
    """The reach of every command. ``lacking``: for each need of the doctor, for ``gpu`` and for
    ``compile``, the checks that are not met."""
    known = {**lacking, "tuned": [*lacking["kernels"], *lacking["profile"]]}
    return [_judged(rule, known) for rule in _RULES]


def _judged(rule: _Rule, lacking: Mapping[str, Sequence[LackingCheck]]) -> CommandReach:
    checks = lacking[rule.whole]
    if not checks:
        return CommandReach(rule.commands, "yes")
    if rule.part and not lacking[rule.part]:
        return CommandReach(rule.commands, "partly", rule.how, checks[0].remedy)
    first = lacking[rule.part] if rule.part else checks
    if rule.shows and not lacking["view"]:
        return CommandReach(rule.commands, "partly", "recorded runs only", first[0].remedy)
    names = ", ".join(dict.fromkeys(check.name for check in first))
    return CommandReach(rule.commands, "no", f"needs {names}", first[0].remedy)
