"""What is recorded: a program, what its run is called, and where it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ncubble.profiling.processes import require_program


@dataclass(frozen=True)
class Place:
    """Where a program runs: its working directory (None: the current one), what is added to the
    environment, and the state of the source tree that the manifest keeps (None: read off the
    directory by ``provenance.git_state``)."""

    folder: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    git: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Subject:
    """A program to record. ``argv`` is run without a shell; ``label`` names its run directory;
    ``function`` is the GPU function to select where nothing else is asked for (empty: any);
    ``note`` is for whoever records it (why results have no reference)."""

    argv: Sequence[str]
    label: str = ""
    function: str = ""
    place: Place = field(default_factory=Place)
    note: str = ""

    @classmethod
    def of_program(cls, argv: Sequence[str]) -> Subject:
        """Any command line. Raises UsageError if it does not begin with a program that can be
        started."""
        require_program(argv)
        return cls(tuple(argv), Path(argv[0]).name)
