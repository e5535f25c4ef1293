"""Reads counters of a catalog kernel through ncu, for gates on counters."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ncubble.kernels.run.gates import Count
    from ncubble.kernels.spec.spec import Value

LAUNCHES = 3
"""Runs of each path; the median is judged."""
LIMIT_S = 300.0


def counter_reader(name: str, catalog: Path | None) -> Count:
    """Function that counts launches of the kernel ``name``."""

    def count(parameters: Mapping[str, Value], sizes: Mapping[str, int], metrics: Sequence[str]) -> Mapping[str, float]:
        from ncubble.analysis.report.report import Report
        from ncubble.api.profiling import record_profile
        from ncubble.api.subjects import as_pairs, catalog_subject
        from ncubble.cli.terminal import recording
        from ncubble.profiling.recorders.ncu import NcuSettings

        subject = catalog_subject(name, as_pairs(parameters), ",".join(as_pairs(sizes)), catalog, LAUNCHES)
        settings = NcuSettings((), tuple(metrics))
        with tempfile.TemporaryDirectory(prefix="ncubble-gates-") as folder, recording() as observer:
            run = record_profile(subject, settings, Path(folder) / "run", timeout_s=LIMIT_S, observer=observer)
            launches = [launch.scalars for launch in Report.open(run.path)]
        read = [metric for metric in metrics if all(metric in scalars for scalars in launches)]
        return {metric: median(scalars[metric] for scalars in launches) for metric in read}

    return count
