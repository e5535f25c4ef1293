"""Compares a kernel's outputs with the float64 reference. NaN is wrong, and so is an element that
was never written."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.errors import VerificationError
from ncubble.kernels.run.inputs import choose_rows
from ncubble.kernels.spec.case import Case
from ncubble.kernels.spec.dtypes import is_float
from ncubble.kernels.spec.spec import Arrays

Expected = dict[str, NDArray[np.float64]]

POISON = 0xFF  # every byte of an output before the launch: NaN in every floating-point type
GUARD = 4096  # poisoned bytes after every output: reveal writes past the end


@dataclass(frozen=True)
class Verification:
    """Outcome of a comparison.

    ``checked`` of ``total`` output elements were compared with the reference, ``bad`` of them are
    outside its tolerance. All ``total`` were looked through for NaN and infinity: ``nonfinite``.
    ``overrun`` names outputs that were written past their end.
    """

    max_abs_error: float
    bad: int
    checked: int
    nonfinite: int
    total: int
    overrun: tuple[str, ...] = ()

    @property
    def bad_pct(self) -> float:
        """Share of compared elements outside the tolerance, in percent."""
        return 100.0 * self.bad / self.checked if self.checked else math.nan

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong and something was compared."""
        return self.checked > 0 and not self.bad and not self.nonfinite and not self.overrun

    def to_json(self) -> dict[str, Any]:
        """Everything, JSON-ready; a number that is not finite is None (``nonfinite`` says why)."""
        finite = {
            name: value if math.isfinite(value) else None
            for name, value in (("max_abs_error", self.max_abs_error), ("bad_pct", self.bad_pct))
        }
        return {**asdict(self), **finite, "passed": self.passed}

    def describe(self) -> str:
        """One line for people."""
        share = "all" if self.checked == self.total else f"{self.checked} sampled of"
        text = f"max error {self.max_abs_error:.3g}, {self.bad_pct:.4g} % bad of {share} {self.total} elements"
        if self.nonfinite:
            text += f", {self.nonfinite} not finite (NaN: never written, or computed)"
        return text + "".join(f", written past the end of {name!r}" for name in self.overrun)

    def require(self, label: str, seed: int) -> None:
        """Raises VerificationError unless ``passed``."""
        if not self.passed:
            raise VerificationError(f"{label}: wrong result: {self.describe()}", f"reproduce it with --seed {seed}")


def verify(
    case: Case,
    inputs: Arrays,
    outputs: Arrays,
    seed: int,
    overrun: tuple[str, ...] = (),
    expected: Expected | None = None,
) -> Verification:
    """Compares ``outputs`` (arrays of the whole result by name) with the reference on a choice of
    rows. ``expected`` is the reference there, where it is known already."""
    rows = choose_rows(case, seed)
    expected = expected_rows(case, inputs, seed) if expected is None else expected
    tolerance = case.tolerance
    worst, bad, checked, nonfinite, total = 0.0, 0, 0, 0, 0
    for array in case.spec.outputs:
        result, reference = outputs[array.name], expected[array.name]
        chosen = result.reshape(-1, *result.shape[case.spec.row_dims :])[rows].astype(np.float64)
        if chosen.shape != reference.shape:
            message = (
                f"{case.spec.name}: the reference of {array.name!r} has shape {reference.shape}, not {chosen.shape}"
            )
            raise VerificationError(message, "fix the spec's reference")
        difference = np.abs(chosen - reference)
        # Written so that NaN is bad: a comparison with NaN is false.
        bad += int(np.count_nonzero(~(difference <= tolerance.bound(reference))))
        worst = max(worst, float(np.where(np.isnan(difference), np.inf, difference).max(initial=0.0)))
        checked += difference.size
        nonfinite += _nonfinite(result)
        total += result.size
    return Verification(worst, bad, checked, nonfinite, total, overrun)


def expected_rows(case: Case, inputs: Arrays, seed: int) -> Expected:
    """The reference of every output on the rows that ``seed`` chooses; raises VerificationError."""
    try:
        results = case.reference(inputs, choose_rows(case, seed))
        return {array.name: np.asarray(results[array.name], dtype=np.float64) for array in case.spec.outputs}
    except Exception as error:  # the reference is the user's code
        message = f"{case.spec.name}: its reference failed: {type(error).__name__}: {error}"
        raise VerificationError(
            message, "fix the spec's reference: it must return an array for every output"
        ) from error


def _nonfinite(result: NDArray[Any]) -> int:
    return int(result.size - np.count_nonzero(np.isfinite(result))) if is_float(result.dtype) else 0
