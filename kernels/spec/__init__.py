"""What the suite knows about a kernel before there is a GPU. Own kernels import their spec's
classes from here."""

from ncubble.kernels.spec.acceptance import Gates
from ncubble.kernels.spec.spec import (
    LAUNCH,
    SMS,
    Array,
    Dim,
    KernelSpec,
    Parameter,
    Parameters,
    Scalar,
    Shape,
    TensorMap,
    Tolerance,
)

__all__ = [
    "LAUNCH",
    "SMS",
    "Array",
    "Dim",
    "Gates",
    "KernelSpec",
    "Parameter",
    "Parameters",
    "Scalar",
    "Shape",
    "TensorMap",
    "Tolerance",
]
