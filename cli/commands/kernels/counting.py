"""Reads counters of a catalog kernel through ncu, for gates on counters."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ncubble.kernels.gates.counters import Count
    from ncubble.kernels.spec.spec import Value

LAUNCHES = 3
"""Runs of each path; the median is judged."""
LIMIT_S = 300.0


def counter_reader(name: str, catalog: Path | None) -> Count:
    """Function that counts launches of the kernel ``name``."""

    def count(parameters: Mapping[str, Value], sizes: Mapping[str, int], metrics: Sequence[str]) -> Mapping[str, float]:
        from ncubble.analysis.report.report import Report
        from ncubble.cli.commands.profile import catalog_program, observed
        from ncubble.profiling.ncu.ncu import Filters
        from ncubble.profiling.runs.session import ProfileRequest

        pairs = [f"{key}={value}" for key, value in parameters.items()]
        shape = ",".join(f"{key}={value}" for key, value in sizes.items())
        program, _, function = catalog_program(name, pairs, shape, catalog, LAUNCHES)
        with tempfile.TemporaryDirectory(prefix="ncubble-gates-") as folder:
            request = ProfileRequest(
                program, Path(folder) / "run", (), tuple(metrics), Filters(function), timeout_s=LIMIT_S
            )
            launches = [launch.scalars for launch in Report.open(observed(request).path)]
        read = [metric for metric in metrics if all(metric in scalars for scalars in launches)]
        return {metric: median(scalars[metric] for scalars in launches) for metric in read}

    return count
