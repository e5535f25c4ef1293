"""Defaults of parameters that follow shape and device (``KernelSpec.defaults``)."""

from __future__ import annotations

from collections.abc import Mapping

from ncubble.chips import sms_of
from ncubble.errors import UsageError
from ncubble.kernels.spec.spec import KernelSpec, Value

PLANNED_SMS = sms_of("H200")  # assumed values if no device is available


def fitting(spec: KernelSpec, sms: int, shape: Mapping[str, int], given: Mapping[str, Value]) -> Mapping[str, Value]:
    """The spec's defaults for ``shape`` on a device of ``sms`` SMs; raises UsageError if they
    fail."""
    try:
        return spec.defaults(sms, shape, given)
    except Exception as error:  # the spec is the user's code
        message = f"{spec.name}: the spec's defaults failed: {type(error).__name__}: {error}"
        raise UsageError(message, "fix the spec") from error
