"""Declarations of kernels, usable without a GPU. Specs of your own kernels import their classes
from here."""

from ncubble.kernels.spec.spec import LAUNCH as LAUNCH
from ncubble.kernels.spec.spec import SMS as SMS
from ncubble.kernels.spec.spec import Array as Array
from ncubble.kernels.spec.spec import Dim as Dim
from ncubble.kernels.spec.spec import Gates as Gates
from ncubble.kernels.spec.spec import KernelSpec as KernelSpec
from ncubble.kernels.spec.spec import Parameter as Parameter
from ncubble.kernels.spec.spec import Parameters as Parameters
from ncubble.kernels.spec.spec import Scalar as Scalar
from ncubble.kernels.spec.spec import Shape as Shape
from ncubble.kernels.spec.spec import TensorMap as TensorMap
from ncubble.kernels.spec.spec import Tolerance as Tolerance
