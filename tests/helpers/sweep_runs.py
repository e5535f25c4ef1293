"""Sweeps without a GPU: the jobs of the test catalog's ``saxpy``, and a child that plays what is
measured."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncubble.api.sweeping import SweepPlan, plan_sweep
from ncubble.profiling import orphans
from ncubble.profiling.sweeps.store import SCHEMA, Machine, Record, Store, SweepJob
from ncubble.profiling.sweeps.worker import measured_here
from ncubble.recordings import H100
from ncubble.records import read_record

DATA = Path(__file__).parents[1] / "data"
CHILD = ("-P", str(DATA / "stub_sweep.py"))
TOOLS = ("ncu", "nvcc")
H200 = Machine("NVIDIA H200", "GPU-1", "9.0", "580", "host", {"ncu": "2025.3.1", "nvcc": "13.0"})


def planned(*axes: str, **more: Any) -> SweepPlan:
    """Jobs of the kernel ``saxpy`` (dimension ``n``, parameter ``threads``), without a GPU."""
    return plan_sweep("saxpy", axes, **{"catalog": DATA / "catalog", **more})


def records_of(store: Store) -> list[Record]:
    """Everything in the journal."""
    paths = sorted(store.journal.glob("[!.]*.json"))
    return [record for path in paths if (record := read_record(path, Record, SCHEMA, "", "")) is not None]


def jobs(*sizes: int) -> list[SweepJob]:
    """One job for each size of ``n``."""
    return planned(f"n={','.join(map(str, sizes))}").jobs


@dataclass
class Stub:
    """Steers the children that ``stub_sweep.py`` plays, in this process' environment and those it
    starts."""

    folder: Path

    def __post_init__(self) -> None:
        self.behave({})
        self.environment = {
            "STUB_PLAN": str(self.folder / "plan.json"),
            "STUB_LOG": str(self.folder / "log"),
            "STUB_RUN": str(H100 / "softmax_online" / "default"),
            "TMPDIR": str(self.folder),
        }
        os.environ.update(self.environment)

    def behave(self, plan: dict[int, str]) -> None:
        """From now on: what happens at which sizes."""
        (self.folder / "plan.json").write_text(json.dumps({str(size): what for size, what in plan.items()}))
        (self.folder / "log").write_text("")

    @property
    def begun(self) -> list[int]:
        """The sizes of the jobs that were begun since ``behave``, in order."""
        return [int(line.split()[0]) for line in (self.folder / "log").read_text().splitlines()]

    @property
    def left(self) -> list[str]:
        """What runs of this stub's jobs, as command lines; those of other tests, which run beside
        this one, are not."""
        own = f"STUB_LOG={self.environment['STUB_LOG']}".encode()
        return [line for pid, _ in orphans.marked() if (line := _command_line(pid, own))]


def _command_line(pid: int, environment: bytes) -> str:
    """The command line of a process that has ``environment``; empty if it has not, or is gone."""
    folder = Path("/proc") / str(pid)
    try:
        if environment not in (folder / "environ").read_bytes().split(b"\0"):
            return ""
        return f"{pid}: {(folder / 'cmdline').read_bytes().replace(bytes(1), b' ').decode(errors='replace')}"
    except OSError:
        return ""


def run(store: Store, todo: list[SweepJob]) -> dict[int, Record]:
    """A whole sweep on this machine; the record of each size of ``n``."""
    tasks, records = store.plan(todo, H200, TOOLS)
    for key, reply in measured_here(tasks, CHILD, 60.0, H200, lambda sentence: None):
        records[key] = store.settle(key, tasks[key], reply)
    sizes = {job.key(H200, TOOLS): job.about["shape"]["n"] for job in todo}
    return {sizes[key]: record for key, record in records.items()}
