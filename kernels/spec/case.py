"""``Case``: a validated spec with chosen parameters and shape; everything a launch needs except a
GPU."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ncubble.chips import largest_cta_smem, sms_of
from ncubble.errors import UsageError
from ncubble.kernels.spec.spec import (
    LAUNCH,
    PYTHON,
    SMS,
    Array,
    Extent,
    KernelSpec,
    Reference,
    Scalar,
    TensorMap,
    Tolerance,
    Value,
    dtype_of,
    valued,
)
from ncubble.text.remedies import known_names

PLANNED_SMS = sms_of("H200")  # assumed values if no device is available
MAX_GRID = (2**31 - 1, 65535, 65535)  # CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"
MAX_THREADS = 1024
MAX_SMEM = largest_cta_smem()
MAX_CLUSTER = 16  # CTAs, where a kernel opts in (same table)
MAX_BOX = 256  # elements of a tensor map's box along a dimension (CUDA Driver API, cuTensorMapEncodeTiled)


@dataclass(frozen=True)
class Case:
    """A spec, all parameter values and a full shape. ``given``: explicitly chosen parameters."""

    spec: KernelSpec
    parameters: Mapping[str, Value]
    shape: Mapping[str, int]
    given: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def label(self) -> str:
        """``name key=value …`` for messages and tables."""
        pairs = (f"{key}={value}" for key, value in (*self.settings.items(), *self.shape.items()))
        return " ".join((self.spec.name, *pairs))

    @property
    def settings(self) -> dict[str, Value]:
        """Parameters in the case's name: all except tacit ones with their default."""
        return {
            item.name: self.parameters[item.name]
            for item in self.spec.parameters
            if not item.tacit or self.parameters[item.name] != item.default
        }

    @property
    def sizes(self) -> dict[str, int]:
        """The shape, and parameters that are numbers."""
        return {**{name: value for name, value in self.parameters.items() if isinstance(value, int)}, **self.shape}

    @property
    def unverified(self) -> str | None:
        """Why there is no reference result; None if there is one."""
        return self.spec.unverified(self.parameters)

    @property
    def grid(self) -> tuple[int, int, int]:
        """CTAs along x, y, z."""
        return self.grid_on(PLANNED_SMS) if self.spec.grid is None else self._extent(self.spec.grid)

    def grid_on(self, sms: int) -> tuple[int, int, int]:
        """CTAs along x, y, z on a device of ``sms`` SMs; equals ``grid`` except for persistent
        kernels."""
        if self.spec.persistent is None:
            return self.grid
        return _three(self.spec.persistent(sms, self.shape, self.parameters))

    @property
    def cluster(self) -> tuple[int, int, int]:
        """CTAs of a cluster along x, y, z."""
        return self._extent(self.spec.cluster)

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads of a CTA along x, y, z; of Triton known once it is built."""
        return self._extent(self.spec.block or (1,))

    def _extent(self, rule: Any) -> tuple[int, int, int]:
        return _three(valued(rule, self.shape, self.parameters))

    @property
    def launches(self) -> int:
        """Launches of the kernel per run."""
        return int(valued(self.spec.launches, self.shape, self.parameters))

    @property
    def cooperative(self) -> bool:
        """Whether all CTAs must be resident at one time."""
        return bool(valued(self.spec.cooperative, self.parameters))

    @property
    def only_arch(self) -> int | None:
        """The only architecture for the chosen parameters; None: any from ``min_arch`` on."""
        only: int | None = valued(self.spec.only_arch, self.parameters)
        return only

    @property
    def min_arch(self) -> int:
        """Oldest architecture for the chosen parameters: 80, 90, …"""
        if self.spec.arch_of is not None:
            return self.spec.arch_of(self.parameters)
        return max(self.spec.min_arch, self.only_arch or 0)

    @property
    def smem(self) -> int:
        """Dynamic shared memory per CTA in bytes."""
        return int(valued(self.spec.smem, self.shape, self.parameters))

    @property
    def flops(self) -> float:
        """Floating-point operations per run."""
        if self.spec.work is not None:
            return float(self.spec.work(self.shape, self.parameters))
        return float(self.spec.flops(self.shape))

    @property
    def bytes(self) -> float:
        """Compulsory memory traffic per run in bytes: by default every array once."""
        if self.spec.bytes is not None:
            return float(self.spec.bytes(self.shape))
        return float(sum(self.nbytes(array) for array in self.spec.arrays))

    @property
    def defines(self) -> tuple[str, ...]:
        """Preprocessor definitions of the parameters, ``NAME=value`` each."""
        defines: list[str] = []
        for parameter in self.spec.parameters:
            if parameter.name not in self.settings:
                continue
            name, value = parameter.name.upper(), self.parameters[parameter.name]
            if isinstance(value, int):
                defines.append(f"{name}={value}")
                continue
            defines += [f"{name}_{str(word).upper()}={index}" for index, word in enumerate(parameter.choices)]
            defines.append(f"{name}={name}_{value.upper()}")
        more = valued(self.spec.defines, self.shape, self.parameters)
        return (*defines, *(f"{name}={value}" for name, value in more.items()))

    @property
    def flags(self) -> tuple[str, ...]:
        """Definitions of the preprocessor, and further flags of nvcc."""
        return (*(f"-D{define}" for define in self.defines), *self.spec.flags(self.parameters))

    def sass(self, arch: str) -> dict[str, bool]:
        """Opcode prefixes that must (True) or must not (False) occur in the machine code for
        ``arch``."""
        wanted = valued(self.spec.sass, arch, self.parameters).items()
        return {prefix: bool(valued(rule, self.parameters)) for words, rule in wanted for prefix in words.split()}

    def extent(self, array: Array) -> tuple[int, ...]:
        """Shape of ``array``."""
        return array.extent(self.sizes)

    def nbytes(self, array: Array) -> int:
        """Size of ``array`` in bytes."""
        return math.prod(self.extent(array)) * dtype_of(array.dtype).itemsize

    def array(self, name: str) -> Array:
        """The array argument called ``name``."""
        return next(array for array in self.spec.arrays if array.name == name)

    @property
    def reference(self) -> Reference:
        """The float64 reference for the chosen parameters."""
        return self.spec.reference_of(self.parameters) if self.spec.reference_of else self.spec.reference

    @property
    def tolerance(self) -> Tolerance:
        """Allowed deviation from the reference."""
        if self.spec.tolerance_of is not None:
            return self.spec.tolerance_of(self.shape, self.parameters)
        allowed: Tolerance = valued(self.spec.tolerance, self.shape)
        return allowed

    @property
    def tensor_maps(self) -> tuple[TensorMap, ...]:
        """Tensor maps of the kernel with the chosen parameters."""
        return tuple(item for item in self.spec.tensor_maps if item.when is None or item.when(self.parameters))

    def mapped_extent(self, item: TensorMap) -> tuple[int, ...]:
        """Extents of a tensor map's view of its array, outermost first."""
        return tuple(item.view(self.sizes)) if item.view else self.extent(self.array(item.array))

    def box(self, item: TensorMap) -> tuple[int, ...]:
        """Elements that a tensor map copies at once, outermost dimension first."""
        return tuple(valued(item.box, self.shape, self.parameters))

    def scalars(self, launch: int = 0, sms: int = 0) -> tuple[Any, ...]:
        """The scalar arguments of the launch with index ``launch``, as NumPy scalars of the
        argument's type."""
        late = {LAUNCH: launch, SMS: sms}
        return tuple(
            np.dtype(item.dtype).type(valued(item.value, self.shape))
            if isinstance(item, Scalar)
            else np.int32(late[item] if item in late else self.shape[item])
            for item in self.spec.scalars
        )


def make_case(
    spec: KernelSpec,
    parameters: Mapping[str, Value] | None = None,
    shape: Mapping[str, int] | None = None,
    sms: int = PLANNED_SMS,
) -> Case:
    """A validated Case, with defaults for a device of ``sms`` SMs.

    Raises:
        UsageError: unknown name, value not allowed, size that the kernel does not support, grid,
            cluster or tensor map that no GPU supports.
    """
    given, sizes = dict(parameters or {}), dict(shape or {})
    for kind, names, items in (("parameter", given, spec.parameters), ("dimension", sizes, spec.dims)):
        known = [item.name for item in items]
        for name in names:
            if name not in known:
                raise UsageError(f"{spec.name} has no {kind} {name!r}", known_names(name, known))
    full = {dim.name: sizes.get(dim.name, dim.default) for dim in spec.dims}
    for dim in spec.dims:
        dim.check(full[dim.name])
    values = {**_by_rule(spec.name, "defaults", lambda: spec.defaults(sms, full, given)), **given}
    chosen = {item.name: item.parse(values.get(item.name, item.default)) for item in spec.parameters}
    case = Case(spec, chosen, full, frozenset(given))
    _check_launch(case)
    return case


def _by_rule(label: str, name: str, rule: Callable[[], Any]) -> Any:
    """What a rule of a spec returns; raises UsageError with its name where it fails."""
    try:
        return rule()
    except Exception as error:  # the spec is the user's code
        message = f"{label}: the spec's {name} failed: {type(error).__name__}: {error}"
        raise UsageError(message, "fix the spec") from error


def _check_launch(case: Case) -> None:
    # Every rule is called once, so that errors are reported here by name and not after a launch.
    members = ("grid", "block", "cluster", "launches", "smem", "flops", "bytes", "flags", "tolerance", "unverified")
    rules: dict[str, Callable[[], Any]] = {
        **{name: functools.partial(getattr, case, name) for name in members},
        "persistent": lambda: case.grid_on(1),
        "scalars": case.scalars,
        "requires": lambda: case.spec.requires(case.shape, case.parameters),
        "arch_of": lambda: (case.min_arch, case.only_arch),
        "tensor_maps": lambda: [(case.mapped_extent(item), case.box(item)) for item in case.tensor_maps],
    }
    values = {name: _by_rule(case.label, name, rule) for name, rule in rules.items()}
    if values["requires"] is not None:
        raise UsageError(f"{case.label}: {values['requires']}", "use other parameters or sizes")
    for axis, count, limit in zip("xyz", case.grid, MAX_GRID, strict=True):
        if not 1 <= count <= limit:
            raise UsageError(f"{case.label}: grid {axis} would be {count}; allowed: 1..{limit}", "use a smaller shape")
    check_cluster(case, case.grid)
    threads = math.prod(case.block)
    if not 1 <= threads <= MAX_THREADS:
        raise UsageError(f"{case.label}: {threads} threads per CTA; allowed: 1..{MAX_THREADS}", "fix the spec's block")
    if case.smem > MAX_SMEM:
        message = f"{case.label}: {case.smem} bytes of shared memory per CTA; GPUs have at most {MAX_SMEM}"
        raise UsageError(message, "use fewer stages or a smaller tile")
    if case.spec.language in PYTHON and (case.tensor_maps or math.prod(case.cluster) > 1):
        raise UsageError(f"{case.label}: only CUDA C++ has clusters and tensor maps", "write it in CUDA C++")
    for item in case.tensor_maps:
        _check_map(case, item)


def check_cluster(case: Case, grid: tuple[int, int, int]) -> None:
    """Raise UsageError unless GPUs support the clusters of ``case`` and ``grid`` is a multiple of
    them."""
    cluster = case.cluster
    if min(cluster) < 1 or math.prod(cluster) > MAX_CLUSTER:
        message = f"{case.label}: a cluster of {cluster} CTAs; allowed: 1..{MAX_CLUSTER} in total"
        raise UsageError(message, "fix the spec's cluster")
    if any(ctas % size for ctas, size in zip(grid, cluster, strict=True)):
        message = f"{case.label}: a grid of {grid} CTAs is not a multiple of the cluster size {cluster}"
        raise UsageError(message, "fix the spec's grid, or use sizes that give whole clusters")


def _check_map(case: Case, item: TensorMap) -> None:
    """Raise UsageError for anything that cuTensorMapEncodeTiled would reject without a reason."""
    extent, box = case.mapped_extent(item), case.box(item)
    itemsize = dtype_of(case.array(item.array).dtype).itemsize
    if len(box) != len(extent) or not all(1 <= edge <= MAX_BOX for edge in box):
        message = f"{case.label}: tensor map of {item.array!r}: box {box} over {extent}"
        raise UsageError(message, f"a box has as many edges as the array, each of 1..{MAX_BOX}")
    box_row = f"{case.label}: a box row of {item.array!r} has {box[-1] * itemsize} bytes"
    if box[-1] * itemsize % 16:
        raise UsageError(f"{box_row}, TMA needs a multiple of 16", "fix the spec's box")
    if math.prod(extent) > math.prod(case.extent(case.array(item.array))):
        raise UsageError(f"{case.label}: tensor map of {item.array!r} sees {extent}", "fix the spec's view")
    if len(extent) > 1 and extent[-1] * itemsize % 16:
        message = f"{case.label}: a row of {item.array!r} has {extent[-1] * itemsize} bytes, TMA needs a multiple of 16"
        raise UsageError(message, f"make the row length a multiple of {16 // itemsize} elements")
    if item.swizzle and box[-1] * itemsize > item.swizzle:
        raise UsageError(f"{box_row}, the swizzle {item.swizzle}", "fix the spec's box")


def _three(extent: Extent) -> tuple[int, int, int]:
    x, y, z = (*extent, 1, 1, 1)[: max(3, len(extent))]
    return int(x), int(y), int(z)
