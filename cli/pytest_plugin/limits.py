"""Limits that hold for a gated test: those of the project's table (``gate_config``), then the test's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ncubble.analysis.gate.baseline.repeats import Repeats
from ncubble.analysis.gate.judge.limits import Limits
from ncubble.cli.commands.check.config import load
from ncubble.cli.pytest_plugin.plan import Gate

_TABLE = pytest.StashKey[Limits]()


def table(config: pytest.Config) -> Limits:
    """The limits that the project of pytest's root keeps, read once a session; none with ``--ncubble-no-config``.

    Raises NcubbleError for a table that says something wrong.
    """
    if _TABLE not in config.stash:
        ignored = config.getoption("--ncubble-no-config")
        config.stash[_TABLE] = Limits() if ignored else load(config.rootpath).limits
    return config.stash[_TABLE]


def limits_of(gate: Gate, config: pytest.Config, groups: Sequence[Repeats]) -> Limits:
    """The table's limits with ``gate``'s as the last word. Entries for kernels that this test did not launch are left
    out: other tests launch these, so that they are not missed here. Raises NcubbleError as ``table``."""
    kept = table(config)
    here = [one for one in kept.overrides if any(one.matches(group.key.label, group.key.kernel) for group in groups)]
    return replace(kept, overrides=tuple(here)).plus(gate.limits)


def any_absolute(limits: Limits, groups: Sequence[Repeats]) -> bool:
    """Whether some kernel has a limit that needs no baseline."""
    held = (limits.of(group.key.label, group.key.kernel).values() for group in groups)
    return any(rule.absolute for rules in held for metric in rules for rule in metric)
