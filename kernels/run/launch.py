"""Brings a case onto a GPU: built, checked against the device, its arrays allocated, ready to be
launched."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ncubble.errors import UsageError
from ncubble.kernels.build.build import Build, build, case_for, check_arch
from ncubble.kernels.device.device import Gpu
from ncubble.kernels.run.host_program import prepare_host
from ncubble.kernels.run.numba_program import prepare_numba
from ncubble.kernels.run.prepared import BuildFacts, Prepared
from ncubble.kernels.run.verify import GUARD
from ncubble.kernels.spec.case import Case, check_cluster
from ncubble.kernels.spec.dtypes import dtype_of
from ncubble.kernels.spec.spec import TensorMap


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
