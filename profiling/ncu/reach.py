"""What each command can do on a machine, by what was checked there: all, a part, or nothing.

Without permission for the counters most of the product still works: streams and traces need none,
and ``ablate`` measures time in place of cycles.
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
    """A check of the doctor that is not met, as far as it matters here."""

    @property
    def name(self) -> str:
        """What was checked."""

    @property
    def remedy(self) -> str:
        """What to do about it."""


@dataclass(frozen=True)
class CommandReach:
    """What of a command works here. ``how``: in what way, or what it lacks; ``fix``: what makes all
    of it work. Both are empty where it does."""

    commands: tuple[str, ...]
    works: Works
    how: str = ""
    fix: str = ""


@dataclass(frozen=True)
class _Rule:
    """Commands, what all of them takes, and what a part takes, with what it does then. ``shows``:
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
    _Rule(("check",), "profile", "view", "recorded reports only, not --profile and --against"),
    _Rule(("sweep",), "sweeps"),
    _Rule(
        ("ablate",),
        "profile",
        "gpu",
        "in time, not in cycles (--time), without estimates; needs nvdisasm and g++",
        True,
    ),
    _Rule(("program",), "profile", "gpu", "the time between kernels only, with --no-profile", True),
    _Rule(("tune",), "tuned", "kernels", "by times alone, without the advice of a profile"),
    _Rule(("trace",), "kernels", shows=True),
    _Rule(("streams",), "streams", "gpu", "programs that do not use Python; they need g++", True),
    _Rule(("verify",), "kernels", "compile", "only with --compile-only, which needs no GPU"),
    _Rule(("bench",), "kernels"),
)


def reach(lacking: Mapping[str, Sequence[LackingCheck]]) -> list[CommandReach]:
    """What every command can do. ``lacking``: for each need of the doctor, for ``gpu`` and
    for ``compile``, the checks that are not met."""
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
