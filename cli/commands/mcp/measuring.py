"""Measurements that an agent may start if allowed: catalog kernels, and commands named at start-up.
No shell is involved, and nothing else is ever started."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncubble.cli.commands.mcp.roots import Roots
from ncubble.cli.terminal import fitted
from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling.processes import end_group
from ncubble.text.markup import printable

NCUBBLE = (sys.executable, "-P", "-c", "from ncubble.cli.main import main; main()")
TIMEOUT_S = 600
_TAIL = 400  # characters of what a program printed last


def named_commands(texts: Sequence[str]) -> dict[str, list[str]]:
    """``NAME=PROGRAM ARGUMENTS…`` by name. Raises UsageError for any other form."""
    found: dict[str, list[str]] = {}
    for text in texts:
        name, equals, command = text.partition("=")
        words = shlex.split(command) if equals else []
        if not name.isidentifier() or not words or name in found:
            raise UsageError(
                f"--command {text}: not NAME=PROGRAM ARGUMENTS…", "for example --command 'train=python train.py'"
            )
        found[name] = words
    return found


def _timed(run: Path) -> dict[str, Any] | None:
    """Result of an ablation without counters, which has no report; None for other runs."""
    from ncubble.analysis.ablation.result import Ablation

    ablation = Ablation.load(run)
    if ablation is None or not ablation.timed:
        return None
    parts = [{"part": part.part, "pct_of_time": part.measured, "interval": part.interval} for part in ablation.parts]
    return {"measure": "time, not cycles: no counters were read", "time_ns": ablation.time_ns, "parts": parts}


@dataclass(frozen=True)
class AgentRuns:
    """``folder``: folder for runs, below a root. ``commands``: argv by name."""

    roots: Roots
    folder: Path
    commands: Mapping[str, list[str]]

    def profile(self, target: str, run: str, parameters: dict[str, str | int] | None = None) -> dict[str, Any]:
        """Profile a catalog kernel (with parameters), or a command named at start-up, into the run
        directory RUN. Needs a GPU and ncu; takes half a minute or more."""
        return self._measured("profile", target, run, parameters)

    def ablate(self, target: str, run: str, parameters: dict[str, str | int] | None = None) -> dict[str, Any]:
        """Measure the cost of each part of a kernel by removing it from the machine code. Needs a
        GPU; without permission for counters (or without ncu) it measures time instead of cycles."""
        return self._measured("ablate", target, run, parameters)

    def _measured(
        self, action: str, target: str, run: str, parameters: Mapping[str, str | int] | None
    ) -> dict[str, Any]:
        argv = [*NCUBBLE, action, *self._subject(target, parameters or {}, self._out(run))]
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        try:
            printed, failed = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise MeasurementError(f"{action} {target}: not finished after {TIMEOUT_S} s", "measure less") from error
        finally:
            end_group(process)  # by SIGTERM, so that it ends ncu, too
        if process.returncode:
            last = printable((failed or printed).decode(errors="replace"))[-_TAIL:]
            raise MeasurementError(f"{action} {target} failed ({process.returncode}): {last}", "ncubble doctor --gpu")
        if (timed := _timed(self.folder / run)) is not None:
            return fitted({"run": str(self.folder / run), **timed}, "ncubble ablate RUN --json prints everything")
        written = self.roots.open([self.folder / run])[1]
        launches = [verdict.address for verdict in written.verdicts]
        return fitted({"run": str(self.folder / run), "launches": launches}, "list_launches lists the others")

    def _out(self, run: str) -> Path:
        if not run.replace("-", "_").isidentifier():
            raise UsageError(f"run {run!r}: not a name", "use letters, digits, - and _")
        if (self.folder / run).exists():
            raise UsageError(f"{self.folder / run}: exists", "choose another name")
        return self.folder / run

    def _subject(self, target: str, parameters: Mapping[str, str | int], out: Path) -> list[str]:
        from ncubble.kernels.catalog.registry import find_spec

        if target in self.commands:
            if parameters:
                raise UsageError(f"{target}: a command takes no kernel parameters", "name a kernel, or omit them")
            return ["--out", str(out), "--", *self.commands[target]]
        find_spec(target)  # raises for what is neither, naming what is near
        given = [word for key, value in parameters.items() for word in ("-p", f"{key}={value}")]
        return [target, *given, "--out", str(out)]
