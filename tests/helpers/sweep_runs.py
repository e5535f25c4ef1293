"""Sweeps without a GPU: the jobs of the test catalog's ``saxpy``, and a child that plays what is
measured."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncubble.cli.commands.sweep import plan as sweep_plan
from ncubble.profiling import orphans
from ncubble.profiling.sweeps import sweep
from ncubble.profiling.sweeps.grid import Sampling
from ncubble.profiling.sweeps.job import Machine, SweepJob
from ncubble.profiling.sweeps.pool import DaskPool
from ncubble.profiling.sweeps.store import Record, Store
from ncubble.recordings import ROOT

DATA = Path(__file__).parents[1] / "data"
CHILD = ("-P", str(DATA / "stub_sweep.py"))
TOOLS = ("ncu", "nvcc")
H200 = Machine("NVIDIA H200", "GPU-1", "9.0", "580", "host", {"ncu": "2025.3.1", "nvcc": "13.0"})
OPTIONS = sweep.Options(tries=2, wait_s=60.0)


def planned(*axes: str, **more: Any) -> sweep_plan.Planned:
    """Jobs of the kernel ``saxpy`` (dimension ``n``, parameter ``threads``), without a GPU."""
    sampling = more.pop("sampling", Sampling())
    given = {
        "parameters": [],
        "shape": None,
        "sets": [],
        "metrics": [],
        "repeat": 1,
        "catalog": DATA / "catalog",
    } | more
    return sweep_plan.plan(sweep_plan.sweep_request("saxpy", axes, sampling=sampling, **given))


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
            "STUB_RUN": str(ROOT / "softmax_online" / "default"),
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


def played_probe(child: Any) -> Machine:
    """What ``stub_sweep.py`` says of a worker's machine, without the cost of a process."""
    gpu = os.environ["CUDA_VISIBLE_DEVICES"]
    return Machine("NVIDIA H200", gpu, "9.0", "580", "host", {"ncu": "2025.3.1", "nvcc": "13.0"}, (gpu,))


def run(client: Any, store: Store, todo: list[SweepJob], limit_s: float = 60.0, **more: Any) -> dict[int, Record]:
    """A whole sweep on the cluster of ``client``; the record of each size of ``n``."""
    options = sweep.Options(**{**vars(OPTIONS), **more})
    pool = DaskPool(client, CHILD, limit_s, probe=played_probe)
    try:
        team = sweep.gather(pool, pool.open(), TOOLS, options)
        plan = sweep.plan(todo, store, next(iter(team.machines.values())), TOOLS, options)
        records = dict(plan.held)
        sweep.sweep(plan.todo, store, pool, team, options, lambda task, record: records.update({task.key: record}))
    finally:
        pool.close()
    return {plan.tasks[key].job.about["shape"]["n"]: record for key, record in records.items()}
