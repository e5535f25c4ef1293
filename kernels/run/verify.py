"""Random inputs, and outputs compared with the float64 reference. NaN is wrong, and so is an
element that was never written."""

from __future__ import annotations

import math
import secrets
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncubble.errors import UsageError, VerificationError
from ncubble.kernels.spec.case import Case
from ncubble.kernels.spec.spec import Arrays, HostArray, dtype_of, is_float

Expected = dict[str, NDArray[np.float64]]

POISON = 0xFF  # every byte of an output before the launch: NaN in every floating-point type
GUARD = 4096  # poisoned bytes after every output: reveal writes past the end
TILE_ROWS = 128  # the sample includes every row position within such a tile
FLOP_BUDGET = 5e9  # float64 work on the CPU per verification: a fraction of a second
ELEMENT_BUDGET = 2**23


def fresh_seed() -> int:
    """A seed nobody has chosen; print it, so that a failure can be repeated."""
    return secrets.randbits(32)


def draw_inputs(case: Case, seed: int) -> dict[str, HostArray]:
    """One array per input of ``case``: as the spec draws them, else N(0, 1) for floats, uniform
    over the type for integers."""
    generator = np.random.default_rng(seed)
    drawn = dict(case.spec.draw(generator, case.shape)) if case.spec.draw is not None else None
    inputs: dict[str, HostArray] = {}
    for array in case.spec.arrays:
        if array.output:
            continue
        dtype, extent = dtype_of(array.dtype), case.extent(array)
        if drawn is not None:
            given = drawn.get(array.name)
            if given is None or (given.shape, given.dtype) != (extent, dtype):
                got = "nothing" if given is None else f"{given.dtype} {given.shape}"
                message = f"{case.spec.name}: draw returned {got} for {array.name!r}, expected {dtype} {extent}"
                raise UsageError(message, "fix the spec's draw")
            inputs[array.name] = given
        elif is_float(dtype):
            inputs[array.name] = generator.standard_normal(extent, dtype=np.float32).astype(dtype, copy=False)
        else:
            limits = np.iinfo(dtype)
            inputs[array.name] = generator.integers(limits.min, limits.max, extent, dtype=dtype, endpoint=True)
    return inputs


def choose_rows(case: Case, seed: int) -> NDArray[np.intp]:
    """Rows (flat indices over the outputs' first ``row_dims`` axes) to compare: all of a small
    problem, else a sample.

    The sample holds every position within a tile of 128 rows, and a row of every such tile, paired
    at random: an error tied to a thread, a warp or a row of CTAs cannot hide.
    """
    extents = [case.extent(array) for array in case.spec.outputs]
    rows = math.prod(extents[0][: case.spec.row_dims])
    by_elements = ELEMENT_BUDGET * rows // max(sum(map(math.prod, extents)), 1)
    by_flops = int(FLOP_BUDGET * rows / case.flops) if case.flops else rows
    wanted = max(TILE_ROWS, min(by_elements, by_flops))
    if wanted >= rows:
        return np.arange(rows)
    generator = np.random.default_rng([seed, 1])
    positions = generator.permutation(TILE_ROWS)
    tiles = generator.permutation(-(-rows // TILE_ROWS))
    index = np.arange(max(wanted, len(tiles)))
    shift = index // math.lcm(len(tiles), TILE_ROWS)  # otherwise the same pairs repeat
    chosen = tiles[index % len(tiles)] * TILE_ROWS + positions[(index + shift) % TILE_ROWS]
    taken = np.zeros(rows, dtype=bool)  # far cheaper than np.unique for millions of rows
    taken[np.minimum(chosen, rows - 1)] = True
    return np.flatnonzero(taken)


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
    worst, bad, checked, nonfinite, total = 0.0, 0, 0, 0, 0
    for array in case.spec.outputs:
        result, reference = outputs[array.name], expected[array.name]
        chosen = result.reshape(-1, *result.shape[case.spec.row_dims :])[rows].astype(np.float64)
        if chosen.shape != reference.shape:
            message = f"the reference of {array.name!r} has shape {reference.shape}, not {chosen.shape}"
            raise VerificationError(f"{case.spec.name}: {message}", "fix the spec's reference")
        difference = np.abs(chosen - reference)
        # Written so that NaN is bad: a comparison with NaN is false.
        bad += int(np.count_nonzero(~(difference <= case.tolerance.bound(reference))))
        worst = max(worst, float(np.where(np.isnan(difference), np.inf, difference).max(initial=0.0)))
        checked += difference.size
        nonfinite += int(result.size - np.count_nonzero(np.isfinite(result))) if is_float(result.dtype) else 0
        total += result.size
    return Verification(worst, bad, checked, nonfinite, total, overrun)


def expected_rows(case: Case, inputs: Arrays, seed: int) -> Expected:
    """The reference of every output on the rows that ``seed`` chooses; raises VerificationError."""
    try:
        results = case.reference(inputs, choose_rows(case, seed))
        return {array.name: np.asarray(results[array.name], dtype=np.float64) for array in case.spec.outputs}
    except Exception as error:  # the reference is the user's code
        message = f"{case.spec.name}: its reference failed: {type(error).__name__}: {error}"
        remedy = "fix the spec's reference: it must return an array for every output"
        raise VerificationError(message, remedy) from error
