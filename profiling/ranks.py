"""Which rank of a program on many GPUs a run belongs to: told by the launcher's environment, or by
a file's name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ncubble.profiling.runs import Members, Run

LAUNCHERS = (
    # rank, size, rank on its node
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
)
"""Variables that launchers set, innermost launcher first: mpirun below Slurm sets both. A rank only
counts together with its size: RANK alone may come from anywhere, and a Slurm batch script also has
a SLURM_PROCID."""
VARIABLES = frozenset(name for names in LAUNCHERS for name in names)
FROM_NAME = "name"
_LARGEST = 1 << 24
_NAMED = re.compile(r"(?<![a-z0-9])(?:rank|procid|proc|gpu)[._=-]?(\d{1,7})(?!\d)", re.IGNORECASE)


@dataclass(frozen=True)
class Rank:
    """The place of a run among the processes of its program.

    ``size`` is how many there are, None where not known. ``source`` is the variable that told it,
    or ``name``. ``program`` is equal for all ranks of one program and names it: the path without
    what tells the ranks apart.
    """

    rank: int
    size: int | None
    source: str
    program: str


def of_environ(environ: Mapping[str, str] = os.environ) -> Members:
    """The member ``rank`` of a manifest: ``rank``, ``size``, ``local_rank`` (or null) and
    ``source``.

    Empty where no launcher tells a rank, and where there is one process only.
    """
    for name, size_name, local_name in LAUNCHERS:
        rank, size = _number(environ.get(name)), _number(environ.get(size_name))
        if rank is not None and size is not None and rank < size and size > 1:
            return {"rank": rank, "size": size, "local_rank": _number(environ.get(local_name)), "source": name}
    return {}


def _number(text: str | None) -> int | None:
    known = text is not None and re.fullmatch(r"[0-9]{1,8}", text) is not None
    return int(text) if known and text is not None and int(text) < _LARGEST else None


def folder_of(out: Path, rank: Members, named: bool) -> Path:
    """Where one rank's run goes: below a folder that was named, beside the other ranks' under a
    default name.

    Without a rank it is ``out`` itself.
    """
    if not rank:
        return out
    mark = f"rank{rank['rank']:0{len(str(rank['size'] - 1))}d}"
    return out / mark if named else out.with_name(f"{out.name}-{mark}")


def rank_of(run: Run) -> Rank | None:
    """The rank of a run, by its manifest, else by the names of its file and of the folder that this
    lies in."""
    recorded = run.manifest.rank
    path = run.path if run.path != run.report or run.path.stem != "report" else run.path.parent
    by_name = _from_name(path)
    if isinstance(recorded.get("rank"), int):
        size = recorded.get("size")
        program = by_name.program if by_name and by_name.rank == recorded["rank"] else str(path.parent)
        return Rank(recorded["rank"], size if isinstance(size, int) else None, str(recorded.get("source", "")), program)
    return by_name


def _from_name(path: Path) -> Rank | None:
    """The last part of a path, or the folder that it lies in, names a rank: ``rank3``,
    ``report.rank3.ncu-rep``."""
    for part in (path, path.parent):
        if match := next(iter(_NAMED.finditer(part.name)), None):
            without = part.name[: match.start()] + "*" + part.name[match.end() :]
            program = part.with_name(without) / path.name if part != path else part.with_name(without)
            return Rank(int(match[1]), None, FROM_NAME, str(program))
    return None
