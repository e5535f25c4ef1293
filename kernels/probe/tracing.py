"""One trace of a kernel of the catalog: built with the probe and without, timed in turns, recorded,
and verified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from ncubble.errors import UsageError
from ncubble.kernels.build.build import PROBED, build, source_files
from ncubble.kernels.device.device import Gpu, call_driver
from ncubble.kernels.probe.probe import MOST_SMS, Cost, ProbeRecorder, measure_cost, require_probe, total_warps
from ncubble.kernels.run.host_program import HostPrepared, prepare_host
from ncubble.kernels.run.inputs import draw_inputs, fresh_seed
from ncubble.kernels.run.launch import load_built, prepare
from ncubble.kernels.run.prepared import BuildFacts, Prepared, facts
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
            raise UsageError(f"--sms {self.sms} is out of range", f"use 1 to {MOST_SMS}")


@dataclass(frozen=True)
class Traced:
    """What came of a trace. ``dump`` as ``ProbeRecorder.dump``; ``registers`` with the probe."""

    case: Case
    seed: int
    facts: dict[str, Any]
    registers: int
    spill_B: int | None  # noqa: N815 - as in the facts
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
    probed, kernel = _probed(plain)
    inputs = draw_inputs(case, seed)
    plain.upload(inputs)
    if isinstance(probed, HostPrepared):  # with arrays of its own; it is warmed up, as its pool grows at first
        probed.upload(inputs)
        probed.run()
    warps, sources = total_warps(case, gpu.facts.sm_count), source_files(case.spec.path)
    recorder = ProbeRecorder(gpu, kernel, warps, options.marks + 1, sources, case.launches)
    cost = measure_cost(gpu, plain.run, probed.run, recorder, options.sms) if options.cost else None
    for numbered in (True, False):  # once more, in turns, if warps wrote several probes
        probed.poison()
        recorder.clear()
        recorder.aim(range(options.sms), numbered)
        clocks = _recorded(probed)
        if recorder.apart():
            break
        warps = recorder.started()
        recorder.release()
        recorder = ProbeRecorder(gpu, kernel, warps, options.marks + 1, sources, case.launches)
    checked = None
    if case.unverified is None:
        outputs, overrun = probed.outputs()
        checked = verify(case, inputs, outputs, seed, overrun)
    registers, spilled = probed.build.registers, probed.build.spill_B
    return Traced(case, seed, facts(plain, clocks), registers, spilled, recorder.dump(), cost, checked)


def _probed(plain: Prepared) -> tuple[Prepared, Any]:
    """What is prepared, with the probe in its kernel, and that kernel: over the same arrays, but
    for programs on the host, which hold their own."""
    case, gpu = plain.case, plain.gpu
    if isinstance(plain, HostPrepared):
        program = prepare_host(case, gpu, PROBED)
        return program, program.kernel
    built = build(case, gpu.arch, PROBED)
    kernel, run = load_built(built, case, gpu, plain.pointers)
    return replace(plain, build=BuildFacts.of(built, case), run=run), kernel


def _recorded(probed: Prepared) -> dict[str, int]:
    """Runs it once, as the only thing that `ncubble streams` counts; the clocks meanwhile."""
    probed.gpu.sync()
    call_driver("cuProfilerStart")
    probed.run()
    clocks = probed.gpu.clocks()
    probed.gpu.sync()
    call_driver("cuProfilerStop")
    return clocks
