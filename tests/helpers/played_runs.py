"""Runs without a GPU: instead of ncu, a player writes launches whose speed stands in a file of the
profiled tree."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from ncubble.profiling.runs import provenance
from ncubble.profiling.runs.run import Manifest, Run
from tests.helpers.gate_frames import STEADY, STEADY_CYCLES, report

SPEED = "speed"
"""A file beside the sources: how fast their kernel is, 1 being usual."""


@dataclass
class Player:
    """Takes the place of ``cli.profile.observed`` and of ``open_reports``.

    ``requests`` are those that were played; ``answers``, by their number from 0, what is raised
    then, or called first.
    """

    facts: dict[str, Any]
    sass: list[str] = field(default_factory=list)
    build: dict[str, Any] = field(default_factory=dict)
    requests: list[Any] = field(default_factory=list)
    answers: dict[int, Any] = field(default_factory=dict)

    def observed(self, request: Any) -> Run:
        number = len(self.requests)
        self.requests.append(request)
        answer = self.answers.get(number)
        if isinstance(answer, Exception):
            raise answer
        if answer is not None:
            answer()
        folder = request.place.folder or Path.cwd()
        speed = float((folder / SPEED).read_text()) if (folder / SPEED).exists() else 1.0
        wobble = 1 + 0.0003 * (number % 3)
        numbers = {"tensor": [value * speed * wobble for value in STEADY]}
        numbers["cycles"] = [value / speed * wobble for value in STEADY_CYCLES]
        git = dict(request.place.git) if request.place.git is not None else provenance.git_state(folder)
        launches = [{"kernel": "gemm", "passes": 1}] * len(STEADY)
        manifest = Manifest(kernel=self.facts, git=git, build=self.build, report={"launches": launches})
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
            one.source_of = lambda launch: pd.DataFrame({"sass": self.sass})  # type: ignore[attr-defined]
            found.append(one)
        return found, []

    def install(self, patch: Any) -> Player:
        patch.setattr("ncubble.cli.commands.profile.observed", self.observed)
        patch.setattr("ncubble.analysis.report.report.open_reports", self.open_reports)
        return self
