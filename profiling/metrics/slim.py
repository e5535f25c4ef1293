"""Cuts ncu's own section files down to the series that the analysis reads.

ncu samples a series alone in a pass when it is named on the command line; only a section file puts
many into one pass, in groups tuned per chip. The stock PM-sampling section collects 32 series on an
H200, of which few are read here. So the installed section is used without the unread series. If it
is not found, or has an unexpected form, it is used completely, with a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ncubble.profiling.metrics.metrics import MetricSelection

PREFIX = "Ncubble_"
_ALWAYS = ("profiler__", "gpc__cycles_elapsed", "gpu__time_duration")
_IDENTIFIER = re.compile(r'^(\s*Identifier:\s*")(\w+)(")', re.MULTILINE)
_OPENING = re.compile(r"\bMetrics\s*\{")


@dataclass(frozen=True)
class Slimmed:
    """The replaced selection, and the section folders for ncu (none: its own)."""

    selection: MetricSelection
    folders: tuple[Path, ...] = ()


def prepare(folder: Path, selection: MetricSelection, stock: Path | None) -> Slimmed:
    """Write slim versions of the sections in ``selection.slim`` into ``folder``; ``stock`` holds
    ncu's own files."""
    names = [name for name in selection.sections if name in selection.slim]
    if not names:
        return Slimmed(selection)
    texts = {name: _slim_file(stock, name, selection.slim[name]) for name in names}
    done = {name: text for name, text in texts.items() if text}
    notes = tuple(
        f"section {name} collected in full: its section file of ncu was not found" for name in names if name not in done
    )
    selection = replace(selection, notes=(*selection.notes, *notes))
    if not done or stock is None:
        return Slimmed(selection)
    folder.mkdir()
    for name, text in done.items():
        (folder / f"{PREFIX}{name}.section").write_text(text, encoding="utf-8")
    sections = tuple(PREFIX + name if name in done else name for name in selection.sections)
    return Slimmed(replace(selection, sections=sections), (folder, stock))


def _slim_file(stock: Path | None, name: str, stems: Sequence[str]) -> str:
    file = stock / f"{name}.section" if stock else None
    if file is None or not file.is_file():
        return ""
    return slim(file.read_text(encoding="utf-8", errors="replace"), stems)


def slim(text: str, stems: Sequence[str]) -> str:
    """A section without the metrics whose names hold none of ``stems``, under a name of its own; ""
    if none is left."""
    blocks = list(_innermost(text))
    kept = [block for block in blocks if any(stem in text[slice(*block)] for stem in stems)]
    if not kept or not _IDENTIFIER.search(text):
        return ""
    for start, end in reversed(blocks):
        if (start, end) not in kept and not any(stem in text[start:end] for stem in _ALWAYS):
            text = text[:start] + text[end:]
    return _IDENTIFIER.sub(rf"\g<1>{PREFIX}\g<2>\g<3>", text, count=1)


def _innermost(text: str) -> Iterator[tuple[int, int]]:
    """Borders of each ``Metrics { … }`` that holds no other, in order."""
    for match in _OPENING.finditer(text):
        end = _closing(text, match.end() - 1)
        if end and not _OPENING.search(text, match.end(), end):
            yield match.start(), end


def _closing(text: str, start: int) -> int:
    """Position behind the brace that closes the one at ``start``; 0 where none does."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if not depth:
            return match.end()
    return 0


def stock_sections(ncu: str, release: str) -> Path | None:
    """Folder of ncu's own section files: the user's deployed copy of this release, or the
    installation's."""
    version = ".".join(release.split(".")[:3])
    real = Path(ncu).resolve()
    places = [
        Path.home() / "Documents" / "NVIDIA Nsight Compute" / version / "Sections",
        *(parent / "sections" for parent in list(real.parents)[:3]),
        Path("/opt/nvidia/nsight-compute") / version / "sections",
    ]
    return next((place for place in places if (place / "PmSampling.section").is_file()), None)
