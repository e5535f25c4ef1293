"""The Python API: what ``import ncubble`` offers (docs/api.md).

Objects are read-only views of reports that are read once; their numbers are those of the command
line. Each name is imported when it is first used: pandas, plotly and the readers load only where
needed.
"""

from ncubble.api.advice import LaunchAdvice, advise
from ncubble.api.checking import CheckResult, check
from ncubble.api.comparison import ReportComparison, compare
from ncubble.api.exporting import ExportedFile, export
from ncubble.api.launch import ReportLaunch
from ncubble.api.loading import load
from ncubble.api.notes import annotate
from ncubble.api.profiling import profile
from ncubble.api.programs import ProgramResult, program
from ncubble.api.reports import ReportSet
from ncubble.api.streaming import StreamsResult, streams
from ncubble.api.timeline import TimelineFrame
from ncubble.api.tracing import TraceResult, trace
from ncubble.api.trends import TrendResult, trend
from ncubble.api.verdict import ReportVerdict
from ncubble.errors import NcubbleError

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
