"""All configurations of a kernel that compute the same: what its parameters may be changed to."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from ncubble.errors import UsageError
from ncubble.kernels.build import arch_for, case_for, check_arch
from ncubble.kernels.run.device import DeviceFacts
from ncubble.kernels.spec.case import Case, check_cluster, make_case
from ncubble.kernels.spec.spec import KernelSpec, Parameter, Value

MOST = 50_000
"""Maximum combinations that are enumerated."""


@dataclass(frozen=True)
class Space:
    """All valid combinations of a kernel's parameters that compute the same. ``axes``: the
    parameters that may change. ``cases``: the configurations by the values of the axes. ``start``:
    the case that was asked for."""

    axes: tuple[Parameter, ...]
    cases: Mapping[tuple[Value, ...], Case]
    start: Case

    def case(self, settings: Mapping[str, Value]) -> Case | None:
        """The configuration with these values of the axes; None where it is not valid."""
        return self.cases.get(tuple(settings[axis.name] for axis in self.axes))


def space_of(spec: KernelSpec, shape: Mapping[str, int], parameters: Mapping[str, Value], device: DeviceFacts) -> Space:
    """The space around one configuration of ``spec`` on ``device``.

    Raises UsageError if nothing can be changed, the configuration is invalid, or there are more
    combinations than ``MOST``.
    """
    if spec.language == "host":
        raise UsageError(f"{spec.name} is driven by the host", "name the kernel that it launches: `ncubble kernels`")
    arch = arch_for(*device.compute_capability)
    first = case_for(make_case(spec, parameters, shape), arch, device.sm_count)
    if first.unverified is not None:
        raise UsageError(f"{first.label}: {first.unverified}", "name a configuration that can be verified")

    def checked(case: Case) -> Case:
        check_arch(case, arch)
        check_cluster(case, case.grid_on(device.sm_count))
        if case.smem > device.smem_per_cta:
            message = f"{case.smem} bytes of shared memory per CTA, {device.name} has {device.smem_per_cta}"
            raise UsageError(f"{case.label}: {message}", "use fewer stages or a smaller tile")
        return case

    checked(first)
    axes = tuple(
        item for item in first.spec.parameters if not item.problem and not item.tacit and len(item.choices) > 1
    )
    if (count := math.prod(len(axis.choices) for axis in axes)) > MOST:
        raise UsageError(f"{spec.name} has {count} combinations, but at most {MOST} are tried", "name another kernel")
    cases: dict[tuple[Value, ...], Case] = {}
    for values in itertools.product(*(axis.choices for axis in axes)):
        chosen = dict(zip((axis.name for axis in axes), values, strict=True))
        try:
            case = checked(make_case(spec, {**first.parameters, **chosen}, first.shape))
        except UsageError:
            continue
        if (case.flops, case.bytes) == (first.flops, first.bytes) and case.unverified is None:
            cases[values] = case
    if len(cases) < 2:
        raise UsageError(f"{first.label}: has no other valid configuration", "name a kernel with parameters")
    return Space(axes, cases, first)
