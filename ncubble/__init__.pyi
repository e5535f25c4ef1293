"""The names of ``ncubble`` for type checkers; at run time each is imported when it is used."""

from ncubble.api.checking import CheckResult as CheckResult
from ncubble.api.checking import check as check
from ncubble.api.comparison import ReportComparison as ReportComparison
from ncubble.api.comparison import compare as compare
from ncubble.api.exporting import ExportedFile as ExportedFile
from ncubble.api.exporting import export as export
from ncubble.api.launch import ReportLaunch as ReportLaunch
from ncubble.api.launch import ReportVerdict as ReportVerdict
from ncubble.api.profiling import profile as profile
from ncubble.api.programs import ProgramResult as ProgramResult
from ncubble.api.programs import program as program
from ncubble.api.reports import ReportSet as ReportSet
from ncubble.api.reports import load as load
from ncubble.api.streaming import StreamsResult as StreamsResult
from ncubble.api.streaming import streams as streams
from ncubble.api.tracing import TraceResult as TraceResult
from ncubble.api.tracing import trace as trace
from ncubble.api.trends import TrendResult as TrendResult
from ncubble.api.trends import trend as trend
from ncubble.errors import NcubbleError as NcubbleError

__version__: str
__all__: list[str]
