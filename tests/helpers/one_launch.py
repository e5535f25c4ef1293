"""A launch made of its numbers: for what is decided from counters and code alone."""

from types import SimpleNamespace

import pandas as pd

from ncubble.analysis.report.report import Launch, LaunchIdentity

CODE = ("opcode", "executed", "samples")


class OneLaunch(Launch):
    """Scalar ``metrics`` by name, ``code`` as (opcode, executed, samples), and ``series`` of the
    timeline by name."""

    scalars = identity = source = timeline = memo = declared = None

    def __init__(self, metrics, code=(), capability="9.0", ncu="2025.3.1", series=None, sets=("pipeline",)):
        rows = [(0, name, float(value)) for name, values in (series or {}).items() for value in values]
        vars(self).update(
            report=SimpleNamespace(
                frame=SimpleNamespace(ends=True, ordered=True, rules_speak=True, ncu_version=ncu),
                run=SimpleNamespace(manifest=SimpleNamespace(metric_set=list(sets))),
            ),
            number=0,
            memo={},
            declared={},
            scalars=dict(metrics),
            source=pd.DataFrame(list(code), columns=CODE).astype({"executed": float, "samples": float}),
            identity=LaunchIdentity(compute_capability=capability, ncu_version=ncu),
            timeline=pd.DataFrame(rows, columns=["launch", "metric", "value"]),
        )
