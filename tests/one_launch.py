"""A report of one launch, from its numbers: for what is decided from counters and code alone."""

import math
from types import SimpleNamespace

import pandas as pd

CODE = ("opcode", "executed", "samples")


class OneLaunch:
    """Scalar ``metrics`` by name, ``code`` as (opcode, executed, samples), and ``series`` of the timeline by name."""

    def __init__(self, metrics, code=(), capability="9.0", ncu="2025.3.1", series=None):
        self._scalars = dict(metrics)
        self.code = pd.DataFrame(list(code), columns=CODE).astype({"executed": float, "samples": float})
        self.row = {"compute_capability": capability, "ncu_version": ncu}
        self.frame = SimpleNamespace(ends=True, ncu_version=ncu)
        rows = [(0, name, float(value)) for name, values in (series or {}).items() for value in values]
        self.timeline = pd.DataFrame(rows, columns=["launch", "metric", "value"])

    @property
    def metrics(self):
        return pd.DataFrame({"launch": 0, "metric": list(self._scalars)})

    def identity(self, launch):
        return self.row

    def value(self, launch, metric):
        return self._scalars.get(metric, math.nan)

    def first(self, launch, metrics):
        return next((self.value(launch, name) for name in metrics if name in self._scalars), math.nan)

    def scalars(self, launch):
        return self._scalars

    def timeline_of(self, launch):
        return self.timeline

    def source_of(self, launch):
        return self.code
