"""Profiles the replay of a recorded launch, in the order of an ablation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from ncubble.analysis.account.shares import NONE
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.capsules.replay import TAKEN
from ncubble.profiling.capsules.replays import TRIES, ReplayVariant, argv, write_plan
from ncubble.profiling.failures import ProgramFailedError
from ncubble.profiling.recorders.ncu import profile
from ncubble.profiling.runs import Run
from ncubble.profiling.session import Session, portable
from ncubble.profiling.subject import Subject

COUNTED_ROUNDS, TIMED_ROUNDS = 5, 21
"""Times scatter more than cycles; a launch without ncu takes only milliseconds."""


@dataclass(frozen=True)
class AblationOrder:
    """How to measure a launch. ``program``: the argv of the recorded program. ``timed``: measure
    time, without ncu. ``asked``: number of rounds; None for the default. ``short``: remove
    instructions where the code can be moved, instead of leaving NOPs. ``say`` is called with
    progress messages; ``turn`` is held while the GPU is used."""

    program: Sequence[str]
    asked: int | None = None
    timed: bool = False
    slack: bool = True
    short: bool = True
    say: Callable[[str], None] = lambda text: None
    turn: AbstractContextManager[object] = field(default_factory=nullcontext)

    @property
    def rounds(self) -> int:
        """Number of measurements per variant."""
        return self.asked or (TIMED_ROUNDS if self.timed else COUNTED_ROUNDS)


def profiled(capsule: Capsule, folder: Path, wanted: AblationOrder) -> Run:
    """Report of the launch, profiled from its replay, under the name of the program."""
    plan = write_plan(folder / "whole.json", [ReplayVariant(NONE, capsule.cubin)])
    run = _profile(Session(Subject(argv(capsule, plan)), folder / "run", turn=wanted.turn))
    note = "profiled from a replay of the recorded launch (ncubble ablate)"
    work = str(folder).replace(f"{Path.home()}/", "~/")
    command = [text.replace(work, "…") for text in run.manifest.ncu_argv]
    manifest = replace(run.manifest, argv=portable(wanted.program), ncu_argv=command, notes=[*run.manifest.notes, note])
    manifest.save(run.path)
    return Run.load(run.path)


def _profile(session: Session, tries: int = TRIES) -> Run:
    try:
        return profile(session)
    except ProgramFailedError as error:
        if error.code != TAKEN or tries == 1:
            raise
        return _profile(session, tries - 1)
