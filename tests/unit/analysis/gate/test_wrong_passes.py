"""What must never pass a check: reports that are not read, launches that were not measured anew, and
values that no launch has. Variants are made from a recorded report of five launches.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from benchmarks.reports import structure
from benchmarks.reports.fuzz import plain_bytes
from ncubble.analysis.gate.settings import GateSettings
from ncubble.api.baselines import record_baselines
from ncubble.api.checking import CheckResult, check
from ncubble.errors import MeasurementError
from ncubble.profiling.runs import Run
from ncubble.recordings import REPEATS
from structure_edits import edited, launches_of

PLAIN = plain_bytes(Run.load(REPEATS / "tensor_core_gemm" / "stages1").report)
CYCLES, DURATION = "sm__cycles_elapsed.avg", "gpu__time_duration.sum"
