"""Brings a case onto a GPU: built, checked against the device, its arrays allocated, ready to be
launched; and its facts for a profiler."""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.build import Build, build, case_for, check_arch, check_smem, code_hash
from ncubble.kernels.catalog.registry import load_module
from ncubble.kernels.run.device import Descriptor, DeviceArray, Gpu, Kernel
from ncubble.kernels.run.verify import GUARD, POISON
from ncubble.kernels.spec.case import Case, check_cluster
from ncubble.kernels.spec.spec import PYTHON, Array, HostArray, TensorMap, dtype_of
from ncubble.text.remedies import extras_command

VARIABLE = "NCUBBLE_FACTS"
"""Environment variable with the path of the facts file, which a profiled program writes
(docs/reference/runs.md)."""


@dataclass(frozen=True)
class BuildFacts:
    """How the code came to be and what it uses: ``build`` of the facts file. None: not known."""

    compiler: str
    flags: tuple[str, ...]
    registers: int
    smem_static_B: int  # noqa: N815 - a key of the facts file
    smem_dynamic_B: int  # noqa: N815
    spill_B: int | None  # noqa: N815
    cubin_sha256: str | None = None
    code_sha256: str | None = None  # of the machine code alone, wherever the source lies
    warnings: tuple[str, ...] = ()  # ptxas's own words

    @classmethod
    def of(cls, built: Build, case: Case) -> BuildFacts:
        """What nvcc's build of ``case`` tells."""
        used = built.resources
        memory = used.smem_static_B, case.smem, used.spill_B
        code = built.sha256, code_hash(built.cubin)
        return cls(built.compiler, built.flags, used.registers, *memory, *code, built.warnings)


@dataclass(frozen=True)
class Prepared:
    """A case on a GPU. ``run`` queues one run, without waiting; ``pointers`` follow the order of
    the spec's arrays; ``kernel`` is what nvcc built.

    A ``program`` on the host moves the arrays itself, so that there are no ``pointers``: what the
    module's ``make(case, gpu, kernel)`` returned. Its ``arrays`` hold the bytes of every array on
    the host, outputs with ``GUARD`` bytes behind them; its ``run`` queues one run between two
    points of the GPU's stream; its ``poison`` sets device memory of which results come back to
    0xFF.
    """

    case: Case
    gpu: Gpu
    build: BuildFacts
    pointers: tuple[int, ...]
    run: Callable[[], None]
    kernel: Kernel | None = None
    program: Any = None

    def _placed(self, output: bool) -> list[tuple[Array, int]]:
        """Inputs or outputs, each with its index among the arrays."""
        return [(array, index) for index, array in enumerate(self.case.spec.arrays) if array.output == output]

    def upload(self, inputs: dict[str, HostArray]) -> None:
        """Copies the inputs to the GPU, or to where the program takes them from."""
        for array, index in self._placed(output=False):
            values = np.ascontiguousarray(inputs[array.name])
            if self.program is None:
                self.gpu.upload(self.pointers[index], values)
            else:
                np.copyto(self.program.arrays[array.name], values.reshape(-1).view(np.uint8))

    def poison(self) -> None:
        """Sets every byte of the outputs and of the guards behind them to 0xFF, with a program also
        of their places on the device."""
        if self.program is not None:
            self.gpu.sync()
        for array, index in self._placed(output=True):
            if self.program is None:
                self.gpu.fill(self.pointers[index], POISON, self.case.nbytes(array) + GUARD)
            else:
                self.program.arrays[array.name].fill(POISON)
        if self.program is not None:
            self.program.poison()

    def outputs(self) -> tuple[dict[str, HostArray], tuple[str, ...]]:
        """The outputs by name, once the GPU has come to them, and the names of those whose guard
        was overwritten."""
        arrays: dict[str, HostArray] = {}
        overrun: list[str] = []
        for array, index in self._placed(output=True):
            if self.program is None:
                raw = np.empty(self.case.nbytes(array) + GUARD, dtype=np.uint8)
                self.gpu.download(self.pointers[index], raw)
            else:
                self.gpu.sync()
                raw = self.program.arrays[array.name].copy()
            if (raw[-GUARD:] != POISON).any():
                overrun.append(array.name)
            arrays[array.name] = raw[:-GUARD].view(dtype_of(array.dtype)).reshape(self.case.extent(array))
        return arrays, tuple(overrun)


def prepare(case: Case, gpu: Gpu, more: tuple[str, ...] = (), pointers: tuple[int, ...] | None = None) -> Prepared:
    """Builds ``case`` for ``gpu``, with the defaults of its architecture (``Parameter.elsewhere``),
    and allocates its arrays, unless ``pointers`` of another case of this spec and shape are given;
    launches nothing. ``more`` are flags for nvcc.

    Raises:
        UsageError: the parameters do not exist for this device, or need more shared memory than a
            CTA of it can have; flags for a kernel that nvcc does not build; or a source or program
            in Python without ``make``.
        MeasurementError: the source does not compile, or device memory is short.
    """
    case = case_for(case, gpu.arch, gpu.facts.sm_count)
    check_arch(case, gpu.arch)
    check_cluster(case, case.grid_on(gpu.facts.sm_count))
    check_smem(case, 0, gpu.facts.name, gpu.facts.smem_per_cta)
    if case.spec.language == "host":
        return _prepare_host(case, gpu, more)
    if more and case.spec.language in PYTHON:
        raise UsageError(f"{case.spec.name} is not built by nvcc", "omit --debug")
    pointers = pointers or tuple(
        gpu.allocate(case.nbytes(array) + (GUARD if array.output else 0)) for array in case.spec.arrays
    )
    if case.spec.language == "numba":
        return _prepare_numba(case, gpu, pointers)
    built = build(case, gpu.arch, more)
    if built.launch is not None:
        ctas = math.prod(case.grid_on(gpu.facts.sm_count))
        case = built.launch.of(case, gpu.allocate(built.launch.scratch_B * ctas))
    kernel, run = load_built(built, case, gpu, pointers)
    return Prepared(case, gpu, BuildFacts.of(built, case), pointers, run, kernel)


def load_built(built: Build, case: Case, gpu: Gpu, pointers: tuple[int, ...]) -> tuple[Kernel, Callable[[], None]]:
    """The kernel of a build, and what queues one run of it over ``pointers``; raises as ``prepare``
    does."""
    check_smem(case, built.resources.smem_static_B, gpu.facts.name, gpu.facts.smem_per_cta)
    kernel = gpu.load(built.cubin, case)
    maps = tuple(_tensor_map(case, gpu, item, pointers) for item in case.tensor_maps)
    return kernel, functools.partial(gpu.launch, kernel, case, maps, pointers)


def _tensor_map(case: Case, gpu: Gpu, item: TensorMap, pointers: tuple[int, ...]) -> Descriptor:
    array = case.array(item.array)
    pointer = pointers[case.spec.arrays.index(array)]
    return gpu.tensor_map(pointer, case.mapped_extent(item), array.dtype, case.box(item), swizzle_of(case, item))


def swizzle_of(case: Case, item: TensorMap) -> int:
    """Bytes of the swizzle with which a map is made: those of a row of its box, if that is
    shorter."""
    row = case.box(item)[-1] * dtype_of(case.array(item.array).dtype).itemsize
    return row if row in (32, 64) and row < item.swizzle else item.swizzle


def _prepare_host(case: Case, gpu: Gpu, more: tuple[str, ...]) -> Prepared:
    """Builds the kernel of ``case`` and makes the program that drives it.

    The program's module is the spec's ``program``. Its ``COMPILED`` names the parameters that the
    kernel depends on (without it: all), so that one binary serves every setting of the others.
    """
    path = case.spec.folder / case.spec.program
    make, module = _maker(path, "case, gpu, kernel", "make it return an object with run and arrays")
    compiled, names = case, getattr(module, "COMPILED", None)
    if names is not None:
        kept = tuple(item for item in case.spec.parameters if item.name in names)
        values = {item.name: case.parameters[item.name] for item in kept}
        compiled = Case(replace(case.spec, parameters=kept), values, case.shape)
    built = build(compiled, gpu.arch, more)
    kernel = gpu.load(built.cubin, case)
    program = make(case, gpu, kernel)
    return Prepared(case, gpu, BuildFacts.of(built, case), (), program.run, kernel, program)


def _maker(path: Path, takes: str, remedy: str) -> tuple[Callable[..., Any], Any]:
    """The function ``make`` of the Python file ``path``, and its module; raises UsageError."""
    module = load_module(path)
    make = getattr(module, "make", None)
    if not callable(make):
        raise UsageError(f"{path}: no function make({takes})", remedy)
    return make, module


def make_dispatcher(case: Case) -> Any:
    """The Numba-CUDA dispatcher that the source's ``make(**parameters)`` returns; raises UsageError
    if there is no ``make``."""
    make, _ = _maker(case.spec.path, "**parameters", "make it return the @cuda.jit kernel")
    try:
        return make(**case.parameters)
    except Exception as error:  # the source is the user's code
        message = f"{case.spec.path}: make() failed: {type(error).__name__}: {error}"
        raise UsageError(message, "make it accept the spec's parameters by name") from error


def _prepare_numba(case: Case, gpu: Gpu, pointers: tuple[int, ...]) -> Prepared:
    """Compiles, without launching, for the arguments that ``run`` passes; raises MeasurementError
    if Numba refuses. CUDA C++ kernels never pay for importing Numba."""
    try:
        from numba import cuda
    except Exception as error:  # not only ImportError: a numpy that is too new raises AttributeError
        raise MeasurementError(f"Numba-CUDA cannot be imported: {error}", extras_command("gpu", "nvcc")) from error
    views = [
        cuda.as_cuda_array(DeviceArray(pointer, case.extent(array), np.dtype(array.dtype)))  # type: ignore[no-untyped-call]
        for pointer, array in zip(pointers, case.spec.arrays, strict=True)
    ]
    sms = gpu.facts.sm_count
    launches = [(*views, *case.scalars(index, sms)) for index in range(case.launches)]
    dispatcher = make_dispatcher(case)
    try:
        compiled = dispatcher.compile(tuple(dispatcher.typeof_pyval(argument) for argument in launches[0]))
    except Exception as error:  # Numba raises its own, NVVM's and the linker's errors here
        raise MeasurementError(f"Numba could not compile {case.spec.path}:\n{error}", "fix the source") from error
    gpu.allow_smem(compiled.library.get_cufunc().kernel, case.smem)
    configured = dispatcher[case.grid_on(sms), case.block, cuda.external_stream(int(gpu.stream.handle)), case.smem]

    def run() -> None:
        for arguments in launches:
            configured(*arguments)

    built = BuildFacts(
        compiler=f"numba-cuda {version('numba-cuda')}",
        flags=("lineinfo",),
        registers=int(compiled.regs_per_thread),
        smem_static_B=int(compiled.shared_mem_per_block),
        smem_dynamic_B=case.smem,
        # Numba only reports local memory, which includes spills and local arrays: only zero means
        # no spills.
        spill_B=None if compiled.local_mem_per_thread else 0,
    )
    return Prepared(case, gpu, built, pointers, run)


def kernel_facts(case: Case) -> dict[str, Any]:
    """Member ``kernel`` of the facts: FLOPs and bytes are per launch; None where the spec counts
    none."""
    stages = case.parameters.get("stages")
    return {
        "name": case.spec.name,
        "function": case.spec.entry,
        "parameters": case.settings,
        "shape": dict(case.shape),
        "stages": stages if isinstance(stages, int) else None,
        "flops": case.flops / case.launches or None,
        "bytes": case.bytes / case.launches,
        "dtype": case.spec.dtype,
    }


def device_facts(gpu: Gpu) -> dict[str, str]:
    """Member ``device`` of the facts."""
    capability = ".".join(str(part) for part in gpu.facts.compute_capability)
    return {"name": gpu.facts.name, "compute_capability": capability, "driver": gpu.facts.driver}


def facts(prepared: Prepared, clocks: dict[str, int]) -> dict[str, Any]:
    """The facts of a kernel: ``kernel``, ``build``, ``device`` and ``clocks``."""
    return {
        "kernel": kernel_facts(prepared.case),
        "build": asdict(prepared.build),
        "device": device_facts(prepared.gpu),
        "clocks": clocks,
    }


def write_facts(content: dict[str, Any]) -> None:
    """Writes facts to the path in ``NCUBBLE_FACTS``, if set; raises MeasurementError if that cannot
    be written."""
    target = os.environ.get(VARIABLE)
    if not target:
        return
    try:
        Path(target).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise MeasurementError(f"{VARIABLE}={target}: cannot be written: {error}", "name a writable file") from error
