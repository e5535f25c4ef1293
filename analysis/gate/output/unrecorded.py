"""Kernels without a baseline, in one line where they are many: the first check of a project meets
dozens."""

from __future__ import annotations

from collections.abc import Sequence

from ncubble.analysis.gate.check.result import GateResult, KernelVerdict

FEW = 3
"""So many kernels without a baseline are still shown each; of more, as many are named."""


def shown_kernels(result: GateResult) -> list[KernelVerdict]:
    """The kernels that get rows of their own."""
    folded = _folded(result)
    return [kernel for kernel in result.kernels if kernel not in folded]


def unrecorded_lines(result: GateResult) -> list[str]:
    """A sentence on the kernels that get no row, and one on those that ``--allow-new`` accepts."""
    lines = []
    if folded := _folded(result):
        unread = " among what could be read" if any(kernel.unread for kernel in folded) else ""
        remedy = "" if unread else "; record them with `ncubble baseline record`"
        names = _named([kernel.label for kernel in folded])
        lines.append(f"{len(folded)} kernels have no baseline{unread}: {names}{remedy}")
    if result.unrecorded:
        lines.append(f"without baseline: {_named(result.unrecorded)}")
    return lines


def _folded(result: GateResult) -> list[KernelVerdict]:
    kernels = [kernel for kernel in result.kernels if kernel.unrecorded]
    return kernels if len(kernels) > FEW else []


def _named(labels: Sequence[str]) -> str:
    """``a; b; c; and 58 more``; all where there is only one more."""
    rest = len(labels) - FEW
    return "; ".join(labels if rest <= 1 else [*labels[:FEW], f"and {rest} more"])
