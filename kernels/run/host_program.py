"""Brings a kernel that a host program drives onto a GPU: its arrays live on the host, and a run is
a whole pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ncubble.errors import UsageError
from ncubble.kernels.build.build import build
from ncubble.kernels.catalog.registry import load_module
from ncubble.kernels.device.device import Gpu
from ncubble.kernels.run.prepared import BuildFacts, Prepared
from ncubble.kernels.run.verify import POISON
from ncubble.kernels.spec.case import Case
from ncubble.kernels.spec.dtypes import raw_bytes
from ncubble.kernels.spec.spec import Array


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
