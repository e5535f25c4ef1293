"""Runs without a GPU: instead of ncu, a player writes launches whose speed stands in a file of the
profiled tree."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.gate.draws import FOLDER, METRICS, load
from ncubble.profiling import provenance
from ncubble.profiling.runs import Manifest, Run
from tests.helpers.gate_frames import GPU, STEADY, STEADY_CYCLES, report

SPEED = "speed"
"""A file beside the sources: how fast their kernel is, 1 being usual."""


def recorded_request(session: Any, settings: Any) -> SimpleNamespace:
    """What was to be profiled, and how, in one object."""
    subject = session.subject
    filters = replace(settings.filters, kernel=settings.filters.kernel or subject.function)
    return SimpleNamespace(**{**vars(settings), "filters": filters}, program=list(subject.argv), place=subject.place,
                           out=session.out, timeout_s=session.timeout_s)  # fmt: skip


@dataclass
class Player:
    """Takes the place of the recorder ``ncu.profile`` and of ``open_reports``.

    ``requests`` are those that were played; ``answers``, by their number from 0, what is raised
    then, or called first. The file is that of the folder or, where the environment names one, of
    the compiler's toolkit.
    """

    facts: dict[str, Any]
    build: dict[str, Any] = field(default_factory=dict)
    requests: list[Any] = field(default_factory=list)
    answers: dict[int, Any] = field(default_factory=dict)
    device: dict[str, Any] = field(default_factory=dict)

    def numbers(self, number: int, speed: float) -> dict[str, list[float]]:
        """What the launches of process ``number`` measure."""
        wobble = 1 + 0.0003 * (number % 3)
        cycles = [value / speed * wobble for value in STEADY_CYCLES]
        return {"tensor": [value * speed * wobble for value in STEADY], "cycles": cycles}

    def profile(self, session: Any, settings: Any) -> Run:
        request, number = recorded_request(session, settings), len(self.requests)
        self.requests.append(request)
        answer = self.answers.get(number)
        if isinstance(answer, Exception):
            raise answer
        if answer is not None:
            answer()
        folder = Path(request.place.env.get("CUDA_HOME") or request.place.folder or Path.cwd())
        speed = float((folder / SPEED).read_text()) if (folder / SPEED).exists() else 1.0
        numbers = self.numbers(number, speed)
        git = dict(request.place.git) if request.place.git is not None else provenance.git_state(folder)
        launches = [{"kernel": "gemm", "passes": 1}] * len(numbers["tensor"])
        manifest = Manifest(
            kernel=self.facts, git=git, build=self.build, device=self.device, report={"launches": launches}
        )
        request.out.mkdir(parents=True)
        manifest.save(request.out)
        (request.out / "played.json").write_text(json.dumps(numbers))
        return Run(request.out, request.out / "played.json", manifest)

    def open_reports(self, paths: list[Path], *_: Any, **__: Any) -> tuple[list[Any], list[Any]]:
        found = []
        for path in paths:
            raw = json.loads((path / "run.json").read_text())
            one = report(**json.loads((path / "played.json").read_text()), kernel=raw["kernel"], key=str(path))
            manifest = Manifest.from_json(json.dumps(raw), path)
            one.run = Run(path, path / "played.json", manifest)
            found.append(one)
        return found, []

    def install(self, patch: Any) -> Player:
        patch.setattr("ncubble.profiling.ncu.find_ncu", lambda: None)
        patch.setattr("ncubble.profiling.recorders.ncu.profile", self.profile)
        patch.setattr("ncubble.analysis.report.report.open_reports", self.open_reports)
        return self


@dataclass
class RecordedPlayer(Player):
    """Plays processes that were recorded on one GPU, in an order drawn by ``seed``: what differs
    between their launches, between processes and by the clock is real. Only the speed is made."""

    series: str = "gemm_mma_swizzled"
    seed: int = 0

    def __post_init__(self) -> None:
        members = load(FOLDER / "series.parquet")[self.series]
        by_gpu = [[one for one in members if one.gpu == gpu] for gpu in sorted({one.gpu for one in members})]
        self.device = {"uuid": GPU}
        self.random = random.Random(f"{self.series}/{self.seed}")  # noqa: S311
        self.processes = max(by_gpu, key=len)
        self.order: list[Any] = []

    def numbers(self, number: int, speed: float) -> dict[str, list[float]]:
        if not self.order:
            self.order = self.random.sample(self.processes, len(self.processes))
        process = self.order.pop()
        chosen = self.random.sample(range(len(process)), len(STEADY))
        tensor, cycles = (process.values[name] for name in METRICS)
        return {
            "tensor": [tensor[i] * speed for i in chosen],
            "cycles": [cycles[i] / speed for i in chosen],
            "sm_clock_hz": [process.clocks[i] for i in chosen],
        }
