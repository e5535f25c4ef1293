"""Runs every launch once, in several processes and without a profiler: fills Triton's cache, and
finds what fails."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

TIMEOUT_S = 150.0


@dataclass
class Told:
    """By launch: why it is left out, and the kernels that its call launches where these are
    known."""

    errors: dict[str, str] = field(default_factory=dict)
    kernels: dict[str, list[str]] = field(default_factory=dict)


def prepare(argv: Sequence[str], names: Sequence[str], processes: int) -> Told:
    """Check ``names``, the launches of the program ``argv`` in its order, by so many processes at
    once.

    What kills a process costs that launch alone: the process is started anew for those after it.
    """
    told = Told()
    shares = [list(names[number::processes]) for number in range(processes)]
    with ThreadPoolExecutor(processes) as pool:
        for lines in pool.map(lambda share: _checked(argv, share), shares):
            for found in lines:
                if found["error"]:
                    told.errors[found["name"]] = found["error"]
                if found["kernels"]:
                    told.kernels[found["name"]] = found["kernels"]
    return told


def _checked(argv: Sequence[str], names: list[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while len(found) < len(names):
        lines, said = _attempt([*argv, "--check", "--launches", ",".join(names[len(found) :])])
        found += lines
        if len(found) < len(names) and not (lines and lines[-1]["error"]):
            found.append({"name": names[len(found)], "kernels": None, "error": f"ended its process: {said}"})
    return found


def _attempt(argv: Sequence[str]) -> tuple[list[dict[str, Any]], str]:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        out, said = done.stdout, done.stderr
    except subprocess.TimeoutExpired as error:
        out, said = _text(error.stdout), f"took more than {TIMEOUT_S:g} s"
    lines = [json.loads(line) for line in out.splitlines() if line.startswith('{"name"') and line.endswith("}")]
    return lines, (said.strip().splitlines() or ["no message"])[-1][:300]


def _text(said: str | bytes | None) -> str:
    return said.decode(errors="replace") if isinstance(said, bytes) else said or ""
