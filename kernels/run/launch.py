"""Brings a case onto a GPU: built, checked against the device, its arrays allocated, ready to be
launched."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.build import Build, build, case_for, check_arch, code_hash
from ncubble.kernels.catalog.registry import load_module
from ncubble.kernels.run.device import DeviceArray, Gpu
from ncubble.kernels.run.verify import GUARD, POISON
from ncubble.kernels.spec.case import Case, check_cluster
from ncubble.kernels.spec.spec import Array, TensorMap, dtype_of, raw_bytes
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
    cubin_sha256: str | None
    code_sha256: str | None = None  # of the machine code alone, wherever the source lies

    @classmethod
    def of(cls, built: Build, case: Case) -> BuildFacts:
        """What nvcc's build of ``case`` tells."""
        return cls(
            compiler=built.compiler,
            flags=built.flags,
            registers=built.resources.registers,
            smem_static_B=built.resources.smem_static_B,
            smem_dynamic_B=case.smem,
            spill_B=built.resources.spill_B,
            cubin_sha256=built.sha256,
            code_sha256=_code_sha256(built.cubin),
        )


def _code_sha256(cubin: bytes) -> str | None:
    try:
        return code_hash(cubin)
    except UsageError:
        return None


@dataclass(frozen=True)
class Prepared:
    """A case on a GPU. ``run`` queues one run, without waiting; ``pointers`` follow the order of
    the spec's arrays."""

    case: Case
    gpu: Gpu
    build: BuildFacts
    pointers: tuple[int, ...]
    run: Callable[[], None]

    def upload(self, inputs: dict[str, NDArray[Any]]) -> None:
        """Copies the inputs to the GPU."""
        for array, pointer in zip(self.case.spec.arrays, self.pointers, strict=True):
            if not array.output:
                self.gpu.upload(pointer, np.ascontiguousarray(inputs[array.name]))

    def poison(self) -> None:
        """Sets every byte of the outputs and of the guards behind them to 0xFF."""
        for array, pointer in zip(self.case.spec.arrays, self.pointers, strict=True):
            if array.output:
                self.gpu.fill(pointer, POISON, self.case.nbytes(array) + GUARD)

    def outputs(self) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
        """The outputs by name, and the names of those whose guard was overwritten."""
        arrays: dict[str, NDArray[Any]] = {}
        overrun: list[str] = []
        for array in self.case.spec.outputs:
            raw = self.raw_output(array)
            if (raw[-GUARD:] != POISON).any():
                overrun.append(array.name)
            arrays[array.name] = raw[:-GUARD].view(dtype_of(array.dtype)).reshape(self.case.extent(array))
        return arrays, tuple(overrun)

    def raw_output(self, array: Array) -> NDArray[np.uint8]:
        """The bytes of an output and of the guard behind it, once the GPU has come to them."""
        raw = np.empty(self.case.nbytes(array) + GUARD, dtype=np.uint8)
        self.gpu.download(self.pointers[self.case.spec.arrays.index(array)], raw)
        return raw


@dataclass(frozen=True)
class Peer:
    """The library's call. ``run`` queues it on the stream of the kernel that it stands beside,
    without waiting.

    ``difference`` gives the largest absolute difference between both results, after both have run;
    None if the library's call does not compute what the kernel computes (a plain copy beside a
    kernel that copies and scales).
    """

    library: str
    version: str
    run: Callable[[], None]
    difference: Callable[[], float | None]


def kernel_facts(case: Case) -> dict[str, Any]:
    """Member ``kernel``: FLOPs and bytes are per launch; None where the spec counts none."""
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


def facts(prepared: Prepared, clocks: dict[str, int]) -> dict[str, Any]:
    """The whole object: kernel, build, device, clocks."""
    return {
        "kernel": kernel_facts(prepared.case),
        "build": asdict(prepared.build),
        "device": device_facts(prepared.gpu),
        "clocks": clocks,
    }


def device_facts(gpu: Gpu) -> dict[str, str]:
    """Member ``device``."""
    capability = ".".join(str(part) for part in gpu.facts.compute_capability)
    return {"name": gpu.facts.name, "compute_capability": capability, "driver": gpu.facts.driver}


def write_facts(prepared: Prepared, clocks: dict[str, int]) -> None:
    """Writes the facts to the path in ``NCUBBLE_FACTS``, if set; raises MeasurementError if that
    cannot be written."""
    _write(facts(prepared, clocks))


def write_batch_facts(launches: list[dict[str, Any]], gpu: Gpu) -> None:
    """The same for a program of many launches, with what ``kernel_facts`` says of each, in their
    order."""
    _write({"launches": launches, "device": device_facts(gpu), "clocks": gpu.clocks()})


def _write(content: dict[str, Any]) -> None:
    target = os.environ.get(VARIABLE)
    if not target:
        return
    try:
        Path(target).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise MeasurementError(f"{VARIABLE}={target}: cannot be written: {error}", "name a writable file") from error


class HostProgram(Protocol):
    """What the program's ``make(case, gpu, kernel)`` returns.

    ``arrays``: the bytes of every array on the host, outputs with ``GUARD`` bytes behind them.
    ``run`` queues one run between two points of the GPU's stream. ``poison`` sets device memory of
    which results come back to 0xFF.
    """

    arrays: Mapping[str, NDArray[np.uint8]]

    def run(self) -> None:
        """Queues one run."""

    def poison(self) -> None:
        """Poisons what lies on the device."""


@dataclass(frozen=True)
class HostPrepared(Prepared):
    """A host program on a GPU. It has no ``pointers``: the program moves the arrays itself.
    ``kernel`` is what it launches."""

    program: HostProgram
    kernel: Any = None

    def upload(self, inputs: dict[str, NDArray[Any]]) -> None:
        """Puts the inputs into the program's host memory."""
        for array in self.case.spec.arrays:
            if not array.output:
                np.copyto(self.program.arrays[array.name], raw_bytes(np.ascontiguousarray(inputs[array.name])))

    def poison(self) -> None:
        """Sets every byte of the outputs, of the guards behind them and of their places on the
        device to 0xFF."""
        self.gpu.sync()
        for array in self.case.spec.outputs:
            self.program.arrays[array.name].fill(POISON)
        self.program.poison()

    def raw_output(self, array: Array) -> NDArray[np.uint8]:
        """The bytes of an output and of the guard behind it, once the GPU has come to them."""
        self.gpu.sync()
        return self.program.arrays[array.name].copy()


def prepare_host(case: Case, gpu: Gpu, more: tuple[str, ...] = ()) -> HostPrepared:
    """Builds the kernel of ``case``, with ``more`` flags, and makes the program that drives it;
    launches nothing.

    The program's module is the spec's ``program``. Its ``COMPILED`` names the parameters that the
    kernel depends on (without it: all), so that one binary serves every setting of the others.

    Raises:
        UsageError: the module has no ``make(case, gpu, kernel)``, or it failed.
        MeasurementError: the source does not compile, or memory is short.
    """
    path = case.spec.folder / case.spec.program
    module = load_module(path)
    make = getattr(module, "make", None)
    if not callable(make):
        raise UsageError(f"{path}: no function make(case, gpu, kernel)", "make it return an object with run and arrays")
    built = build(_compiled_with(case, getattr(module, "COMPILED", None)), gpu.arch, *((more,) if more else ()))
    kernel = gpu.load(built.cubin, case)
    program = make(case, gpu, kernel)
    return HostPrepared(case, gpu, BuildFacts.of(built, case), (), program.run, program, kernel)


def _compiled_with(case: Case, names: tuple[str, ...] | None) -> Case:
    """The case as the compiler sees it: only the parameters called ``names``."""
    if names is None:
        return case
    spec = replace(case.spec, parameters=tuple(item for item in case.spec.parameters if item.name in names))
    return Case(spec, {name: case.parameters[name] for name in names}, case.shape)


def make_dispatcher(case: Case) -> Any:
    """The dispatcher that the source's ``make(**parameters)`` returns; raises UsageError if there
    is no ``make``."""
    module = load_module(case.spec.path)
    make = getattr(module, "make", None)
    if not callable(make):
        raise UsageError(f"{case.spec.path}: no function make(**parameters)", "make it return the @cuda.jit kernel")
    try:
        return make(**case.parameters)
    except Exception as error:  # the source is the user's code
        message = f"{case.spec.path}: make() failed: {type(error).__name__}: {error}"
        raise UsageError(message, "make it accept the spec's parameters by name") from error


def prepare_numba(case: Case, gpu: Gpu, pointers: tuple[int, ...]) -> tuple[BuildFacts, Callable[[], None]]:
    """Compiles, without launching, for the arguments that ``run`` passes; raises MeasurementError
    if Numba refuses."""
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

    return _facts(case, compiled), run


def _facts(case: Case, compiled: Any) -> BuildFacts:
    return BuildFacts(
        compiler=f"numba-cuda {version('numba-cuda')}",
        flags=("lineinfo",),
        registers=int(compiled.regs_per_thread),
        smem_static_B=int(compiled.shared_mem_per_block),
        smem_dynamic_B=case.smem,
        # Numba only reports local memory, which includes spills and local arrays: only zero means
        # no spills.
        spill_B=None if compiled.local_mem_per_thread else 0,
        cubin_sha256=None,
    )


def prepare(case: Case, gpu: Gpu, more: tuple[str, ...] = (), pointers: tuple[int, ...] | None = None) -> Prepared:
    """Builds ``case`` for ``gpu``, with the defaults of its architecture (``Parameter.elsewhere``),
    and allocates its arrays, unless ``pointers`` of another case of this spec and shape are given;
    launches nothing. ``more`` are flags for nvcc.

    Raises:
        UsageError: the parameters do not exist for this device, or need more shared memory than a
            CTA of it can have; or flags for a kernel that nvcc does not build.
        MeasurementError: the source does not compile, or device memory is short.
    """
    case = case_for(case, gpu.arch, gpu.facts.sm_count)
    check_arch(case, gpu.arch)
    check_cluster(case, case.grid_on(gpu.facts.sm_count))
    _check_smem(case, gpu, 0)
    if more and case.spec.language != "cuda":
        raise UsageError(f"{case.spec.name} is not built by nvcc", "omit --debug")
    if case.spec.language == "host":
        return prepare_host(case, gpu)
    pointers = pointers or tuple(
        gpu.allocate(case.nbytes(array) + (GUARD if array.output else 0)) for array in case.spec.arrays
    )
    if case.spec.language == "numba":
        facts, run = prepare_numba(case, gpu, pointers)
    else:
        facts, run = _prepare_cuda(case, gpu, pointers, more)
    return Prepared(case, gpu, facts, pointers, run)


def _prepare_cuda(
    case: Case, gpu: Gpu, pointers: tuple[int, ...], more: tuple[str, ...]
) -> tuple[BuildFacts, Callable[[], None]]:
    built = build(case, gpu.arch, more)
    return BuildFacts.of(built, case), load_built(built, case, gpu, pointers)[1]


def load_built(built: Build, case: Case, gpu: Gpu, pointers: tuple[int, ...]) -> tuple[Any, Callable[[], None]]:
    """The kernel of a build, and what queues one run of it over ``pointers``; raises as ``prepare``
    does."""
    _check_smem(case, gpu, built.resources.smem_static_B)
    kernel = gpu.load(built.cubin, case)
    maps = tuple(_tensor_map(case, gpu, item, pointers) for item in case.tensor_maps)
    return kernel, functools.partial(gpu.launch, kernel, case, maps, pointers)


def _tensor_map(case: Case, gpu: Gpu, item: TensorMap, pointers: tuple[int, ...]) -> Any:
    index = [array.name for array in case.spec.arrays].index(item.array)
    box, dtype = tuple(item.box(case.shape, case.parameters)), case.spec.arrays[index].dtype
    return gpu.tensor_map(pointers[index], case.mapped_extent(item), dtype, box, swizzle_of(case, item))


def swizzle_of(case: Case, item: TensorMap) -> int:
    """Bytes of the swizzle with which a map is made: those of a row of its box, if that is
    shorter."""
    row = item.box(case.shape, case.parameters)[-1] * dtype_of(case.array(item.array).dtype).itemsize
    return row if row in (32, 64) and row < item.swizzle else item.swizzle


def _check_smem(case: Case, gpu: Gpu, static: int) -> None:
    needed, limit = case.smem + static, gpu.facts.smem_per_cta
    if needed > limit:
        message = f"{case.label}: {needed} bytes of shared memory per CTA, {gpu.facts.name} has {limit}"
        raise UsageError(message, "use fewer stages or a smaller tile")
