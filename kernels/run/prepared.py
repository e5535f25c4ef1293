"""A case on a GPU, ready to be launched; its facts for a profiler; and the library's call that
stands beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.build.build import Build
from ncubble.kernels.build.cubin import code_hash
from ncubble.kernels.device.device import Gpu
from ncubble.kernels.run.verify import GUARD, POISON
from ncubble.kernels.spec.case import Case
from ncubble.kernels.spec.dtypes import dtype_of
from ncubble.kernels.spec.spec import Array

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
