"""One job of a sweep: what is to be measured, where, and the name by which a store knows that it
has it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

State = Literal["ok", "incomplete", "failed", "unable", "lost"]
"""``ok`` and ``incomplete`` have a run (as ``Manifest.outcome``); ``failed``: this job cannot be
measured; ``unable``: this worker cannot measure anything; ``lost``: the worker ended during the
job."""

KEY_DIGITS = 16
LONGEST_LABEL = 80


@dataclass(frozen=True)
class Machine:
    """A worker's machine, as far as it decides what a measurement stands for, and how to tell its
    GPU from others.

    ``tools`` are versions by name (``ncu``, ``nvcc``, ``numba``), empty where there is none.
    ``why_not`` says why nothing can be measured there; empty if it can. ``gpus`` are all that are
    visible there, the worker's own first.
    """

    device: str = ""
    uuid: str = ""
    capability: str = ""
    driver: str = ""
    host: str = ""
    tools: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()
    why_not: str = ""

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Machine:
        """As ``asdict`` gave it."""
        return cls(**{**raw, "gpus": tuple(raw.get("gpus", ()))})

    def kind(self, tools: Sequence[str]) -> tuple[str, ...]:
        """What two machines must share for their measurements to be one sweep: GPU model, and
        versions of ``tools``."""
        return (self.device, *(self.tools.get(name, "") for name in tools))


@dataclass(frozen=True)
class SweepJob:
    """``about`` says what is measured (kernel, parameters, shape, code, sets, …), JSON-ready; equal
    ``about`` on equal machines is equal work. ``order`` is what the worker's child needs to do it.
    ``point`` are the varied values."""

    about: Mapping[str, Any]
    order: Mapping[str, Any]
    point: Mapping[str, str]
    label: str

    def key(self, machine: Machine, tools: Sequence[str]) -> str:
        """The job's name in a store, for machines like this one."""
        text = json.dumps([self.about, machine.kind(tools)], sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]

    def folder(self, key: str) -> str:
        """The name of its run directory, which ends in ``key``."""
        clean = re.sub(r"[^A-Za-z0-9._-]+", "-", self.label.replace("=", "")).strip("-.") or "job"
        return f"{clean[:LONGEST_LABEL].rstrip('-.')}-{key}"


@dataclass(frozen=True)
class Attempt:
    """One try: when (UTC), for how long, where, and what came of it. ``exit_code`` is that of
    ``ncubble profile``."""

    state: State
    started: str = ""
    ended: str = ""
    seconds: float = 0.0
    host: str = ""
    gpu: str = ""
    error: str = ""
    remedy: str = ""
    exit_code: int = 0

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


@dataclass(frozen=True)
class Reply:
    """What a worker sends back. ``suspect``: the job ended so badly that the worker is restarted.
    ``files`` are those of the run directory, by name; empty without a run."""

    attempt: Attempt
    suspect: bool = False
    files: Mapping[str, bytes] = field(default_factory=dict)
