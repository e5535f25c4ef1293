"""Measurements of a search, stored after each one: an interrupted search continues without
repeating any.

A search is deterministic given its results, so continuing means rerunning it with the stored
measurements.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ncubble.errors import MeasurementError, ReportError, UsageError
from ncubble.kernels.build.code_identity import code_digest
from ncubble.kernels.spec.case import Case
from ncubble.kernels.spec.spec import Value
from ncubble.kernels.tuning.trials import Trial
from ncubble.kernels.tuning.tuner import Bench, TuneAdvice
from ncubble.records import WrongFieldError, typed
from ncubble.store import draft_of

FILE, ELITES_FILE = "tune.json", "elites.json"
SCHEMA = 1


@dataclass(frozen=True)
class Setting:
    """Setting of a search; measurements of another setting are not reused."""

    kernel: str
    shape: Mapping[str, int]
    fixed: Mapping[str, Value]
    start: Mapping[str, Value]
    device: str
    driver: str
    iterations: int
    seed: int


@dataclass(frozen=True)
class KeptTrial:
    """A trial, and the digest of the code that it ran."""

    digest: str
    trial: Trial


@dataclass(frozen=True)
class KeptAdvice:
    """The advice on a configuration, and the digest of its code."""

    digest: str
    advice: TuneAdvice


@dataclass(frozen=True)
class KeptTurns:
    """Times in turns, in microseconds, of configurations by the digests of their code."""

    digests: tuple[str, ...]
    p50_us: tuple[float, ...]


@dataclass
class Journal:
    """The measurements of a search in ``folder``, newest last."""

    folder: Path
    setting: Setting
    trials: list[KeptTrial] = field(default_factory=list)
    advice: list[KeptAdvice] = field(default_factory=list)
    turns: list[KeptTurns] = field(default_factory=list)

    @classmethod
    def load(cls, folder: Path) -> Journal:
        """Raises ReportError if there is none, or it is damaged."""
        file, remedy = folder / FILE, "use a folder written by ncubble tune, or omit --resume"
        try:
            raw = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ReportError(f"{file}: cannot be read: {error}", remedy) from error
        try:
            return cls(
                folder,
                typed(raw["setting"], Setting),
                typed(raw["trials"], list[KeptTrial]),
                typed(raw["advice"], list[KeptAdvice]),
                typed(raw["turns"], list[KeptTurns]),
            )
        except (WrongFieldError, KeyError, TypeError) as error:
            raise ReportError(f"{file}: is damaged: {error}", remedy) from error

    def require(self, setting: Setting) -> None:
        """Raise UsageError if the stored search has another setting."""
        kept, asked = asdict(self.setting), asdict(setting)
        for name, value in kept.items():
            if value != asked[name]:
                message = f"{self.folder}: {name} was {value}, but is now {asked[name]}"
                raise UsageError(message, "repeat the original command, or use a new folder with --out")

    def save(self) -> None:
        """Raises MeasurementError if the folder is not writable."""
        kept = {"schema": SCHEMA, **{name: asdict(self)[name] for name in ("setting", "trials", "advice", "turns")}}
        write_json(self.folder / FILE, kept)


def write_json(file: Path, content: Any) -> None:
    """Write ``file`` atomically; raises MeasurementError."""
    try:
        with draft_of(file) as draft:
            draft.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise MeasurementError(
            f"{file}: cannot be written: {error}", "use a folder with free space with --out"
        ) from error


@dataclass
class KeptBench:
    """Measures through ``bench`` only what ``journal`` lacks for the same code, and stores it."""

    journal: Journal
    bench: Bench

    def measure(self, case: Case) -> Trial:
        """Same as ``bench``."""
        digest = code_digest(case)
        for kept in self.journal.trials:
            if kept.digest == digest and dict(kept.trial.parameters) == dict(case.parameters):
                return kept.trial
        trial = replace(self.bench.measure(case), parameters=dict(case.parameters))
        self.journal.trials.append(KeptTrial(digest, trial))
        self.journal.save()
        return trial

    def in_turns(self, cases: Sequence[Case]) -> list[float]:
        """Same as ``bench``."""
        digests = tuple(code_digest(case) for case in cases)
        for kept in self.journal.turns:
            if kept.digests == digests:
                return list(kept.p50_us)
        times = self.bench.in_turns(cases)
        self.journal.turns.append(KeptTurns(digests, tuple(times)))
        self.journal.save()
        return times

    def advise(self, case: Case) -> TuneAdvice | None:
        """Same as ``bench``; failures are not stored."""
        digest = code_digest(case)
        for kept in self.journal.advice:
            if kept.digest == digest:
                return kept.advice
        advice = self.bench.advise(case)
        if advice is not None:
            self.journal.advice.append(KeptAdvice(digest, advice))
            self.journal.save()
        return advice
