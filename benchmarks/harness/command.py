"""Where benchmarks find the checkout, and how they start ncubble and one another in processes of
their own."""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
# -P: the folder ncubble/ of the checkout would hide the installed package.
NCUBBLE = (sys.executable, "-P", "-c", "from ncubble.cli.main import main; main()")


def module(name: str) -> list[str]:
    """The command line that runs ``benchmarks.NAME``; its process has to start in the
    repository."""
    return [sys.executable, "-m", f"benchmarks.{name}"]
