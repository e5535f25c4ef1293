"""What may be read: what was named, and what lies below it. A link in a folder of reports may lead
elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ncubble.analysis.ablation.result import FILE as ABLATION
from ncubble.errors import ReportError
from ncubble.profiling.runs import CONTENT, MANIFEST

OUTSIDE = ReportError(
    "a link that leads out of the folders that are shown", "name the file itself: ncubble dashboard FILE …"
)
_PARTS = ("", *(f"/{name}" for name in CONTENT))


def leads_out(path: Path, roots: Iterable[Path]) -> bool:
    """Whether the report at ``path``, or what belongs to it, is a link to something that lies below
    none of ``roots``.

    What was named itself leads nowhere, whatever it is: who named it meant it.
    """
    named = list(roots)
    if path in named:
        return False
    links = [link for part in _PARTS if os.path.islink(link := f"{path}{part}")]  # noqa: PTH114 - path may be a file
    if path.stem == "report":
        links += [link for name in (MANIFEST, ABLATION) if os.path.islink(link := f"{path.parent}/{name}")]  # noqa: PTH114
    real = [Path(os.path.realpath(root)) for root in named] if links else []
    return not all(_below(Path(os.path.realpath(link)), real) for link in links)


def _below(path: Path, roots: Iterable[Path]) -> bool:
    return any(path == root or root in path.parents for root in roots)
