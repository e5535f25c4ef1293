"""How long one launch takes: its loop read from code and samples, and its predictions of eight depths by simulation.

``python -m benchmarks.truth.speed`` takes the launches that may be learned from, one after the other, on one core.
Frames of the launch and its account are made before.
"""

from __future__ import annotations

from statistics import fmean, median
from time import perf_counter

from benchmarks.validation.store import stored
from ncubble.analysis.account.account import account
from ncubble.analysis.model.depths import predict_all
from ncubble.analysis.model.pipeline import pipeline_of
from ncubble.recordings import VALIDATION


def main() -> None:
    """Prints the median, the mean and the most of launches of which a depth is predicted, in milliseconds."""
    took = []
    for one in stored(VALIDATION / "truth", "learn"):
        account(one.launch)
        began = perf_counter()
        predicted = predict_all(pipeline_of(one.launch))
        if any(predicted.values()):
            took.append(1000.0 * (perf_counter() - began))
    print(f"{len(took)} launches: median {median(took):.0f} ms, mean {fmean(took):.0f} ms, most {max(took):.0f} ms")


if __name__ == "__main__":
    main()
