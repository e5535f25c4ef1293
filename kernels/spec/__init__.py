"""Declarations of kernels, usable without a GPU. Specs of your own kernels import their classes
from here."""

from ncubble.kernels.spec.spec import (
    LAUNCH,
    SMS,
    Array,
    Dim,
    Gates,
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
