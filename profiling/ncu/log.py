"""Parses ncu's output while it runs: its own messages, the progress of a kernel, and the program's
output.

ncu marks its lines ``==PROF==``, ``==WARNING==`` and ``==ERROR==`` and mixes them with the
program's. A progress line grows while a kernel is replayed: ``==PROF== Profiling "name" - 3:
0%....50%....100% - 10 passes``. The index may lack (ncu 2025.3.1 writes ``Profiling "name":
0%...``); launches are then counted, and a line that ends one is read once, when it is whole.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

Stream = Literal["stdout", "stderr"]

_MARK = re.compile(r"==(PROF|WARNING|ERROR)== ?")
_PROFILING = re.compile(r'Profiling "(?P<kernel>.*)"(?: - (?P<index>\d+)(?: \(\d+/\d+\))?)?:(?P<progress>.*)')
_PASSES = re.compile(r"(\d+) pass(?:es)?\b")
_AVAILABLE = re.compile(r"\s*\d+\.\s+(\S.*)")
_TAIL_LINES = 40


@dataclass(frozen=True)
class ReplayedLaunch:
    """One profiled launch. ``passes`` is None until ncu reports it."""

    kernel: str
    index: int
    percent: int
    passes: int | None


@dataclass
class NcuLog:
    """The state after everything fed so far. ``on_launch`` is called for each change of a launch,
    ``on_output`` for each line of the program.
    """

    on_launch: Callable[[ReplayedLaunch], None] = lambda launch: None
    on_output: Callable[[Stream, str], None] = lambda stream, line: None
    launches: dict[int, ReplayedLaunch] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    available: list[str] = field(default_factory=list)
    report: str = ""
    tail: dict[Stream, deque[str]] = field(
        default_factory=lambda: {"stdout": deque(maxlen=_TAIL_LINES), "stderr": deque(maxlen=_TAIL_LINES)}
    )
    _partial: dict[Stream, str] = field(default_factory=lambda: {"stdout": "", "stderr": ""})
    _listing: bool = False

    @property
    def profiled(self) -> list[ReplayedLaunch]:
        """Launches that were profiled to the end, in order."""
        return [launch for _, launch in sorted(self.launches.items()) if launch.passes is not None]

    def feed(self, stream: Stream, text: str) -> None:
        """Process the next piece of output, split anywhere."""
        *lines, rest = (self._partial[stream] + text).split("\n")
        for line in lines:
            self._line(stream, line.rstrip("\r"))
        self._partial[stream] = rest
        if "==PROF== Profiling" in rest and not _PASSES.search(rest):
            self._progress(rest)

    def close(self) -> None:
        """Process the remaining output without a line end."""
        for stream, rest in self._partial.items():
            if rest:
                self._line(stream, rest)
            self._partial[stream] = ""

    def _line(self, stream: Stream, line: str) -> None:
        mark = _MARK.search(line)
        if mark is None:
            self._program_line(stream, line)
            return
        if mark.start():
            self._program_line(stream, line[: mark.start()])
        message = line[mark.end() :].strip()
        self._listing = False
        if mark[1] == "ERROR":
            self.errors.append(message)
        elif mark[1] == "WARNING":
            self.warnings.append(message)
        elif message.startswith("Report:"):
            self.report = message.removeprefix("Report:").strip()
        else:
            self._progress(line)

    def _program_line(self, stream: Stream, line: str) -> None:
        if line.strip() == "Available Kernels:":
            self._listing = True
            return
        listed = _AVAILABLE.fullmatch(line) if self._listing else None
        if listed:
            self.available.append(listed[1].strip())
            return
        self.tail[stream].append(line)
        self.on_output(stream, line)

    def _progress(self, line: str) -> None:
        match = _PROFILING.search(line)
        if not match:
            return
        passes = _PASSES.search(match["progress"])
        launch = ReplayedLaunch(
            kernel=match["kernel"],
            index=int(match["index"] or len(self.profiled)),
            percent=_percent(match["progress"]),
            passes=int(passes[1]) if passes else None,
        )
        if self.launches.get(launch.index) != launch:
            self.launches[launch.index] = launch
            self.on_launch(launch)


def _percent(progress: str) -> int:
    """``"0%....50%.."`` → 70: a figure every fifty percent, a dot every ten between."""
    figures = list(re.finditer(r"(\d+)%", progress))
    if not figures:
        return 0
    return min(100, int(figures[-1][1]) + 10 * progress[figures[-1].end() :].split(" ")[0].count("."))
