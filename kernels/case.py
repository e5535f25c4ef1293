"""``Case``: one spec with chosen parameters and shape, checked: all a launch needs to know before there is a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ncubble.errors import UsageError
from ncubble.kernels.spec import Array, Extent, KernelSpec, Scalar, Value

MAX_GRID = (2**31 - 1, 65535, 65535)  # CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"
MAX_THREADS = 1024


@dataclass(frozen=True)
class Case:
    """A spec, a full set of parameter values and a full shape."""

    spec: KernelSpec
    parameters: Mapping[str, Value]
    shape: Mapping[str, int]

    @property
    def label(self) -> str:
        """``name key=value …`` for messages and tables."""
        settings = (f"{key}={value}" for key, value in (*self.parameters.items(), *self.shape.items()))
        return " ".join((self.spec.name, *settings))

    @property
    def grid(self) -> tuple[int, int, int]:
        """CTAs along x, y, z."""
        return _three(self.spec.grid(self.shape, self.parameters))

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads of a CTA along x, y, z."""
        return _three(self.spec.block(self.shape, self.parameters))

    @property
    def smem(self) -> int:
        """Dynamic shared memory per CTA in bytes."""
        return self.spec.smem(self.shape, self.parameters)

    @property
    def flops(self) -> float:
        """Floating-point operations per launch."""
        return float(self.spec.flops(self.shape))

    @property
    def bytes(self) -> float:
        """Compulsory memory traffic per launch in bytes: every array once, unless the spec says otherwise."""
        if self.spec.bytes is not None:
            return float(self.spec.bytes(self.shape))
        return float(sum(self.nbytes(array) for array in self.spec.arrays))

    @property
    def defines(self) -> tuple[str, ...]:
        """Preprocessor definitions of the parameters, ``NAME=value`` each."""
        found: list[str] = []
        for parameter in self.spec.parameters:
            name, value = parameter.name.upper(), self.parameters[parameter.name]
            if isinstance(value, int):
                found.append(f"{name}={value}")
                continue
            found += [f"{name}_{str(word).upper()}={index}" for index, word in enumerate(parameter.choices)]
            found.append(f"{name}={name}_{value.upper()}")
        return tuple(found)

    def extent(self, array: Array) -> tuple[int, ...]:
        """Shape of ``array``."""
        return tuple(self.shape[name] for name in array.dims)

    def nbytes(self, array: Array) -> int:
        """Size of ``array`` in bytes."""
        return math.prod(self.extent(array)) * np.dtype(array.dtype).itemsize

    def scalars(self) -> tuple[Any, ...]:
        """The scalar arguments as NumPy scalars, whose type is the argument's type."""
        return tuple(
            np.dtype(item.dtype).type(item.value) if isinstance(item, Scalar) else np.int32(self.shape[item])
            for item in self.spec.scalars
        )


def make_case(
    spec: KernelSpec, parameters: Mapping[str, Value] | None = None, shape: Mapping[str, int] | None = None
) -> Case:
    """A checked Case; what is not given takes its default.

    Raises:
        UsageError: unknown name, value not allowed, size that the kernel does not take, grid that no GPU takes.
    """
    given, sizes = dict(parameters or {}), dict(shape or {})
    _refuse_unknown(spec, "parameter", given, [parameter.name for parameter in spec.parameters])
    _refuse_unknown(spec, "dimension", sizes, [dim.name for dim in spec.dims])
    chosen = {item.name: item.parse(given.get(item.name, item.default)) for item in spec.parameters}
    full = {dim.name: sizes.get(dim.name, dim.default) for dim in spec.dims}
    for dim in spec.dims:
        dim.check(full[dim.name])
    case = Case(spec, chosen, full)
    _check_launch(case)
    return case


def _refuse_unknown(spec: KernelSpec, kind: str, given: Mapping[str, object], known: list[str]) -> None:
    for name in given:
        if name not in known:
            remedy = f"it has: {', '.join(known)}" if known else "it has none"
            raise UsageError(f"{spec.name} has no {kind} {name!r}", remedy)


def _check_launch(case: Case) -> None:
    _evaluate(case)
    for axis, count, limit in zip("xyz", case.grid, MAX_GRID, strict=True):
        if not 1 <= count <= limit:
            raise UsageError(
                f"{case.label}: grid {axis} would be {count}, allowed are 1..{limit}", "use a smaller shape"
            )
    threads = math.prod(case.block)
    if not 1 <= threads <= MAX_THREADS:
        raise UsageError(
            f"{case.label}: {threads} threads per CTA, allowed are 1..{MAX_THREADS}", "fix the spec's block"
        )


def _evaluate(case: Case) -> None:
    """Calls every rule of the spec once, so that a mistake in one shows here, by its name, and not after a launch."""
    rules: dict[str, Callable[[], object]] = {
        "grid": lambda: case.grid,
        "block": lambda: case.block,
        "smem": lambda: case.smem,
        "flops": lambda: case.flops,
        "bytes": lambda: case.bytes,
        "scalars": case.scalars,
        "tolerance": lambda: case.spec.tolerance(case.shape),
    }
    for name, rule in rules.items():
        try:
            rule()
        except Exception as error:  # the spec is the user's code
            message = f"{case.label}: the spec's {name} failed: {type(error).__name__}: {error}"
            raise UsageError(message, "fix the spec") from error


def _three(extent: Extent) -> tuple[int, int, int]:
    x, y, z = (*extent, 1, 1, 1)[: max(3, len(extent))]
    return int(x), int(y), int(z)
