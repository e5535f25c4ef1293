"""The search space of a kernel: all valid combinations of its parameters that compute the same."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ncubble.errors import UsageError
from ncubble.kernels.build.build import arch_for, case_for, check_arch
from ncubble.kernels.device.device import DeviceFacts
from ncubble.kernels.spec.case import Case, check_cluster, make_case
from ncubble.kernels.spec.spec import KernelSpec, Parameter, Value

MOST = 50_000
"""Maximum combinations that are enumerated."""
Point = tuple[int, ...]
"""A configuration: for each axis the index of its value."""


@dataclass(frozen=True)
class Space:
    """``axes``: the searched parameters. ``cases``: the valid configurations in grid order.
    ``start``: where the search begins. ``left_out``: parameters that are not searched, with
    reasons."""

    axes: tuple[Parameter, ...]
    cases: Mapping[Point, Case]
    start: Point
    left_out: Mapping[str, str]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Values of each axis."""
        return tuple(len(axis.choices) for axis in self.axes)

    @property
    def ordered(self) -> tuple[bool, ...]:
        """Whether each axis is ordered: axes of numbers are."""
        return tuple(all(isinstance(value, int) for value in axis.choices) for axis in self.axes)

    def settings(self, point: Point) -> dict[str, Value]:
        """The searched parameters of a configuration."""
        return {axis.name: axis.choices[index] for axis, index in zip(self.axes, point, strict=True)}

    def moved(self, point: Point, name: str, value: Value) -> Point | None:
        """The configuration with one value changed; None if invalid, or not in the space."""
        for number, axis in enumerate(self.axes):
            if axis.name == name and value in axis.choices:
                other = (*point[:number], axis.choices.index(value), *point[number + 1 :])
                return other if other in self.cases else None
        return None


def space_of(
    spec: KernelSpec,
    shape: Mapping[str, int],
    fixed: Mapping[str, Value],
    begin: Mapping[str, Value],
    device: DeviceFacts,
) -> Space:
    """The space of ``spec`` on ``device``. ``fixed`` parameters are not searched; the search begins
    at ``begin``, with defaults for the rest.

    Raises UsageError if nothing is left to search, the start is invalid, or there are more
    combinations than ``MOST``.
    """
    if spec.language == "host":
        raise UsageError(
            f"{spec.name} is driven by the host", "tune the kernel that it launches; `ncubble kernels` lists all"
        )
    if both := sorted(set(fixed) & set(begin)):
        raise UsageError(f"{', '.join(both)}: both fixed and searched", "use either -p or --start")
    asked = make_case(spec, {**fixed, **begin}, shape)
    first = case_for(asked, arch_for(*device.compute_capability), device.sm_count)
    if first.unverified is not None:
        raise UsageError(f"{first.label}: {first.unverified}", "start at a configuration that can be verified")
    _check_device(first, device)
    left_out = {item.name: "fixed by -p" for item in spec.parameters if item.name in fixed}
    free = [item for item in spec.parameters if item.name not in fixed]
    left_out |= {item.name: "defines what is computed" for item in free if item.problem and not item.tacit}
    held = [item.name for item in free if item.tacit and not item.problem]
    left_out |= {name: f"fixed at {first.parameters[name]}, its default here" for name in held}
    axes = tuple(item for item in free if not item.problem and not item.tacit and len(item.choices) > 1)
    if (count := math.prod(len(axis.choices) for axis in axes)) > MOST:
        raise UsageError(f"{spec.name} has {count} combinations, but at most {MOST} are searched", "fix some with -p")
    cases: dict[Point, Case] = {}
    for point in itertools.product(*(range(len(axis.choices)) for axis in axes)):
        chosen = {axis.name: axis.choices[index] for axis, index in zip(axes, point, strict=True)}
        case = _valid(first, {**first.parameters, **chosen}, device)
        if case is not None:
            cases[point] = case
    if len(cases) < 2:
        raise UsageError(f"{first.label}: has no other valid configuration", "fix fewer parameters with -p")
    start = tuple(axis.choices.index(first.parameters[axis.name]) for axis in axes)
    return Space(axes, cases, start, left_out)


def _valid(first: Case, parameters: Mapping[str, Value], device: DeviceFacts) -> Case | None:
    """The case of these parameters; None if it is invalid, cannot be verified, or does other
    work."""
    try:
        case = make_case(first.spec, parameters, first.shape)
        _check_device(case, device)
    except UsageError:
        return None
    same = (case.flops, case.bytes) == (first.flops, first.bytes)
    return case if same and case.unverified is None else None


def _check_device(case: Case, device: DeviceFacts) -> None:
    check_arch(case, arch_for(*device.compute_capability))
    check_cluster(case, case.grid_on(device.sm_count))
    if case.smem > device.smem_per_cta:
        message = f"{case.label}: {case.smem} bytes of shared memory per CTA, {device.name} has {device.smem_per_cta}"
        raise UsageError(message, "use fewer stages or a smaller tile")


def device_from(members: Mapping[str, Any]) -> DeviceFacts:
    """A device as another process described it."""
    return DeviceFacts(**{**members, "compute_capability": tuple(members["compute_capability"])})
