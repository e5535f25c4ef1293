"""Times configurations of one kernel on a GPU: each is verified first, on the same inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ncubble.errors import NcubbleError, UsageError
from ncubble.kernels.run.bench import time_in_rounds, time_launches
from ncubble.kernels.run.device import Gpu
from ncubble.kernels.run.launch import Prepared, prepare
from ncubble.kernels.run.verify import Expected, draw_inputs, expected_rows, verify
from ncubble.kernels.spec.case import Case

OK, WRONG, REFUSED, FAILED = "ok", "wrong", "refused", "failed"
"""Outcome of a configuration: timed; wrong result; not launched, because device or compiler rejects
it; ended by a fault, or hung."""


@dataclass(frozen=True)
class Trial:
    """One configuration: its outcome, ``why`` it is not ``OK``, the SM clock while it ran, and what
    was built."""

    outcome: str
    why: str = ""
    sm_mhz: int | None = None
    build: Mapping[str, Any] = field(default_factory=dict)


class Trials:
    """Times cases of one kernel and shape on ``gpu``, whose parameters compute the same. All use
    the same arrays and inputs drawn by ``seed``, and are compared with one reference."""

    def __init__(self, gpu: Gpu, seed: int) -> None:
        self._gpu, self._seed = gpu, seed
        self._inputs: dict[str, Any] = {}
        self._expected: Expected | None = None
        self._pointers: tuple[int, ...] | None = None

    def measure(self, case: Case, iterations: int) -> Trial:
        """Builds, verifies and times ``case``; never raises NcubbleError."""
        launched = False
        try:
            prepared = self._prepared(case)
            launched = True
            return self._timed(prepared, iterations)
        except NcubbleError as error:  # UsageError: the GPU cannot run it; else a fault, no compiler, no memory
            refused = isinstance(error, UsageError) and not launched
            return Trial(REFUSED if refused else FAILED, error.message)
        finally:
            if launched:
                self._clear()

    def _timed(self, prepared: Prepared, iterations: int) -> Trial:
        case = prepared.case
        prepared.poison()
        prepared.run()
        outputs, overrun = prepared.outputs()
        if self._expected is None:
            self._expected = expected_rows(case, self._inputs, self._seed)
        checked = verify(case, self._inputs, outputs, self._seed, overrun, self._expected)
        build = asdict(prepared.build)
        if not checked.passed:
            prepared.upload(self._inputs)  # it may have written there
            return Trial(WRONG, checked.describe(), build=build)
        clocks = time_launches(self._gpu, prepared.run, iterations).clocks
        return Trial(OK, "", clocks.get("sm_mhz"), build)

    def in_turns(self, cases: Sequence[Case], iterations: int, rounds: int) -> list[list[float]]:
        """Times of several cases in microseconds, timed in turns: the median of each round. Raises
        NcubbleError."""
        try:
            runs = [self._prepared(case).run for case in cases]
            return [list(each.p50_us) for each in time_in_rounds(self._gpu, runs, iterations, rounds)]
        finally:
            self._clear()

    def _prepared(self, case: Case) -> Prepared:
        prepared = prepare(case, self._gpu, pointers=self._pointers)
        if self._pointers is None:
            self._inputs, self._pointers = draw_inputs(case, self._seed), prepared.pointers
            prepared.upload(self._inputs)
        return prepared

    def _clear(self) -> None:
        """Frees all memory but the arrays."""
        if others := set(self._gpu.allocated) - set(self._pointers or ()):
            self._gpu.free(*others)
