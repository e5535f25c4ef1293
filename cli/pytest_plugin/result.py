"""Result of a gated test: the measured launches, and methods to gate them."""

from __future__ import annotations

from typing import Any

import pytest

from ncubble.cli.pytest_plugin.measured import Measured
from ncubble.cli.pytest_plugin.ncu import refusals
from ncubble.cli.pytest_plugin.plan import Gate, current, gate_of
from ncubble.cli.pytest_plugin.verdict import Judgement, check_request, judge, settle
from ncubble.errors import UsageError


class Result(Measured):
    """Measured launches, with methods to judge them."""

    def check(self, **options: Any) -> Judgement:
        """Judge the launches by ``min=``, ``baseline=``, ``rules=``; returns a ``Judgement`` and
        never fails the test."""
        return judge(self, _gate(options, self.item), self.item)

    def assert_tensor_util(self, **options: Any) -> None:
        """Fail the test unless the launches meet ``min=``, ``baseline=``, ``rules=``, as the marker
        does; with ``--ncubble-record``, record the baseline."""
        with refusals():
            settle(self, _gate(options, self.item), self.item)


def _gate(options: dict[str, Any], item: pytest.Item) -> Gate:
    known, options = ("min", "baseline", "rules"), current(options)
    if wrong := [name for name in options if name not in known]:
        raise UsageError(f"unknown option {', '.join(wrong)}", f"options: {', '.join(known)}")
    gate = gate_of(options)
    check_request(gate, item)
    return gate
