"""``KernelSpec``: everything the suite knows about a kernel, declared once beside its source.

Build, launch, verification and benchmark derive all they do from it. Functions in a spec take ``(shape, parameters)``:
``shape`` maps dimension names to sizes, ``parameters`` maps parameter names to chosen values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.errors import UsageError

Value = int | str
Shape = Mapping[str, int]
Parameters = Mapping[str, Value]
Arrays = Mapping[str, NDArray[Any]]
Extent = tuple[int, ...]
Reference = Callable[[Arrays, NDArray[np.intp]], dict[str, NDArray[np.float64]]]


@dataclass(frozen=True)
class Parameter:
    """A compile-time choice. CUDA C++ sees ``-DNAME=value``; for words also ``-DNAME_WORD=index`` to compare with."""

    name: str
    default: Value
    choices: tuple[Value, ...]
    help: str = ""

    def __post_init__(self) -> None:
        if self.default not in self.choices:
            raise UsageError(
                f"parameter {self.name}: default {self.default!r} is not among {self.allowed}", "fix the spec"
            )

    @property
    def allowed(self) -> str:
        """The allowed values as text: ``1..6`` for a run of integers, else a list."""
        numbers = [value for value in self.choices if isinstance(value, int)]
        if len(numbers) == len(self.choices) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
            return f"{numbers[0]}..{numbers[-1]}"
        return ", ".join(str(value) for value in self.choices)

    def parse(self, value: Value) -> Value:
        """``value`` as one of the choices; raises UsageError naming parameter, value and what is allowed."""
        for choice in self.choices:
            if str(choice) == str(value):
                return choice
        raise UsageError(f"parameter {self.name}={value} is not allowed", f"{self.name} takes one of: {self.allowed}")


@dataclass(frozen=True)
class Dim:
    """One dimension of the problem: its default size, and what sizes the kernel takes."""

    name: str
    default: int
    multiple: int = 1
    maximum: int = 2**31 - 1

    def check(self, size: int) -> None:
        """Raises UsageError unless ``size`` is positive, a multiple of ``multiple`` and at most ``maximum``."""
        if size < 1 or size > self.maximum:
            raise UsageError(f"shape {self.name}={size} is out of range", f"{self.name} must lie in 1..{self.maximum}")
        if size % self.multiple:
            near = max(self.multiple, round(size / self.multiple) * self.multiple)
            message = f"shape {self.name}={size} is not a multiple of {self.multiple}, the kernel's tile"
            raise UsageError(message, f"use {self.name}={near}")


@dataclass(frozen=True)
class Array:
    """A row-major array argument over named dimensions; inputs are drawn from N(0, 1), outputs are poisoned."""

    name: str
    dims: tuple[str, ...]
    dtype: str = "float32"
    output: bool = False


@dataclass(frozen=True)
class Scalar:
    """A constant scalar argument. A plain string among ``KernelSpec.scalars`` is a dimension, passed as int32."""

    name: str
    dtype: str
    value: float


@dataclass(frozen=True)
class Tolerance:
    """An element is good if ``|out - reference| <= absolute + relative * |reference|``; NaN is never good."""

    absolute: float = 0.0
    relative: float = 0.0


def _no_flops(shape: Shape) -> float:
    return 0.0


def _usual_tolerance(shape: Shape) -> Tolerance:
    return Tolerance(absolute=1e-6, relative=1e-5)


def _nothing_expected(arch: str, parameters: Parameters) -> dict[str, bool]:
    return {}


def _no_shared_memory(shape: Shape, parameters: Parameters) -> int:
    return 0


def _is_name(item: object) -> bool:
    return isinstance(item, str)


def _is_number_type(dtype: str) -> bool:
    try:
        return np.dtype(dtype).kind in "fiu"
    except TypeError:
        return False


@dataclass(frozen=True)
class KernelSpec:
    """A kernel of the catalog. Arguments are passed in this order: pointers of ``arrays``, then ``scalars``.

    - ``source``: a file beside the spec: CUDA C++ (``.cu``, entry point ``extern "C" function``), or a Python module
      with a function ``make(**parameters)`` that returns a Numba-CUDA dispatcher. ``function`` defaults to ``name``.
    - ``reference(inputs, rows)``: float64 results of every output for chosen rows (indices along the first axis).
    - ``flops``: per launch; 0 if nobody counts them. ``bytes``: compulsory traffic per launch, by default each array.
    - ``smem``: dynamic shared memory per CTA in bytes. ``unit``: the roof, one of ``fp32``, ``tensor_fp16``, ``dram``.
    - ``sass(arch, parameters)``: opcode prefix -> whether it must (True) or must not (False) occur.
    """

    name: str
    source: str
    idea: str
    dims: tuple[Dim, ...]
    arrays: tuple[Array, ...]
    grid: Callable[[Shape, Parameters], Extent]
    block: Callable[[Shape, Parameters], Extent]
    reference: Reference
    scalars: tuple[Scalar | str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    function: str = ""
    unit: str = "dram"
    dtype: str = "float32"
    flops: Callable[[Shape], float] = _no_flops
    bytes: Callable[[Shape], float] | None = None
    tolerance: Callable[[Shape], Tolerance] = _usual_tolerance
    smem: Callable[[Shape, Parameters], int] = _no_shared_memory
    sass: Callable[[str, Parameters], Mapping[str, bool]] = _nothing_expected
    demonstrates: str = ""
    min_arch: int = 80
    folder: Path = field(default=Path(), compare=False)

    def __post_init__(self) -> None:
        known = {dim.name for dim in self.dims}
        used = {name for array in self.arrays for name in array.dims} | set(filter(_is_name, self.scalars))
        if used - known:
            raise self._wrong(f"dims does not declare {', '.join(sorted(map(str, used - known)))}")
        typed = [(item.name, item.dtype) for item in (*self.arrays, *self.scalars) if isinstance(item, Array | Scalar)]
        for name, dtype in typed:
            if not _is_number_type(dtype):
                raise self._wrong(f"{name!r} has the type {dtype!r}, which NumPy does not know as a number")
        if len({array.dims[:1] for array in self.outputs}) != 1 or not self.outputs[0].dims:
            raise self._wrong(
                "its outputs must be at least one and share their first dimension, by which they are checked"
            )

    def _wrong(self, what: str) -> UsageError:
        return UsageError(f"spec of {self.name!r}: {what}", "fix the spec")

    @property
    def path(self) -> Path:
        """The source file."""
        return self.folder / self.source

    @property
    def entry(self) -> str:
        """The kernel's base name, by which its launches are matched."""
        return self.function or self.name

    @property
    def language(self) -> str:
        """``cuda`` or ``numba``, told by the suffix of the source."""
        return "numba" if self.source.endswith(".py") else "cuda"

    @property
    def outputs(self) -> tuple[Array, ...]:
        """The arrays that the kernel writes."""
        return tuple(array for array in self.arrays if array.output)
