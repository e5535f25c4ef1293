"""Defaults of parameters that follow shape and device (``KernelSpec.defaults``)."""

from __future__ import annotations

from collections.abc import Mapping

from ncubble.chips import sms_of
from ncubble.errors import UsageError
from ncubble.kernels.spec.spec import KernelSpec, Value

PLANNED_SMS = sms_of("H200")  # what is counted with where no device is at hand


def fitting(spec: KernelSpec, sms: int, shape: Mapping[str, int], given: Mapping[str, Value]) -> Mapping[str, Value]:
    """What the spec says for ``shape`` on a device of ``sms`` SMs; raises UsageError if it
    fails."""
    try:
        return spec.defaults(sms, shape, given)
    except Exception as error:  # the spec is the user's code
        message = f"{spec.name}: the spec's defaults failed: {type(error).__name__}: {error}"
        raise UsageError(message, "fix the spec") from error
