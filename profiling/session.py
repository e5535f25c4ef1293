"""Records a program into a run directory, whoever records it.

A recorder (``profiling/recorders``) is a function of an open ``Session``: it has the session run
the program, in an environment of its own, puts the files to be kept into ``folder``, and says in
the manifest what came of it. Everything else is done here, once for all recorders: the target is
checked before anything runs, the directory appears whole or not at all, scratch files vanish, the
program's output is passed on as it comes, its processes end with it, and the manifest says what
ran, when, where, and of which source tree. Several recorders may fill one session.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ncubble.errors import UsageError
from ncubble.profiling import processes, ranks, staging
from ncubble.profiling.driver import Device, DriverError, describe
from ncubble.profiling.failures import NoGpuError
from ncubble.profiling.provenance import git_state, utc_now
from ncubble.profiling.runs import Manifest
from ncubble.profiling.subject import Subject

LAST_LINES, LAST_B = 4, 2000
"""What is said of a program's stderr where it failed, at most."""


@dataclass(frozen=True)
class Observer:
    """Who hears of a recording: ``doing`` of what is under way now, for a line that is overwritten;
    ``output`` of what the program prints, as it comes, with its line ends; ``say`` of sentences for
    the user."""

    doing: Callable[[str], None] = lambda text: None
    output: Callable[[processes.Stream, str], None] = lambda stream, text: None
    say: Callable[[str], None] = lambda sentence: None

    @classmethod
    def of_lines(cls, line: Callable[[str], None] | None) -> Observer:
        """One that hears what the program prints, line by line; nothing without ``line``."""
        return cls(output=lambda _, text: line(text.rstrip("\n"))) if line else cls()


@dataclass(frozen=True)
class ProgramEnd:
    """How a program ended: its exit status (negative: the signal; None: it ran past ``limit_s`` and
    was stopped), after how many seconds, and what it said ``last`` on stderr."""

    status: int | None
    seconds: float
    limit_s: float | None = None
    last: str = ""

    @property
    def failure(self) -> str:
        """Why it counts as failed, in words; empty if it did not fail."""
        if self.status is None:
            return f"the program exceeded --timeout {self.limit_s:g} s and was stopped"
        killed = f"was killed by {processes.ending(self.status)}"
        how = killed if self.status < 0 else f"failed with exit status {self.status}"
        return f"the program {how}{': ' if self.last else ''}{self.last}" if self.status else ""


@dataclass
class Session:
    """One recording of ``subject`` into the run directory ``out``, which ``force`` may replace.
    Raises UsageError for a target that may not be written.

    ``timeout_s`` is for each run of the program; ``turn`` is held while it runs. Inside of
    ``open``, ``folder`` is what becomes ``out``, ``work`` lies beside it and vanishes, and
    ``manifest`` is what will be written.
    """

    subject: Subject
    out: Path
    force: bool = False
    timeout_s: float | None = None
    observer: Observer = field(default_factory=Observer)
    turn: AbstractContextManager[object] = field(default_factory=nullcontext)
    folder: Path = field(init=False)
    work: Path = field(init=False)
    manifest: Manifest = field(init=False, default_factory=Manifest)

    def __post_init__(self) -> None:
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise UsageError(
                f"--timeout {self.timeout_s}: not a positive number of seconds",
                "give a positive number of seconds, or omit it",
            )
        staging.check_target(self.out, self.force)

    @cached_property
    def gpu(self) -> Device | DriverError:
        """The first visible GPU, or why there is none."""
        try:
            return describe()
        except DriverError as error:
            return error

    def require_gpu(self) -> None:
        """Raise NoGpuError where there is none: for recorders that would let the program run in
        vain."""
        if isinstance(self.gpu, DriverError):
            raise NoGpuError(str(self.gpu))

    @contextmanager
    def open(self) -> Iterator[None]:
        """The block records. Where it ends well, ``folder`` with its manifest becomes ``out``; else
        nothing is left. Raises DiskError."""
        place = self.subject.place
        git = dict(place.git) if place.git is not None else git_state(place.folder or Path.cwd())
        with staging.staged(self.out, self.force) as folder:
            self.folder = folder.absolute()
            self.work = self.folder.parent
            now = utc_now()
            self.manifest = Manifest(
                outcome="ok",
                started=now,
                ended=now,
                argv=portable(self.subject.argv),
                git=git,
                device=self.gpu.as_facts() if isinstance(self.gpu, Device) else {},
                rank=ranks.of_environ({**os.environ, **place.env}),
            )
            yield
            self.close()

    def run(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        on_text: Callable[[processes.Stream, str], None] | None = None,
    ) -> ProgramEnd:
        """Run ``argv``, which is the program or starts it, where the subject is, with ``env`` added
        to its environment, until it ends or its time is up. ``on_text`` hears its output instead of
        the observer. Raises UsageError if it cannot be started."""
        place, begun = self.subject.place, time.monotonic()
        environment = {**os.environ, **place.env, **env}
        status: int | None = None
        with self.turn:
            hear, tail = on_text or self.observer.output, ""

            def heard(stream: processes.Stream, text: str) -> None:
                nonlocal tail
                tail = f"{tail}{text}"[-LAST_B:] if stream == "stderr" else tail
                hear(stream, text)

            with suppress(processes.TimedOutError):
                status = processes.stream(argv, environment, heard, self.timeout_s, place.folder)
        self.record(ended=utc_now())
        return ProgramEnd(
            status, time.monotonic() - begun, self.timeout_s, " ".join(tail.split("\n")[-LAST_LINES - 1 :]).strip()
        )

    def part(self, name: str) -> Session:
        """A session within this open one, for one launch of several: with a manifest and a folder
        of its own, ``name`` below this one's, which ``close`` completes."""
        part = copy(self)
        part.folder = self.folder / name
        part.folder.mkdir()
        return part

    def close(self) -> None:
        """Write the manifest; ``open`` does it for its session."""
        self.manifest.save(self.folder)

    def record(self, **members: Any) -> None:
        """Set members of the manifest."""
        self.manifest = replace(self.manifest, **members)

    def note(self, *notes: str) -> None:
        """Add notes to the manifest, each once."""
        self.record(notes=list(dict.fromkeys([*self.manifest.notes, *notes])))

    def fail(self, failure: str) -> None:
        """Record that the program failed, where what it did until then is kept."""
        self.record(outcome="failed", notes=[failure, *self.manifest.notes])


def run_folder(out: Path | None, label: str) -> Path:
    """Where a run goes: ``out``, or a new folder in ``runs``; for one of several ranks, a folder of
    its own below or beside it."""
    place = out if out is not None else staging.default_out(label)
    return ranks.folder_of(place, ranks.of_environ(), named=out is not None)


def portable(argv: Sequence[str]) -> list[str]:
    """Without what says nothing on another machine: the path of this interpreter, and whose home it
    is."""
    home = f"{Path.home()}{os.sep}"
    return ["python" if text == sys.executable else text.replace(home, f"~{os.sep}") for text in argv]
