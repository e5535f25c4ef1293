"""What a deeper ring would gain, by the prediction of depth: the gain of curing waits for data, where that is known."""

from __future__ import annotations

from ncubble.analysis.account.account import BubbleAccount
from ncubble.analysis.model.gain import Gain
from ncubble.analysis.model.pipeline import Unidentified, pipeline_of
from ncubble.analysis.model.predict import predict
from ncubble.analysis.report.launch import Launch

DEEPEST = 8


def depth_gain(launch: Launch, account: BubbleAccount) -> Gain | None:
    """The gain of the best depth beyond the present one, in percent of kernel time, 0 if none is better.

    None where the present depth or the effect of another is not identified, or no deeper ring fits.
    """
    now = pipeline_of(launch, account)
    if isinstance(now, Unidentified):
        return None
    told = [one for depth in range(now.stages + 1, DEEPEST + 1) if (one := predict(now, depth)) is not None]
    if not told:
        return None
    best = max(told, key=lambda one: one.tensor_elapsed_pct)
    busy = account.parts["tensor_busy"] + account.parts["unit_busy"]
    expected, low, high = (
        max(0.0, 100.0 * (1.0 - busy / share)) for share in (best.tensor_elapsed_pct, best.low, best.high)
    )
    return Gain(expected, low, high)
