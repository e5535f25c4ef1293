"""What a search has judged so far, kept in its folder: the same command goes on from there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ncubble.analysis.gate.bisect.judging import CandidateJudgement
from ncubble.errors import MeasurementError, ReportError, UsageError
from ncubble.records import Number, WrongFieldError, typed
from ncubble.store import draft_of, lock

FILE = "bisect.json"
SCHEMA = 1
LARGEST_B = 1 << 24
_LOCKED_S = 5.0
VERDICTS = ("good", "bad", "unsure", "skipped")


@dataclass(frozen=True)
class JudgedEntry:
    """The judgement on one candidate, by its name."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    verdict: str
    reason: str = ""
    rounds: Annotated[int, msgspec.Meta(ge=0)] = 0
    loss_pct: Number | None = None
    reach_pct: Number | None = None
    missing_pct: Number | None = None

    @property
    def judgement(self) -> CandidateJudgement:
        """It without the name."""
        return CandidateJudgement(self.verdict, self.reason, self.loss_pct, self.reach_pct, self.missing_pct)

    @classmethod
    def of(cls, name: str, judgement: CandidateJudgement, rounds: int) -> JudgedEntry:
        """An entry for a judgement."""
        return cls(name, rounds=rounds, **asdict(judgement))


@dataclass
class SearchJournal:
    """The entries of the search for ``request``, in ``folder``."""

    folder: Path
    request: dict[str, Any]
    entries: dict[str, JudgedEntry] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, request: dict[str, Any]) -> SearchJournal:
        """The journal at ``folder``, new where there is none. Raises UsageError where another search or
        something else lies there, ReportError where the file is damaged."""
        file = folder / FILE
        if not file.exists():
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                raise UsageError(f"{folder} exists and holds no search", "choose another --out")
            return cls(folder, request)
        kept = _read(file)
        if kept["request"] != request:
            old = kept["request"]
            other = [name for name in {**old, **request} if old.get(name) != request.get(name)]
            raise UsageError(
                f"{folder} holds another search ({', '.join(other)} differs)", "choose another --out, or remove it"
            )
        return cls(folder, request, {entry.name: entry for entry in kept["judged"]})

    def add(self, entry: JudgedEntry) -> None:
        """Keep a judgement; raises MeasurementError where it cannot be written."""
        self.entries[entry.name] = entry
        self.save()

    def save(self) -> None:
        """Write the file, whole or not at all; raises MeasurementError."""
        judged = [asdict(entry) for entry in self.entries.values()]
        text = json.dumps({"schema": SCHEMA, "request": self.request, "judged": judged}, indent=1) + "\n"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with draft_of(self.folder / FILE) as draft:
                draft.write_text(text, encoding="utf-8")
        except OSError as error:
            raise MeasurementError(
                f"{self.folder}: the search cannot be kept ({error.strerror or error})", "choose another --out"
            ) from error


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """While it lasts, no other process of this user searches in ``folder``."""
    held: AbstractContextManager[None] = lock(f"bisect {folder.resolve()}", f"the search in {folder}", _LOCKED_S)
    with held:
        yield


def _read(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > LARGEST_B:
            raise ReportError(
                f"{file}: larger than {LARGEST_B >> 20} MiB", "remove the folder, or choose another --out"
            )
        raw = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(raw, dict) or raw.get("schema") != SCHEMA or not isinstance(raw.get("request"), dict):
            raise WrongFieldError("", "is no search of this version")
        judged = typed(raw.get("judged"), list[JudgedEntry], "judged")
    except (OSError, ValueError) as error:
        raise ReportError(f"{file}: unusable: {error}", "remove the folder, or choose another --out") from error
    wrong = [entry.name for entry in judged if entry.verdict not in VERDICTS]
    if wrong:
        raise ReportError(f"{file}: {wrong[0][:40]} has no known verdict", "remove the folder, or choose another --out")
    return {"request": raw["request"], "judged": judged}
