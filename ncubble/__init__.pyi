"""The names of ``ncubble`` for type checkers; at run time each is imported when it is used."""

from ncubble.api import CheckResult as CheckResult
from ncubble.api import ExportedFile as ExportedFile
from ncubble.api import LaunchAdvice as LaunchAdvice
from ncubble.api import NcubbleError as NcubbleError
from ncubble.api import ProgramResult as ProgramResult
from ncubble.api import ReportComparison as ReportComparison
from ncubble.api import ReportLaunch as ReportLaunch
from ncubble.api import ReportSet as ReportSet
from ncubble.api import ReportVerdict as ReportVerdict
from ncubble.api import StreamsResult as StreamsResult
from ncubble.api import TimelineFrame as TimelineFrame
from ncubble.api import TraceResult as TraceResult
from ncubble.api import TrendResult as TrendResult
from ncubble.api import advise as advise
from ncubble.api import annotate as annotate
from ncubble.api import check as check
from ncubble.api import compare as compare
from ncubble.api import export as export
from ncubble.api import load as load
from ncubble.api import profile as profile
from ncubble.api import program as program
from ncubble.api import streams as streams
from ncubble.api import trace as trace
from ncubble.api import trend as trend

__version__: str
__all__: list[str]
