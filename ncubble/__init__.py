"""ncubble: finds, explains and guards against pipeline bubbles in GPU kernels.

    import ncubble

    r = ncubble.load("x.ncu-rep")  # a report, a run directory, or a folder of them
    r                              # launches with their time, busy share and cause
    r.launches, r.metrics, r.timeline, r.source   # DataFrames
    r[0].account                   # Series in percent of elapsed SM cycles; sums to 100
    r[0].verdict, r[0].plot(), r[0].timeline.plot()

The names below are stable; ``docs/api.md`` describes them. Each is imported when it is first used,
so that ``import ncubble`` alone takes no time.
"""

from __future__ import annotations

__version__ = "0.2.0"
__all__ = [
    "CheckResult",
    "ExportedFile",
    "LaunchAdvice",
    "NcubbleError",
    "ProgramResult",
    "ReportComparison",
    "ReportLaunch",
    "ReportSet",
    "ReportVerdict",
    "StreamsResult",
    "TimelineFrame",
    "TraceResult",
    "TrendResult",
    "advise",
    "annotate",
    "check",
    "compare",
    "export",
    "load",
    "profile",
    "program",
    "streams",
    "trace",
    "trend",
]


def __getattr__(name: str) -> object:
    """A name of ``__all__``, imported now (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module 'ncubble' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module("ncubble.api"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
