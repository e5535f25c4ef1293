"""How long one launch takes: its loop read from code and samples, its account and gains by
simulation, and its predictions of eight depths.

``python -m benchmarks.truth.speed`` takes the launches that may be learned from, one after the
other, on one core. Frames of the launch and the account of its samples are made before.
"""

from __future__ import annotations

from statistics import fmean, median
from time import perf_counter

from benchmarks.validation.truth.store import TruthLaunch, stored
from ncubble.analysis.account.account import account as sampled_account
from ncubble.analysis.diagnosis.advise import predict_sweep
from ncubble.analysis.model.account import account, loop_model
from ncubble.recordings import VALIDATION


def seconds(one: TruthLaunch) -> float:
    """Of one launch."""
    sampled_account(one.launch)
    began = perf_counter()
    account(one.launch)
    predict_sweep(one.launch)
    return perf_counter() - began


def main() -> None:
    """Prints the median, the mean and the most of launches that are simulated, in milliseconds."""
    took = [
        1000.0 * spent
        for one in stored(VALIDATION / "truth", "learn")
        if (spent := seconds(one)) and loop_model(one.launch) is not None
    ]
    print(f"{len(took)} launches: median {median(took):.0f} ms, mean {fmean(took):.0f} ms, most {max(took):.0f} ms")


if __name__ == "__main__":
    main()
