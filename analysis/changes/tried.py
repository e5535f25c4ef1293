"""Changes that were made and timed (``ncubble try``): plain data, kept as ``changes.json`` of a run
directory (docs/reference/runs.md)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from ncubble.errors import ReportError
from ncubble.records import WrongFieldError, typed
from ncubble.store import draft_of

FILE, ELITES_FILE = "changes.json", "elites.json"
ELITES = 3
SCHEMA = 1
Value = int | str
Settings = Mapping[str, Value]

NOT_COMPARED = "not compared"
OK, REFUSED, SPILLS, DIFFERS, FAILED, LEFT = "ok", "refused", "spills", "differs", "failed", "left out"
"""Outcomes: timed; compiler or GPU does not take it; spills more registers than the base, so it was
not timed; other results; ended the program; not reached before the time was up."""
CONFIDENT = 1.96
"""Standard deviations on either side of a middle, for 95 %."""


@dataclass(frozen=True)
class Built:
    """What the compiler made of settings: registers of a thread, bytes that it spills, shared
    memory of a CTA in bytes. None where it is not known."""

    registers: int | None = None
    spilled_B: int | None = None  # noqa: N815
    shared_B: int | None = None  # noqa: N815


@dataclass(frozen=True, kw_only=True)
class TriedChange:
    """One change of ``name`` from the base's value to another; ``kind`` as of ``Change``.
    ``gain_pct`` of the base's time, negative for a loss, with the bounds of its 95 % interval.
    ``difference`` is the largest one of the results, relative to their largest value; None where
    nothing was compared. ``why`` says more of an outcome that is not ``OK``."""

    kind: str
    name: str
    before: Value
    after: Value
    outcome: str
    why: str = ""
    us: float | None = None
    gain_pct: float | None = None
    low: float | None = None
    high: float | None = None
    built: Built = Built()
    difference: float | None = None

    @property
    def gains(self) -> bool:
        """Whether it is faster than the base, beyond the noise of the timing."""
        return self.outcome == OK and self.low is not None and self.low > 0.0


@dataclass(frozen=True, kw_only=True)
class TriedRound:
    """All changes of one base, timed in turns with it."""

    settings: Settings
    us: float
    sm_mhz: int
    built: Built
    changes: list[TriedChange]

    @property
    def best(self) -> TriedChange | None:
        """The fastest change that gains; None without."""
        gaining = [change for change in self.changes if change.gains]
        return max(gaining, key=lambda change: change.gain_pct or 0.0, default=None)


@dataclass(frozen=True, kw_only=True)
class Tried:
    """Changes of one kernel. ``language``: ``triton``, ``catalog`` or ``program``. ``compared``:
    with what results were compared. The first round stands on what the program runs; each other one
    on the best change of the one before."""

    kernel: str
    language: str
    device: str
    compared: str
    rounds: list[TriedRound]
    seconds: float = 0.0
    stopped: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def base(self) -> TriedRound:
        """What the program runs, and its changes."""
        return self.rounds[0]

    def save(self, folder: Path) -> None:
        """Write ``changes.json``."""
        with draft_of(folder / FILE) as draft:
            draft.write_text(json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1) + "\n", encoding="utf-8")

    @property
    def elites(self) -> list[tuple[float, Settings]]:
        """The fastest settings that were timed, at most three, with their gain on the base in
        percent of its time. Rounds are joined by the change that leads from one to the next."""
        factor, found = 1.0, [(0.0, self.base.settings)]
        for made in self.rounds:
            for change in made.changes:
                if change.outcome == OK and change.gain_pct is not None:
                    gained = 100.0 * (1.0 - factor * (1.0 - change.gain_pct / 100.0))
                    found.append((gained, {**made.settings, change.name: change.after}))
            factor *= 1.0 - (made.best.gain_pct or 0.0) / 100.0 if made.best else 1.0
        ranked: dict[str, tuple[float, Settings]] = {}
        for gained, settings in sorted(found, key=lambda item: -item[0]):
            ranked.setdefault(json.dumps(settings, sort_keys=True), (gained, settings))
        return list(ranked.values())[:ELITES]

    def save_elites(self, folder: Path) -> None:
        """Write ``elites.json``."""
        elites = [{"gain_pct": gained, "settings": dict(settings)} for gained, settings in self.elites]
        about = {"schema": SCHEMA, "kernel": self.kernel, "device": self.device, "base": dict(self.base.settings)}
        with draft_of(folder / ELITES_FILE) as draft:
            draft.write_text(json.dumps({**about, "elites": elites}, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Tried | None:
        """The changes of a run directory; None where none were tried. Raises ReportError for a
        damaged file."""
        path = folder / FILE
        if not path.is_file():
            return None
        try:
            return typed(json.loads(path.read_text(encoding="utf-8")), cls)
        except (OSError, ValueError, WrongFieldError) as error:
            raise ReportError(f"{path}: cannot be read: {error}", "try the changes again") from error


def gain(base_us: Sequence[float], us: Sequence[float]) -> tuple[float, float, float]:
    """Gain in percent of the base's time, with the bounds of its interval, of times that were taken
    in turns: the median of the ratios of neighbours, and the ratios between which it lies with 95 %
    (order statistics; of eight or fewer, all of them)."""
    ratios = sorted(100.0 * (1.0 - own / base) for own, base in zip(us, base_us, strict=True) if base > 0)
    if not ratios:
        return 0.0, 0.0, 0.0
    least = max(0, int(len(ratios) / 2 - CONFIDENT * math.sqrt(len(ratios)) / 2))
    return median(ratios), ratios[least], ratios[-1 - least]
