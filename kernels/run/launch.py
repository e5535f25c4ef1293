"""Brings a case onto a GPU: built, checked against the device, its arrays allocated, ready to be launched."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.errors import UsageError
from ncubble.kernels.build.build import Build, build, check_arch
from ncubble.kernels.device.device import Gpu
from ncubble.kernels.run.verify import GUARD, POISON
from ncubble.kernels.spec.case import Case, check_cluster
from ncubble.kernels.spec.dtypes import dtype_of
from ncubble.kernels.spec.spec import TensorMap


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
    from ncubble.errors import UsageError
    from ncubble.kernels.run.other_tree import code_hash

    try:
        return code_hash(cubin)
    except UsageError:
        return None


@dataclass(frozen=True)
class Prepared:
    """A case on a GPU. ``run`` queues one run, without waiting; ``pointers`` follow the order of the spec's arrays."""

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
        found: dict[str, NDArray[Any]] = {}
        overrun: list[str] = []
        for array, pointer in zip(self.case.spec.arrays, self.pointers, strict=True):
            if not array.output:
                continue
            raw = np.empty(self.case.nbytes(array) + GUARD, dtype=np.uint8)
            self.gpu.download(pointer, raw)
            if (raw[-GUARD:] != POISON).any():
                overrun.append(array.name)
            found[array.name] = raw[:-GUARD].view(dtype_of(array.dtype)).reshape(self.case.extent(array))
        return found, tuple(overrun)


def prepare(case: Case, gpu: Gpu) -> Prepared:
    """Builds ``case`` for ``gpu`` and allocates its arrays; launches nothing.

    Raises:
        UsageError: the parameters do not exist for this device, or need more shared memory than a CTA of it can have.
        MeasurementError: the source does not compile, or device memory is short.
    """
    check_arch(case, gpu.arch)
    check_cluster(case, case.grid_on(gpu.facts.sm_count))
    _check_smem(case, gpu, 0)
    if case.spec.language == "host":
        from ncubble.kernels.run.host_program import prepare_host

        return prepare_host(case, gpu)
    pointers = tuple(gpu.allocate(case.nbytes(array) + (GUARD if array.output else 0)) for array in case.spec.arrays)
    if case.spec.language == "numba":
        from ncubble.kernels.run.numba_program import prepare_numba

        facts, run = prepare_numba(case, gpu, pointers)
    else:
        facts, run = _prepare_cuda(case, gpu, pointers)
    return Prepared(case, gpu, facts, pointers, run)


def _prepare_cuda(case: Case, gpu: Gpu, pointers: tuple[int, ...]) -> tuple[BuildFacts, Callable[[], None]]:
    built = build(case, gpu.arch)
    return BuildFacts.of(built, case), load_built(built, case, gpu, pointers)[1]


def load_built(built: Build, case: Case, gpu: Gpu, pointers: tuple[int, ...]) -> tuple[Any, Callable[[], None]]:
    """The kernel of a build, and what queues one run of it over ``pointers``; raises as ``prepare`` does."""
    _check_smem(case, gpu, built.resources.smem_static_B)
    kernel = gpu.load(built.cubin, case)
    maps = tuple(_tensor_map(case, gpu, item, pointers) for item in case.tensor_maps)
    return kernel, functools.partial(gpu.launch, kernel, case, maps, pointers)


def _tensor_map(case: Case, gpu: Gpu, item: TensorMap, pointers: tuple[int, ...]) -> Any:
    index = [array.name for array in case.spec.arrays].index(item.array)
    box = item.box(case.shape, case.parameters)
    return gpu.tensor_map(
        pointers[index], case.mapped_extent(item), case.spec.arrays[index].dtype, tuple(box), item.swizzle
    )


def _check_smem(case: Case, gpu: Gpu, static: int) -> None:
    needed, limit = case.smem + static, gpu.facts.smem_per_cta
    if needed > limit:
        message = f"{case.label}: {needed} bytes of shared memory per CTA, {gpu.facts.name} has {limit}"
        raise UsageError(message, "choose fewer stages or a smaller tile")
