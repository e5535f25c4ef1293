"""Measures configurations of a kernel: times in a separate process, advice from a profile under
ncu."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ncubble.cli.commands.tune.advice import advice_of
from ncubble.errors import MeasurementError, NcubbleError
from ncubble.kernels.run.device import DeviceFacts
from ncubble.kernels.run.tune import FAILED, Trial, TuneAdvice, device_from
from ncubble.kernels.spec.case import Case
from ncubble.profiling.processes import ServerDiedError, ServingProcess

MODULE = "ncubble.cli.commands.tune.worker"
LIMIT_S = 180.0
"""Time limit of an answer: building, drawing inputs, the reference on the CPU, and launches."""


@dataclass
class GpuBench:
    """Measures configurations of one kernel, shape and seed. ``profiles``: whether to profile for
    advice; if that fails, ``tell`` is called once with the reason."""

    kernel: str
    catalog: Path | None
    shape: Mapping[str, int]
    seed: int
    iterations: int
    profiles: bool = True
    tell: Callable[[str], None] = lambda text: None
    process: ServingProcess = field(default_factory=lambda: ServingProcess(MODULE, own_group=True))

    def device(self) -> DeviceFacts:
        """The GPU; raises MeasurementError if there is none."""
        return device_from(self._ask("device")["device"])

    def measure(self, case: Case) -> Trial:
        """Verify and time a configuration; one that hangs or crashes its process has failed. Raises
        MeasurementError if the GPU is lost afterwards, which leaves the outcome unknown."""
        try:
            trial = Trial(**self._ask("measure", [case])["trial"])
        except MeasurementError as error:
            trial = Trial(case.parameters, FAILED, str(error).partition("\n")[0])
        if trial.outcome == FAILED:
            self.process.close()  # a fault stays with its process
            self._require_gpu(trial)
        return trial

    def _require_gpu(self, trial: Trial) -> None:
        try:
            self.device()
        except MeasurementError as error:
            message = f"the GPU was lost with {dict(trial.parameters)} ({trial.why}): {error.message}"
            remedy = "check `nvidia-smi`, then add --resume and --out to the command: this trial was not kept"
            raise MeasurementError(message, remedy) from error

    def in_turns(self, cases: Sequence[Case]) -> list[float]:
        """Median times in microseconds, measured in turns."""
        return [float(time) for time in self._ask("turns", cases)["p50_us"]]

    def advise(self, case: Case) -> TuneAdvice | None:
        """Advice from a profile under ncu; None without one."""
        if not self.profiles:
            return None
        try:
            with tempfile.TemporaryDirectory(prefix="ncubble-tune-") as folder:
                return advice_of(case, self.catalog, Path(folder) / "run")
        except NcubbleError as error:
            self.profiles = False
            self.tell(f"timings only, no profiles: {error.message}")
            return None

    def _ask(self, do: str, cases: Sequence[Case] = ()) -> dict[str, Any]:
        request = {
            **{"do": do, "kernel": self.kernel, "catalog": str(self.catalog.resolve()) if self.catalog else ""},
            **{"shape": dict(self.shape), "seed": self.seed, "iterations": self.iterations},
            "parameters": [dict(case.parameters) for case in cases],
        }
        try:
            answer = self.process.ask(request, LIMIT_S)
        except ServerDiedError as error:
            how = f"gave no answer within {LIMIT_S:.0f} s" if error.expired else f"ended with {error}"
            remedy = "add --resume and --out to the command: finished trials are kept"
            raise MeasurementError(f"the process that measures {how}", remedy) from error
        if "error" in answer:
            raise MeasurementError(answer["error"], answer["remedy"])
        return answer
