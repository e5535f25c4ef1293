"""A kernel beside the library's: the same operation on the same inputs, timed in turns in one
run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.catalog.registry import catalog
from ncubble.kernels.run import torch_peers
from ncubble.kernels.run.bench import Rates, Timing, time_in_rounds
from ncubble.kernels.run.prepared import Peer, Prepared
from ncubble.kernels.spec.case import Case

TAKES = {"matmul": 2, "scaled_matmul": 4, "sdpa": 3, "softmax": 1}  # inputs of the library's call, by peer


@dataclass(frozen=True)
class Against:
    """What timing both gave.

    ``ratio`` is the library's median time over the kernel's: above 1 the kernel is faster.
    ``ratio_low`` and ``ratio_high`` are its extremes over the rounds. ``fraction`` is the library's
    share of the kernel's roof.
    """

    library: str
    version: str
    timing: Timing
    ratio: float
    ratio_low: float
    ratio_high: float
    fraction: float | None
    max_abs_difference: float | None


def check_peer(case: Case) -> None:
    """Says before anything is built whether ``case`` can be timed beside a library.

    Raises:
        UsageError: the spec names no library call, or one that its arrays do not fit.
        MeasurementError: the library is not installed.
    """
    if case.spec.peer not in MAKERS or case.spec.language == "host":
        known = ", ".join(name for name, spec in sorted(catalog().items()) if spec.peer and name != case.spec.name)
        message = f"{case.spec.name} has no library call to compare with"
        raise UsageError(message, f"omit --library, or use one of: {known}")
    inputs = sum(not array.output for array in case.spec.arrays)
    if inputs != TAKES.get(case.spec.peer, inputs):
        message = (
            f"{case.spec.name} has {inputs} inputs, but the library's {case.spec.peer} takes {TAKES[case.spec.peer]}"
        )
        raise UsageError(message, "fix the spec's peer")
    if case.spec.peer != "copy":
        torch_peers.import_torch()


def make_peer(prepared: Prepared) -> Peer:
    """The library's call for a kernel that is prepared and whose inputs are uploaded; see
    ``check_peer``."""
    return MAKERS[prepared.case.spec.peer](prepared)


def time_against(prepared: Prepared, peer: Peer, iterations: int) -> tuple[Timing, Callable[[Rates], Against]]:
    """Times kernel and library in turns. Gives the kernel's times, and what completes the rest with
    its rates.

    Raises:
        MeasurementError: the library refuses the call.
    """
    try:
        peer.run()
        prepared.gpu.sync()
    except MeasurementError:
        raise
    except Exception as error:  # the library's own types
        message = f"{peer.library} refused {prepared.case.label}: {type(error).__name__}: {error}"
        raise MeasurementError(message, "choose a --shape that the library takes, or omit --library") from error
    ours, theirs = time_in_rounds(prepared.gpu, (prepared.run, peer.run), iterations)
    ratios = [other / own for own, other in zip(ours.p50_us, theirs.p50_us, strict=True)]
    difference = peer.difference()

    def complete(rates: Rates) -> Against:
        ratio = theirs.timing.p50_us / ours.timing.p50_us
        return Against(
            library=peer.library,
            version=peer.version,
            timing=theirs.timing,
            ratio=ratio,
            ratio_low=min(ratios),
            ratio_high=max(ratios),
            fraction=None if rates.fraction is None else rates.fraction / ratio,
            max_abs_difference=difference,
        )

    return ours.timing, complete


def device_copy(prepared: Prepared) -> Peer:
    """The driver's copy within device memory of as many bytes: half of them read, half written."""
    gpu, case = prepared.gpu, prepared.case
    half = max(int(case.bytes) // 2, 1)
    pointers: dict[bool, int] = {}  # whether it is an output -> the first such array that is large enough
    for array, pointer in zip(case.spec.arrays, prepared.pointers, strict=True):
        if case.nbytes(array) >= half:
            pointers.setdefault(array.output, pointer)
    source, target = pointers.get(False) or gpu.allocate(half), pointers.get(True) or gpu.allocate(half)
    return Peer(
        library="device-to-device copy",
        version=f"driver {gpu.facts.driver}",
        run=functools.partial(gpu.copy, target, source, half),
        difference=lambda: None,
    )


MAKERS: dict[str, Callable[[Prepared], Peer]] = {
    "copy": device_copy,
    **{name: functools.partial(torch_peers.make, name) for name in TAKES},
}
