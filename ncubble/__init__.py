"""ncubble: finds, explains and guards against pipeline bubbles in GPU kernels.

    import ncubble

    r = ncubble.load("x.ncu-rep")  # a report, a run directory, or a folder of them
    r                              # launches with their time, busy share and cause
    r.launches, r.metrics, r.timeline, r.source   # DataFrames
    r[0].account                   # Series in percent of elapsed SM cycles; sums to 100
    r[0].verdict, r[0].plot(), r[0].plot_timeline()

The names below are stable; ``docs/api.md`` describes them. Each is imported when it is first used,
so that ``import ncubble`` alone takes no time.
"""

from __future__ import annotations

__version__ = "0.2.0"
_NAMES = {
    "errors": ("NcubbleError",),
    "api.checking": ("CheckResult", "check"),
    "api.comparison": ("ReportComparison", "compare"),
    "api.exporting": ("ExportedFile", "export"),
    "api.launch": ("ReportLaunch", "ReportVerdict"),
    "api.profiling": ("profile",),
    "api.programs": ("ProgramResult", "program"),
    "api.reports": ("ReportSet", "load"),
    "api.streaming": ("StreamsResult", "streams"),
    "api.tracing": ("TraceResult", "trace"),
    "api.trends": ("TrendResult", "trend"),
}
"""Names by their module."""
__all__ = sorted(name for names in _NAMES.values() for name in names)


def __getattr__(name: str) -> object:
    """A name of ``__all__``, imported now (PEP 562)."""
    for module, names in _NAMES.items():
        if name in names:
            from importlib import import_module

            value = globals()[name] = getattr(import_module(f"ncubble.{module}"), name)
            return value
    raise AttributeError(f"module 'ncubble' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
