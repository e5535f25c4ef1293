"""Where a run comes from: the state of the source tree, the facts that the program wrote, the
report's hash."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from ncubble.profiling.runs import KernelMembers, Members
from ncubble.records import WrongFieldError, typed

FACTS = "NCUBBLE_FACTS"
_MEMBERS = ("kernel", "build", "device", "clocks")
_LAUNCHES = "launches"
_GIT_TIMEOUT_S = 20.0
_FACTS_LIMIT_B = 1 << 20


@dataclass(frozen=True)
class Facts:
    """The members of a facts file, each an object, its list ``launches``, and notes on what could
    not be used."""

    members: dict[str, Members] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    launches: tuple[Members, ...] = ()

    def of_launches(self, kernels: Sequence[str], skipped: int = 0, limited: bool = False) -> Facts:
        """The facts of a run that profiled launches of these ``kernels`` behind ``skipped`` ones,
        all that there were unless ``limited``. A list of another length, or of other functions,
        tells nothing of them."""
        count, chosen = len(kernels), self.launches[skipped : skipped + len(kernels)]
        fits = len(chosen) == count and (limited or len(self.launches) == skipped + count)
        if fits and all(
            str(launch.get("function") or "") in name for launch, name in zip(chosen, kernels, strict=True)
        ):
            return replace(self, launches=chosen)
        if not self.launches:
            return self
        what = f"it has {len(self.launches)} entries for {count} launches" if not fits else "its function names differ"
        return replace(self, launches=(), notes=(*self.notes, f"facts file: member 'launches' ignored, {what}"))


def utc_now() -> str:
    """Now, as ISO 8601 in UTC with seconds: ``2026-11-20T11:04:08Z``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def git_state(folder: Path) -> Members:
    """``{"sha": …, "dirty": bool}`` of the repository around ``folder``; empty where there is none,
    or no git."""
    sha = git(folder, "rev-parse", "HEAD")
    status = git(folder, "status", "--porcelain")
    if not sha or status is None:
        return {}
    return {"sha": sha, "dirty": bool(status)}


def git(folder: Path, *arguments: str) -> str | None:
    """What git says in ``folder``; None where it fails, or there is none."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_GIT_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return os.fsdecode(done.stdout).strip()


def read_facts(path: Path) -> Facts:
    """What the program wrote to ``NCUBBLE_FACTS``. A file that is not what it should be is noted,
    never guessed at."""
    if not path.is_file():
        return Facts()
    try:
        if path.stat().st_size > _FACTS_LIMIT_B:
            raise ValueError("larger than 1 MiB")
        raw = typed(json.loads(path.read_text(encoding="utf-8")), Members)
    except (OSError, ValueError) as error:
        return Facts(notes=(f"facts file ignored: {error}",))
    members, notes = {}, []
    for name in (*_MEMBERS, _LAUNCHES):
        kind = list[KernelMembers] if name == _LAUNCHES else KernelMembers if name == "kernel" else Members
        try:
            if name in raw:
                typed(raw[name], kind, name)
                members[name] = raw[name]
        except WrongFieldError as error:
            notes.append(f"facts file: member {name!r} ignored: {error}")
    launches = members.pop(_LAUNCHES, ())
    return Facts(members, tuple(notes), tuple(launches))


def sha256(path: Path) -> str:
    """Hash of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
