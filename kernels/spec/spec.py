"""``KernelSpec``: the declaration of a kernel, next to its source. Build, launch, verification and
benchmark are derived from it.

A *rule* of a spec is a value, or a function of ``(shape, parameters)`` where it depends on them:
``shape`` maps dimension names to sizes, ``parameters`` maps parameter names to chosen values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ncubble.errors import UsageError

EXTRA: dict[str, np.dtype[Any]] = {name: np.dtype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3fn")}


def dtype_of(name: str) -> np.dtype[Any]:
    """The type called ``name``; raises TypeError if there is none."""
    return EXTRA[name] if name in EXTRA else np.dtype(name)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether ``dtype`` is a floating-point type. NumPy reports those of EXTRA as unknown kinds."""
    return dtype.kind == "f" or dtype in EXTRA.values()


def is_number(name: str) -> bool:
    """Whether ``name`` is a real number type."""
    try:
        return is_float(dtype_of(name)) or np.dtype(name).kind in "iu"
    except TypeError:
        return False


Value = int | str
Shape = Mapping[str, int]
Parameters = Mapping[str, Any]
HostArray = NDArray[Any]  # of the type that its spec names
Arrays = Mapping[str, HostArray]
Extent = tuple[int, ...]
Reference = Callable[[Arrays, NDArray[np.intp]], dict[str, NDArray[np.float64]]]
LAUNCH, SMS = "@launch", "@sms"  # scalars that are only known at launch: its index, and the device's SMs


@dataclass(frozen=True)
class Parameter:
    """A compile-time choice. CUDA C++ sees ``-DNAME=value``; for words also ``-DNAME_WORD=index``
    to compare with.

    ``tacit``: omitted from labels, facts and compiler flags if it has its default, so that a
    parameter added later does not change the names of earlier runs. ``elsewhere``: the default on
    GPUs that do not support the defaults (``min_arch``, ``only_arch``). ``problem``: it defines
    what is computed, so it is not tried with other values. ``change``: the kind of change that
    another value makes (docs/changes.md), where its name does not say so.
    """

    name: str
    default: Value
    choices: tuple[Value, ...]
    help: str = ""
    tacit: bool = False
    elsewhere: Value | None = None
    problem: bool = False
    change: str = ""

    def __post_init__(self) -> None:
        for default in (self.default, self.elsewhere):
            if default is not None and default not in self.choices:
                raise UsageError(
                    f"parameter {self.name}: default {default!r} is not among {self.allowed}", "fix the spec"
                )

    @property
    def allowed(self) -> str:
        """The allowed values as text: ``1..6`` for a run of integers, else a list."""
        numbers = [value for value in self.choices if isinstance(value, int)]
        if len(numbers) == len(self.choices) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
            return f"{numbers[0]}..{numbers[-1]}"
        return ", ".join(str(value) for value in self.choices)

    def parse(self, value: Value) -> Value:
        """``value`` as one of the choices; raises UsageError with parameter, value and allowed
        values."""
        for choice in self.choices:
            if str(choice) == str(value):
                return choice
        raise UsageError(f"parameter {self.name}={value} is not allowed", f"{self.name} takes one of: {self.allowed}")


@dataclass(frozen=True)
class Dim:
    """One dimension of the problem: its default and allowed sizes."""

    name: str
    default: int
    multiple: int = 1
    maximum: int = 2**31 - 1

    def check(self, size: int) -> None:
        """Raises UsageError unless ``size`` is positive, a multiple of ``multiple`` and at most
        ``maximum``."""
        if size < 1 or size > self.maximum:
            raise UsageError(f"shape {self.name}={size} is out of range", f"{self.name} must lie in 1..{self.maximum}")
        if size % self.multiple:
            near = max(self.multiple, round(size / self.multiple) * self.multiple)
            message = f"shape {self.name}={size} is not a multiple of {self.multiple}, the kernel's tile"
            raise UsageError(message, f"use {self.name}={near}")


@dataclass(frozen=True)
class Array:
    """A row-major array argument over named dimensions; inputs are drawn from N(0, 1), outputs are
    poisoned. ``k/128`` is the number of blocks of 128 that cover k elements, the last possibly
    partial; ``k/size``: of blocks of as many as another size is, or a parameter."""

    name: str
    dims: tuple[str, ...]
    dtype: str = "float32"
    output: bool = False

    def extent(self, sizes: Shape) -> Extent:
        """Its extents in elements."""
        names = [name.partition("/") for name in self.dims]
        return tuple(-(-sizes[name] // int(sizes.get(block, block or 1))) for name, _, block in names)


@dataclass(frozen=True)
class Scalar:
    """A scalar argument, its value constant or a function of the shape. A plain string in
    ``KernelSpec.scalars`` is a dimension, passed as int32."""

    name: str
    dtype: str
    value: float | Callable[[Shape], float]


@dataclass(frozen=True)
class TensorMap:
    """A TMA descriptor of ``array``, encoded on the host and passed by value (``const
    __grid_constant__``).

    ``box``, a rule, is the size of one copy in elements, outermost dimension first; ``swizzle`` is
    0, 32, 64 or 128 bytes, at most a row of the box; ``view`` reinterprets the array with other
    row-major extents. Elements outside are read as zero and never written. ``when(parameters)``
    returns whether the kernel takes the map at all.
    """

    array: str
    box: Extent | Callable[[Shape, Parameters], Extent]
    swizzle: int = 128
    view: Callable[[Shape], Extent] | None = None
    when: Callable[[Parameters], bool] | None = None


@dataclass(frozen=True)
class Tolerance:
    """An element is good if ``|out - reference| <= absolute + relative * |reference| + row * rms``;
    NaN is never good.

    ``rms`` is the root mean square of the reference row: for results whose error scales with the
    row instead of the element.
    """

    absolute: float = 0.0
    relative: float = 0.0
    row: float = 0.0

    def bound(self, reference: NDArray[np.float64]) -> NDArray[np.float64]:
        """The maximum good error of each element; rows are along the first axis."""
        size = np.abs(reference)
        rms = np.sqrt(np.mean(size**2, axis=tuple(range(1, size.ndim)), keepdims=True))
        return np.asarray(self.absolute + self.relative * size + self.row * rms)


GIVEN = "given"
"""Name of a shape given on the command line."""


DIRECTIONS = ("up", "down", "flat")


@dataclass(frozen=True)
class CounterGate:
    """Required direction of an ncu counter from baseline to candidate. The values of ``metrics``
    are summed. ``up`` and ``down`` must change by more than ``tolerance_pct`` of the baseline's
    value, ``flat`` by at most that.
    """

    name: str
    metrics: tuple[str, ...]
    direction: str
    tolerance_pct: float

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            message = f"counter {self.name!r}: direction {self.direction!r} must be one of: {', '.join(DIRECTIONS)}"
            raise UsageError(message, "fix the spec's gates")
        if not self.metrics or not 0.0 <= self.tolerance_pct < math.inf:
            message = f"counter {self.name!r}: needs metrics and a tolerance of 0 % or more"
            raise UsageError(message, "fix the spec's gates")

    @property
    def wanted(self) -> str:
        """As text: ``up > 2 %``, ``flat <= 3 %``."""
        return f"{self.direction} {'<=' if self.direction == 'flat' else '>'} {self.tolerance_pct:g} %"

    def holds(self, baseline: float, candidate: float) -> bool:
        """Whether the counter changed as required."""
        change, noise = candidate - baseline, abs(baseline) * self.tolerance_pct / 100.0
        return {"up": change > noise, "down": -change > noise, "flat": abs(change) <= noise}[self.direction]


@dataclass(frozen=True)
class Gates:
    """Limits of a kernel that has two paths, a baseline and a candidate.

    - ``baseline``, ``candidate``: the parameters that make the two paths.
    - ``shapes``: sizes by name; every path is verified on each of them with each of ``seeds``. An
      element is bad if it is outside the spec's own tolerance; at most ``max_bad_pct`` percent may
      be, and no error may exceed ``max_abs_error``.
    - ``max_registers`` and ``max_spill_B`` per thread, ``max_smem_B`` per CTA,
      ``min_occupancy_pct`` of the warps that an SM can hold, as far as registers, shared memory and
      threads of a CTA decide it: of every path.
    - ``timed``: the name of the shape on which both paths are timed, ``iterations`` launches each.
      ``target_gain_pct`` is the share of the baseline's median time that the candidate has to save.
    - ``counters``: what ncu counts on the timed shape, and which way it has to go.
    """

    baseline: Mapping[str, int | str]
    candidate: Mapping[str, int | str]
    shapes: Mapping[str, Mapping[str, int]]
    timed: str
    seeds: tuple[int, ...] = (0, 1, 2)
    iterations: int = 500
    max_abs_error: float = 0.06
    max_bad_pct: float = 1.0
    max_registers: int = 128
    max_spill_B: int = 0  # noqa: N815 - the name that the reports use
    max_smem_B: int = 64 * 1024  # noqa: N815
    min_occupancy_pct: float = 50.0
    target_gain_pct: float = 10.0
    counters: tuple[CounterGate, ...] = ()

    def __post_init__(self) -> None:
        if self.timed not in self.shapes:
            raise UsageError(
                f"gates: timed={self.timed!r} must be one of: {', '.join(self.shapes)}", "fix the spec's gates"
            )
        if not self.seeds or self.iterations < 1:
            raise UsageError("gates: at least one seed and one iteration are needed", "fix the spec's gates")

    def asked(
        self,
        shapes: Mapping[str, int] | Sequence[str],
        seeds: Sequence[int],
        iterations: int | None,
        parameters: Parameters | None = None,
    ) -> Gates:
        """These limits with what is given replaced: ``shapes`` are sizes, or names of some of the
        shapes. ``parameters`` join those of both paths, which must not have them yet."""
        common = dict(parameters or {})
        if both := common.keys() & (self.baseline.keys() | self.candidate.keys()):
            raise UsageError(f"-p {min(both)} is set by the paths of the spec's gates", "leave it out")
        sizes = shapes if isinstance(shapes, Mapping) else {}
        given = {GIVEN: {**self.shapes[self.timed], **sizes}} if sizes else self.shapes
        chosen = given if isinstance(shapes, Mapping) else {name: self.shapes[name] for name in shapes} or given
        return replace(
            self,
            baseline={**common, **self.baseline},
            candidate={**common, **self.candidate},
            shapes=chosen,
            timed=self.timed if self.timed in chosen else next(iter(chosen)),
            seeds=tuple(seeds) or self.seeds,
            iterations=iterations or self.iterations,
        )

    @property
    def paths(self) -> dict[str, Mapping[str, int | str]]:
        """Parameters of both paths by name, baseline first."""
        return {"baseline": self.baseline, "candidate": self.candidate}


LANGUAGES = ("cuda", "numba", "triton", "host")
PYTHON = LANGUAGES[1:3]


def valued(rule: Any, *arguments: Any) -> Any:
    """The value of a rule: itself, or what it returns for ``arguments``."""
    return rule(*arguments) if callable(rule) else rule


@dataclass(frozen=True)
class KernelSpec:
    """A kernel of the catalog. Its arguments, in order: ``tensor_maps``, pointers of ``arrays``,
    ``scalars``.

    - ``source``: a file beside the spec, by ``language``: ``cuda``, entry point ``extern "C"
      function``; ``numba``, a Python module with a function ``make(**parameters)`` that returns a
      Numba-CUDA dispatcher; ``triton``, a Python module with a ``@triton.jit`` function; or
      ``host``, whose kernel a ``program`` drives. ``function`` defaults to ``name``.
    - In Triton, parameters and ``defines`` are values of arguments by name, such as
      ``tl.constexpr`` ones, or options (``num_warps``, ``num_stages``, ``maxnreg``); there is no
      ``block`` and no ``smem``.
    - ``reference(inputs, rows)``: float64 results of every output for chosen rows: flat indices
      over the first ``row_dims`` dimensions. ``reference_of(parameters)`` replaces it where
      parameters change what is computed, ``tolerance_of(shape, parameters)`` the ``tolerance``
      where they change how well.
    - ``flops``: per run; 0 if nobody counts them. ``work`` replaces it where it depends on
      parameters, too. ``bytes``: compulsory traffic per run, by default each array once.
    - ``launches``: launches of the kernel per run. A scalar ``LAUNCH`` is the index of the launch,
      ``SMS`` the number of SMs of the device.
    - ``grid`` counts CTAs, also with a ``cluster``, which is CTAs, too. ``persistent(sms, shape,
      parameters)``: the grid on a device of that many SMs, for kernels that loop over tiles; it
      then needs no ``grid``, which is what it returns for an H200.
    - ``cooperative(parameters)``: whether CTAs wait for all others, so that all must be resident.
    - ``min_arch``: the oldest architecture, 80 for compute capability 8.0. ``arch_of(parameters)``
      replaces it. ``only_arch(parameters)``: the one architecture it exists for (``wgmma``: 90), or
      None.
    - ``defaults(sms, shape, given)``: values of what is not ``given``, where they follow the shape.
    - ``requires``: what shape and parameters break together, in words, or None. ``defines``: macros
      from the shape. ``flags(parameters)``: further flags of nvcc.
    - ``draw(generator, shape)``: the inputs, where neither N(0, 1) nor uniform integers will do.
    - ``unverified(parameters)``: why the chosen parameters compute nothing that could be verified,
      or None.
    - ``gates``: the limits that ``ncubble verify --gates`` holds it against, where it has two
      paths.
    - ``peer``: the library's operation that ``ncubble bench --library`` times beside it:
      ``matmul``, ``sdpa``, ``copy``, ``softmax``, or nothing. ``program``: the Python module in the
      folder that drives it from the host.
    - ``smem``: dynamic shared memory per CTA in bytes. ``unit``: the roof, one of ``fp32``,
      ``tensor_fp16``, ``tensor_fp8``, ``dram`` (a device copy); another name, as ``link``, stands
      for none that is known.
    - ``sass``: opcode prefixes, one or several separated by spaces -> whether they must (True) or
      must not (False) occur, or a function of the parameters that decides; or all of it a function
      of ``(arch, parameters)``.

    ``grid``, ``block``, ``smem``, ``cluster``, ``launches`` and ``defines`` are rules;
    ``tolerance`` (of the shape), ``only_arch`` and ``cooperative`` (of the parameters) may be
    values, too.
    """

    name: str
    source: str
    idea: str
    dims: tuple[Dim, ...]
    arrays: tuple[Array, ...]
    reference: Reference
    block: Extent | Callable[[Shape, Parameters], Extent] | None = None
    grid: Extent | Callable[[Shape, Parameters], Extent] | None = None
    scalars: tuple[Scalar | str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    function: str = ""
    language: str = "cuda"
    unit: str = "dram"
    dtype: str = "float32"
    flops: Callable[[Shape], float] = lambda shape: 0.0
    bytes: Callable[[Shape], float] | None = None
    tolerance: Tolerance | Callable[[Shape], Tolerance] = Tolerance(absolute=1e-6, relative=1e-5)
    smem: int | Callable[[Shape, Parameters], int] = 0
    sass: Mapping[str, bool | Callable[[Parameters], bool]] | Callable[[str, Parameters], Mapping[str, bool]] = field(
        default_factory=dict
    )
    demonstrates: str = ""
    min_arch: int = 80
    tensor_maps: tuple[TensorMap, ...] = ()
    cluster: Extent | Callable[[Shape, Parameters], Extent] = (1, 1, 1)
    persistent: Callable[[int, Shape, Parameters], Extent] | None = None
    cooperative: bool | Callable[[Parameters], bool] = False
    launches: int | Callable[[Shape, Parameters], int] = 1
    row_dims: int = 1
    reference_of: Callable[[Parameters], Reference] | None = None
    tolerance_of: Callable[[Shape, Parameters], Tolerance] | None = None
    work: Callable[[Shape, Parameters], float] | None = None
    draw: Callable[[np.random.Generator, Shape], Arrays] | None = None
    defaults: Callable[[int, Shape, Parameters], Parameters] = lambda sms, shape, given: {}
    requires: Callable[[Shape, Parameters], str | None] = lambda shape, parameters: None
    defines: Mapping[str, Value] | Callable[[Shape, Parameters], Mapping[str, Value]] = field(default_factory=dict)
    flags: Callable[[Parameters], tuple[str, ...]] = lambda parameters: ()
    arch_of: Callable[[Parameters], int] | None = None
    only_arch: int | Callable[[Parameters], int | None] | None = None
    unverified: Callable[[Parameters], str | None] = lambda parameters: None
    gates: Gates | None = None
    peer: str = ""
    program: str = ""
    folder: Path = field(default=Path(), compare=False)

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            raise self._wrong(f"language={self.language!r} must be one of: {', '.join(LANGUAGES)}")
        if self.source.endswith(".py") != (self.language in PYTHON):
            remedy = f'set language="{PYTHON[0]}" or "{PYTHON[1]}" for a Python source, "cuda" for CUDA C++'
            raise self._wrong(f"source {self.source!r} cannot be language={self.language!r}", remedy)
        if bool(self.program) != (self.language == "host"):
            raise self._wrong(f'program={self.program!r} with language={self.language!r}; only "host" has a program')
        if self.grid is None and self.persistent is None:
            raise self._wrong("it needs a grid, or the grid of a persistent kernel")
        if self.block is None and self.language != "triton":
            raise self._wrong("it needs a block, its threads per CTA")
        names = [name.partition("/")[0] for array in self.arrays for name in array.dims]
        names += [item for item in self.scalars if isinstance(item, str) and item not in (LAUNCH, SMS)]
        if unknown := {*names} - {dim.name for dim in self.dims}:
            raise self._wrong(f"dims does not declare {', '.join(sorted(unknown))}")
        if unknown := {item.array for item in self.tensor_maps} - {array.name for array in self.arrays}:
            raise self._wrong(f"tensor_maps names {', '.join(sorted(unknown))}, which is not an array")
        for item in (*self.arrays, *self.scalars):
            if not isinstance(item, str) and not is_number(item.dtype):
                raise self._wrong(f"{item.name!r} has the type {item.dtype!r}, which is not a number type of NumPy")
        rows = {array.dims[: self.row_dims] for array in self.outputs}
        if len(rows) != 1 or len(next(iter(rows))) != self.row_dims:
            count = "first dimension" if self.row_dims == 1 else f"first {self.row_dims} dimensions"
            raise self._wrong(
                f"it needs at least one output, and all outputs must share their {count}, by which they are checked"
            )

    def _wrong(self, what: str, remedy: str = "fix the spec") -> UsageError:
        return UsageError(f"spec of {self.name!r}: {what}", remedy)

    @property
    def path(self) -> Path:
        """The source file."""
        return self.folder / self.source

    @property
    def entry(self) -> str:
        """The kernel's base name, by which its launches are matched."""
        return self.function or self.name

    @property
    def outputs(self) -> tuple[Array, ...]:
        """The arrays that the kernel writes."""
        return tuple(array for array in self.arrays if array.output)
