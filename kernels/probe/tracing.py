"""One trace of a kernel of the catalog: built with the probe and without, timed in turns, recorded,
and verified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from ncubble.errors import UsageError
from ncubble.kernels.build.build import PROBED, build, source_files
from ncubble.kernels.device.device import Gpu
from ncubble.kernels.probe.probe import MOST_SMS, Cost, ProbeRecorder, measure_cost, require_probe, total_warps
from ncubble.kernels.run.inputs import draw_inputs, fresh_seed
from ncubble.kernels.run.launch import load_built, prepare
from ncubble.kernels.run.prepared import facts
from ncubble.kernels.run.request import KernelRequest
from ncubble.kernels.run.verify import Verification, verify
from ncubble.kernels.spec.case import Case


@dataclass(frozen=True)
class TraceOptions:
    """What is recorded: warps that start on the first ``sms`` SMs, ``marks`` marks each. ``cost``:
    measure it."""

    sms: int = 1
    marks: int = 2048
    cost: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.sms <= MOST_SMS:
            raise UsageError(f"--sms {self.sms} is not possible", f"use 1 to {MOST_SMS}")


@dataclass(frozen=True)
class Traced:
    """What came of a trace. ``dump`` as ``ProbeRecorder.dump``; ``registers`` with the probe."""

    case: Case
    seed: int
    facts: dict[str, Any]
    registers: int
    spill_B: int  # noqa: N815 - as in the facts
    dump: bytes
    cost: Cost | None
    verification: Verification | None

    def to_json(self) -> dict[str, Any]:
        """All but the dump, JSON-ready."""
        checked = self.verification
        return {
            **self.facts,
            "seed": self.seed,
            "probe": {"registers": self.registers, "spill_B": self.spill_B},
            "cost": asdict(self.cost) if self.cost else None,
            "verification": checked.to_json() if checked else None,
        }


def trace(request: KernelRequest, options: TraceOptions, open_gpu: Callable[[], Gpu] = Gpu.open) -> Traced:
    """Runs the kernel of ``request`` with the probe on; raises UsageError and MeasurementError as
    ``execute`` does."""
    case = request.case()
    require_probe(case)
    gpu = open_gpu()
    try:
        return _trace(request, options, case, gpu)
    finally:
        gpu.close()


def _trace(request: KernelRequest, options: TraceOptions, case: Case, gpu: Gpu) -> Traced:
    seed = request.seed if request.seed is not None else fresh_seed()
    plain = prepare(case, gpu)
    case = plain.case  # with the defaults of this GPU
    inputs = draw_inputs(case, seed)
    plain.upload(inputs)
    built = build(case, gpu.arch, PROBED)
    kernel, run = load_built(built, case, gpu, plain.pointers)
    warps, sources = total_warps(case, gpu.facts.sm_count), source_files(case.spec.path)
    recorder = ProbeRecorder(gpu, kernel, warps, options.marks + 1, sources, case.launches)
    cost = measure_cost(gpu, plain.run, run, recorder, options.sms) if options.cost else None
    for numbered in (True, False):  # once more, taking turns, where warps made several probes
        plain.poison()
        recorder.clear()
        recorder.aim(range(options.sms), numbered)
        run()
        clocks = gpu.clocks()
        gpu.sync()
        if recorder.apart():
            break
        warps = recorder.started()
        recorder.release()
        recorder = ProbeRecorder(gpu, kernel, warps, options.marks + 1, sources, case.launches)
    checked = None
    if case.unverified is None:
        outputs, overrun = plain.outputs()
        checked = verify(case, inputs, outputs, seed, overrun)
    resources = built.resources
    return Traced(
        case, seed, facts(plain, clocks), resources.registers, resources.spill_B, recorder.dump(), cost, checked
    )
